// The path as a picture: stages with their rates and backlogs, in a row, in two, or, on a phone, below each other.

import { h, s } from "./dom.js";
import { count, rate, short, span } from "./words.js";

const PAGE_OF = {
  sources: "/pipeline", batcher: "/pipeline", packer: "/pipeline", tracker: "/fanouts",
  timeline: "/timeline", dispatcher: "/capacity", sink: "/capacity", ack: "/fanouts",
};
const STAGE_OF = {
  stuck_fanout: "tracker", failed_fanout: "tracker", dead_letters: "sink", no_consumers: "dispatcher", consumer_gone: "dispatcher",
  late: "dispatcher", spike: "timeline", clock: "timeline", paused: "sink",
};
const WORDS = { measurements: "measurement", messages: "message", fanouts: "fanout", items: "item", calls: "call" };
const STAGE_OF_PROCESS = { ingest: "sources", run: "batcher", work: "dispatcher" };

/** Where a point to look at stands in the picture. */
const stageOf = (point) => (point.kind === "silent" ? STAGE_OF_PROCESS[point.text.split(" ")[0]] : STAGE_OF[point.kind]);

/** The picture, `width` pixels wide. */
export function pathPicture({ stages, attention }, width, now) {
  const columns = width >= 940 ? 8 : width >= 480 ? 4 : 1;
  const gap = columns === 1 ? 20 : 24, high = columns === 1 ? 62 : 130;
  const rows = Math.ceil(stages.length / columns);
  const wide = (width - 2 - gap * (columns - 1)) / columns;
  const height = rows * high + (rows - 1) * gap + 2;
  const boxes = stages.map((stage, place) => ({
    stage, wide, high, x: 1 + (place % columns) * (wide + gap), y: 1 + Math.floor(place / columns) * (high + gap), flat: columns === 1,
    points: attention.filter((point) => stageOf(point) === stage.name),
  }));
  return s("svg", { class: "path", viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "The path, stage by stage" },
    boxes.slice(1).map((box, place) => wire(boxes[place], box)),
    boxes.map((box) => node(box, now)),
  );
}

function wire(from, to) {
  const flows = to.stage.per_second > 0 || from.stage.per_second > 0;
  const mid = (one) => one.y + one.high / 2;
  let d, tip;
  if (from.flat) {
    const x = from.x + 26;
    d = `M${x} ${from.y + from.high}V${to.y - 5}`;
    tip = [x, to.y, "M-4 -6L0 0L4 -6"];
  } else if (from.y === to.y) {
    d = `M${from.x + from.wide} ${mid(from)}H${to.x - 5}`;
    tip = [to.x, mid(to), "M-6 -4L0 0L-6 4"];
  } else {
    const turn = from.y + from.high + (to.y - from.y - from.high) / 2, x = to.x + to.wide / 2;
    d = `M${from.x + from.wide / 2} ${from.y + from.high}V${turn}H${x}V${to.y - 5}`;
    tip = [x, to.y, "M-4 -6L0 0L4 -6"];
  }
  return s("g", { class: flows ? "wire flows" : "wire", "aria-hidden": "true" },
    s("path", { d }),
    s("path", { class: "tip", d: tip[2], transform: `translate(${tip[0]} ${tip[1]})` }),
  );
}

function node(box, now) {
  const { stage, x, y, wide, high, flat, points } = box;
  const worst = points.some((point) => point.bad) ? "bad" : points.length ? "warn" : "";
  return s("a", { href: PAGE_OF[stage.name], class: `stage ${worst}`, "aria-label": told(stage, points, now), "data-stage": stage.name },
    s("title", {}, points.map((point) => point.text).join("\n") || told(stage, points, now)),
    s("rect", { class: "box", x, y, width: wide, height: high, rx: 10 }),
    worst && s("circle", { class: "mark", cx: x + wide - 13, cy: y + 14, r: 4.5 }),
    flat ? flatTexts(box, now) : texts(box, now),
  );
}

function texts({ stage, x, y, wide, high }, now) {
  const left = x + 12;
  return [
    trend(stage, x + 1, y + high - 25, wide - 2, 24),
    s("text", { class: "name", x: left, y: y + 20 }, stage.name),
    s("text", { class: "rate", x: left, y: y + 45 }, rate(stage.per_second)),
    s("text", { class: "note", x: left, y: y + 63 }, stage.per_second === null ? "not reported" : stage.unit),
    stage.backlog !== null && s("text", { class: "note backlog", x: left, y: y + 81 }, backlog(stage)),
    stage.since && stage.backlog > 0 && s("text", { class: "note", x: left, y: y + 97 }, `oldest ${span(now - Date.parse(stage.since))}`),
  ];
}

function flatTexts({ stage, x, y, wide, high }, now) {
  const since = stage.since && stage.backlog > 0 ? ` · oldest ${span(now - Date.parse(stage.since))}` : "";
  return [
    trend(stage, x + wide * 0.42, y + high - 32, wide * 0.58 - 1, 31),
    s("text", { class: "name", x: x + 14, y: y + 24 }, stage.name),
    s("text", { class: "rate", x: x + wide - (stage ? 26 : 0), y: y + 27, "text-anchor": "end" }, rate(stage.per_second)),
    s("text", { class: "note", x: x + 14, y: y + 46 }, stage.backlog === null ? (stage.per_second === null ? "not reported" : stage.unit) : backlog(stage) + since),
  ];
}

const backlog = ({ backlog, backlog_unit: unit }) => {
  const words = unit === "measurements" ? "open" : backlog === 1 ? (WORDS[unit] ?? unit) : unit;
  return `${short(backlog)} ${words}`;
};

function trend({ rates }, x, y, width, height) {
  if (rates.length < 2) return null;
  const most = Math.max(...rates) || 1;
  const points = rates.map((value, place) => `${(x + (place * width) / (rates.length - 1)).toFixed(1)} ${(y + height - (value / most) * (height - 3)).toFixed(1)}`);
  return s("path", { class: "trend", d: `M${points.join("L")}V${y + height}H${x}Z` });
}

function told(stage, points, now) {
  const parts = [stage.per_second === null ? "rate not told" : `${rate(stage.per_second)} ${stage.unit}`];
  if (stage.backlog !== null) parts.push(`backlog ${count(stage.backlog)} ${stage.backlog_unit}`);
  if (stage.since && stage.backlog > 0) parts.push(`oldest since ${span(now - Date.parse(stage.since))}`);
  return `${stage.name}: ${[...parts, ...points.map((point) => point.text)].join(", ")}`;
}

/** The same as a table. */
export function pathTable({ stages }) {
  return h("table", {},
    h("thead", {}, h("tr", {}, ["Stage", "Rate", "Backlog"].map((name, place) => h("th", { scope: "col", class: place ? "number" : null }, name)))),
    h("tbody", {}, stages.map((stage) => h("tr", {},
      h("th", { scope: "row" }, stage.name),
      h("td", { class: "number" }, rate(stage.per_second), " ", stage.unit),
      h("td", { class: "number" }, stage.backlog === null ? "–" : `${count(stage.backlog)} ${stage.backlog_unit}`),
    ))),
  );
}
