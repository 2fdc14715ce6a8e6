// Windows of a key on a time axis: a message stands at its event time, in the window of its batch; its wire leads to the
// moment of its receipt. Behind a window is the wait for late messages. Below, in a lane for each reason, the rejected
// ones. Long stretches without a window are left out.

import { fill, h, s } from "./dom.js";
import { timeTicks } from "./scale.js";
import { clock, count, day, plural } from "./words.js";

const LEFT = 70, RIGHT = 14, TOP = 26, BREAK = 26;
const LEVEL = 12, LABEL = 15, GAP = 10, LANE = 15;
const MOST_LEVELS = 14;
const REASONS = {
  late: { tone: "bad", d: "M-3.5-3.5l7 7M3.5-3.5l-7 7" },
  future: { tone: "warn", d: "M-3-4l6 4l-6 4z" },
  duplicate: { tone: "t3", d: "M-4-2h8M-4 2h8" },
  oversize: { tone: "t5", d: "M-4-4h8v8h-8zM-1-1h2v2h-2z" },
};
const reasonOf = (reason) => REASONS[reason] ?? { tone: "t6", d: "M-4 0h8M0-4v8" };

export class WindowsPlot {
  constructor() {
    this.svg = s("svg", { class: "windows-plot", tabindex: "0", role: "img" });
    this.readout = h("output", { class: "readout" });
    this.signs = h("ul", { class: "signs" });
    this.table = h("details", { class: "as-table" }, h("summary", {}, "As a table"), h("div", { class: "scroll" }));
    this.table.addEventListener("toggle", () => this.drawTable());
    this.node = h("figure", { class: "chart" }, this.svg, h("figcaption", {}, this.readout, this.signs), this.table);
    this.svg.addEventListener("pointerover", (event) => this.tell(event.target.closest("[data-tip]")?.dataset.tip ?? ""));
    this.svg.addEventListener("pointerleave", () => this.tell(""));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    this.svg.addEventListener("blur", () => this.choose(null));
    this.chosen = null;
    this.width = 0;
    new ResizeObserver(() => this.node.clientWidth !== this.width && this.draw()).observe(this.node);
  }

  /** Draw an answer of /v1/pipeline/windows; messages of types in `hidden` are left out. */
  update(data, toneOf, hidden) {
    const isShown = (one) => !hidden.has(one.type);
    this.windows = data.windows.map((one) => ({
      ...one, from: Date.parse(one.begin), to: Date.parse(one.end), closedAt: Date.parse(one.closed),
      members: (one.members ?? []).filter(isShown).map(timed),
    }));
    this.rejected = data.rejected.filter(isShown).map(timed);
    this.key_ = data.key;
    this.toneOf = toneOf;
    this.draw();
    this.drawTable();
  }

  draw() {
    const width = Math.round(this.node.clientWidth);
    if (!this.windows || !width) return;
    this.width = width;
    this.scale = new Scale(this.windows, this.rejected, width);
    const parts = [];
    let y = TOP;
    for (const row of this.rows()) {
      const { node, height } = this.row(row, y);
      parts.push(node);
      y += height + GAP;
    }
    for (const lane of this.lanes()) {
      const { node, height } = this.lane(lane, y);
      parts.push(node);
      y += height + 4;
    }
    const height = Math.max(y + 4, 70);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", height);
    this.svg.setAttribute("aria-label", `${plural(this.windows.length, "window")} of ${this.key_}, ${count(this.rejected.length)} rejected. Arrow keys go from window to window.`);
    fill(this.svg, this.axis(height), parts);
    this.drawSigns();
  }

  axis(height) {
    return s("g", { class: "axis" },
      this.scale.segments.map((segment) => this.ticksOf(segment, height)),
      this.scale.segments.slice(1).map((segment, place) => {
        const before = this.scale.segments[place], x = segment.x - BREAK / 2;
        return s("g", { "data-tip": `nothing for ${spanText(segment.from - before.to)}` },
          s("line", { class: "break", x1: x, x2: x, y1: 12, y2: height }),
          s("text", { x, y: height - 2, "text-anchor": "middle" }, spanText(segment.from - before.to)));
      }));
  }

  ticksOf(segment, height) {
    const ticks = segment.to - segment.from < 4_000 ? fineTicks(segment.from, segment.to, segment.width / 76) : timeTicks(segment.from, segment.to, Math.max(1, segment.width / 76)).map(({ at }) => ({ at, text: clock(at) }));
    return [
      s("line", { class: "rule", x1: segment.x, x2: segment.x + segment.width, y1: 18, y2: 18 }),
      ticks.map(({ at, text }) => {
        const x = this.scale.x(at), room = Math.min(x - 4, this.width - x - 4);
        return [s("line", { class: "grid", x1: x, x2: x, y1: 18, y2: height }), s("text", { x, y: 11, "text-anchor": room > 28 ? "middle" : x < 100 ? "start" : "end" }, text)];
      }),
    ];
  }

  // --- windows ---

  rows() {
    const rows = [];
    for (const one of this.windows) {
      const begin = this.scale.x(one.from);
      const end = Math.max(this.scale.x(Math.max(one.to, one.closedAt)), begin + labelText(one).length * 5.6) + 8;
      const row = rows.find((row) => row.end <= begin);
      if (row) Object.assign(row, { end, windows: [...row.windows, one] });
      else rows.push({ end, windows: [one] });
    }
    return rows.map((row) => row.windows);
  }

  row(windows, y) {
    const levels = windows.map((one) => levelsOf(one.members.map((member) => this.spanOf(member)), MOST_LEVELS));
    const most = Math.max(1, ...levels.flat().map((level) => level + 1));
    const height = most * LEVEL + 8;
    return { height: LABEL + height, node: s("g", {}, windows.map((one, place) => this.window(one, levels[place], y, height))) };
  }

  window(one, levels, y, height) {
    const x = this.scale.x(one.from), end = this.scale.x(one.to), closed = this.scale.x(one.closedAt);
    const top = y + LABEL, late = one.closedAt >= one.to;
    const label = labelText(one), fits = x + label.length * 5.6 < this.width;
    return s("g", { class: one.id === this.chosen ? "window-group chosen" : "window-group", "data-tip": tipOf(one) },
      late && s("rect", { class: "waiting", x: end - 4, width: Math.max(closed - end + 4, 0), y: top, height, rx: 4 }),
      s("rect", { class: "window", x, width: Math.max((late ? end : closed) - x, 2), y: top, height, rx: 5 }),
      !late && s("rect", { class: "waiting", x: closed, width: Math.max(end - closed, 0), y: top, height, rx: 4 }),
      this.scale.has(one.closedAt) && s("line", { class: "closed", x1: closed, x2: closed, y1: top + 3, y2: top + height - 3 }),
      s("text", { x: fits ? x : this.width - RIGHT, y: y + LABEL - 4, "text-anchor": fits ? "start" : "end" }, label),
      one.members.map((member, place) => this.member(member, top + 4 + (levels[place] + 0.5) * LEVEL)),
    );
  }

  member(member, y) {
    return s("g", { "data-tip": tellTimes(member.type, member) },
      this.wire(member, y),
      s("circle", { class: this.toneOf(member.type), cx: this.scale.x(member.eventAt), cy: y, r: 4 }));
  }

  wire({ eventAt, receivedAt }, y) {
    const event = this.scale.x(eventAt), received = this.scale.x(receivedAt);
    return s("path", { class: "wire", d: `M${round(event)} ${round(y)}H${round(received)}${this.scale.has(receivedAt) ? "m0-3v6" : "m-3-3l3 3l-3 3"}` });
  }

  spanOf({ eventAt, receivedAt }) {
    const ends = [this.scale.x(eventAt), this.scale.x(receivedAt)];
    return [Math.min(...ends) - 5, Math.max(...ends) + 5];
  }

  // --- rejected ---

  lanes() {
    const reasons = [...new Set([...Object.keys(REASONS), ...this.rejected.map((one) => one.reason)])];
    return reasons.map((reason) => this.rejected.filter((one) => one.reason === reason)).filter((lane) => lane.length);
  }

  lane(messages, y) {
    const { reason } = messages[0], { tone } = reasonOf(reason);
    const sorted = [...messages].sort((a, b) => this.placeOf(a) - this.placeOf(b));
    const levels = levelsOf(sorted.map((one) => (this.scale.has(one.eventAt) ? this.spanOf(one) : [this.placeOf(one) - 6, this.placeOf(one) + 6])), 6);
    const height = (Math.max(0, ...levels) + 1) * LANE;
    return { height, node: s("g", { class: tone },
      s("text", { class: "lane", x: 4, y: y + 11 }, reason),
      sorted.map((one, place) => this.mark(one, y + (levels[place] + 0.5) * LANE)),
    ) };
  }

  /** Where a rejected message stands: at its event time; where that is off the axis, at its receipt, with an arrow. */
  placeOf(one) {
    return this.scale.x(this.scale.has(one.eventAt) ? one.eventAt : one.receivedAt);
  }

  mark(one, y) {
    const { d } = reasonOf(one.reason), here = this.scale.has(one.eventAt), x = round(this.placeOf(one));
    const way = one.eventAt < one.receivedAt ? -1 : 1;
    return s("g", { "data-tip": tellTimes(`${one.reason}: ${one.type}`, one) },
      here && this.wire(one, y),
      s("path", { class: "mark", d: here ? d : `M${way * -4} 0h${way * 7}m${way * -3}-3l${way * 3} 3l${way * -3} 3`, transform: `translate(${x} ${round(y)})` }));
  }

  // --- what is told ---

  tell(text) {
    fill(this.readout, text && h("span", {}, text));
  }

  key(event) {
    const place = this.windows.findIndex((one) => one.id === this.chosen), last = this.windows.length - 1;
    const places = { ArrowRight: Math.min(place + 1, last), ArrowLeft: place < 0 ? last : Math.max(place - 1, 0), Home: 0, End: last };
    if (!(event.key in places) || last < 0) return;
    event.preventDefault();
    this.choose(this.windows[places[event.key]]);
  }

  choose(one) {
    if ((one?.id ?? null) === this.chosen) return;
    this.chosen = one?.id ?? null;
    this.draw();
    this.tell(one ? tipOf(one) : "");
  }

  drawSigns() {
    const sign = (...parts) => s("svg", { width: 26, height: 14, "aria-hidden": "true", class: "windows-plot" }, parts);
    const off = this.rejected.some((one) => !this.scale.has(one.eventAt));
    fill(this.signs,
      this.windows.length > 0 && h("li", {}, sign(s("rect", { class: "window", x: 1, y: 1, width: 24, height: 12, rx: 4 })), "window"),
      this.windows.length > 0 && h("li", {}, sign(s("rect", { class: "waiting", x: 1, y: 1, width: 24, height: 12, rx: 4 })), "open for late messages, then closed"),
      h("li", {}, sign(s("path", { class: "wire", d: "M4 7H24m0-3v6" }), s("circle", { class: "t0", cx: 4, cy: 7, r: 4 })), "message at its event time, and when it was received"),
      off && h("li", {}, sign(s("path", { class: "mark still", d: "M20 7h-14m5-4l-5 4l5 4" })), "its event time is further off"));
  }

  drawTable() {
    if (!this.table.open || !this.windows) return;
    const row = (cells) => h("tr", {}, cells.map((cell, place) => h(place ? "td" : "th", place ? {} : { scope: "row" }, cell)));
    const heads = (names) => h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name))));
    fill(this.table.lastElementChild,
      h("table", {}, h("caption", { class: "unseen" }, `Windows of ${this.key_}`), heads(["Window", "Until", "Closed", "Why", "Messages"]),
        h("tbody", {}, this.windows.map((one) => row([stamp(one.from), stamp(one.to), stamp(one.closedAt), one.reason, count(one.messages)])))),
      this.rejected.length > 0 && h("table", {}, h("caption", { class: "unseen" }, `Rejected of ${this.key_}`), heads(["Event", "Received", "Type", "Rejected as"]),
        h("tbody", {}, this.rejected.map((one) => row([stamp(one.eventAt), stamp(one.receivedAt), one.type, one.reason])))));
  }
}

/** Moments to places: stretches without a window are a break of one width. */
class Scale {
  constructor(windows, rejected, width) {
    const ends = windows.length ? windows.map(extent) : fence(rejected);
    const typical = ends.map(([from, to]) => to - from).sort((a, b) => a - b)[ends.length >> 1] || 1_000;
    this.segments = [];
    for (const [from, to] of ends) {
      const last = this.segments.at(-1);
      if (last && from - last.to <= 3 * typical) last.to = Math.max(last.to, to);
      else this.segments.push({ from, to });
    }
    for (const segment of this.segments) {
      segment.from -= typical * 0.08;
      segment.to += typical * 0.08;
    }
    const room = width - LEFT - RIGHT - BREAK * (this.segments.length - 1);
    const whole = this.segments.reduce((all, { from, to }) => all + to - from, 0) || 1;
    let x = LEFT;
    for (const segment of this.segments) {
      segment.x = x;
      segment.width = (room * (segment.to - segment.from)) / whole;
      x += segment.width + BREAK;
    }
  }

  has(at) {
    return this.segments.some(({ from, to }) => from <= at && at <= to);
  }

  /** Where a moment lies; at the nearest edge, if it lies on no stretch. */
  x(at) {
    const segment = this.segments.find(({ to }) => at <= to) ?? this.segments.at(-1);
    const share = (at - segment.from) / (segment.to - segment.from || 1);
    return segment.x + Math.min(1, Math.max(0, share)) * segment.width;
  }
}

/** A window to its close; of a wait longer than a window, only the beginning. */
function extent({ from, to, closedAt }) {
  const wait = closedAt - to, long = to - from;
  return [from, to + Math.max(0, wait <= 1.5 * long ? wait : long / 4)];
}

/** Where there is no window: from the first receipt to the last. */
function fence(rejected) {
  const received = rejected.map((one) => one.receivedAt);
  return received.length ? [[Math.min(...received) - 200, Math.max(...received) + 200]] : [[0, 1]];
}

function levelsOf(spans, most) {
  const free = [];
  return spans.map(([begin, end]) => {
    let level = free.findIndex((from) => from <= begin);
    if (level < 0) level = free.length < most ? free.length : free.indexOf(Math.min(...free));
    free[level] = end;
    return level;
  });
}

function fineTicks(from, to, most) {
  const step = [50, 100, 200, 250, 500, 1_000].find((one) => (to - from) / one <= Math.max(most, 1)) ?? 2_000;
  const ticks = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) ticks.push({ at, text: stamp(at, false).replace(/\.000$/, "") });
  return ticks;
}

const timed = (one) => ({ ...one, eventAt: Date.parse(one.event), receivedAt: Date.parse(one.received) });
const round = (value) => Math.round(value * 10) / 10;
const labelText = (one) => `${plural(one.messages, "message")} · ${one.reason}`;
const tipOf = (one) => `${one.id} · ${stamp(one.from)} – ${stamp(one.to)}, closed ${spanText(one.closedAt - one.to)} ${one.closedAt >= one.to ? "after" : "before"} its end · ${labelText(one)}`;

/** 12:03:04.250, with the day if it is another than today. */
function stamp(ms, withDay = true) {
  const text = `${clock(ms)}.${String(new Date(ms).getMilliseconds()).padStart(3, "0")}`;
  return withDay && day(ms) !== day(Date.now()) ? `${day(ms)} ${text}` : text;
}

function tellTimes(what, { eventAt, receivedAt }) {
  const delay = receivedAt - eventAt;
  return `${what} · event ${stamp(eventAt)}, received ${delay === 0 ? "at once" : `${spanText(delay)} ${delay > 0 ? "later" : "earlier"}`}`;
}

/** 250 ms, 3.2 s, 5 min, 4 h, 20 d */
export function spanText(ms) {
  const size = Math.abs(ms);
  const [unit, length] = size < 1_000 ? ["ms", 1] : size < 60_000 ? ["s", 1_000] : size < 3_600_000 ? ["min", 60_000] : size < 172_800_000 ? ["h", 3_600_000] : ["d", 86_400_000];
  const value = size / length;
  return `${value < 10 && unit !== "ms" ? value.toFixed(1).replace(/\.0$/, "") : Math.round(value)} ${unit}`;
}
