// Pipeline: how the queries of a stream go, and the windows of a key.

import { Chart, progress } from "./chart.js";
import { fill, h } from "./dom.js";
import { History, RANGES } from "./history.js";
import { KeyWindows } from "./key_windows.js";
import { spanText } from "./windows.js";
import { count, from, percent, rate, short } from "./words.js";

export function open(view) {
  const history = new History("run");
  const run = new Run();
  const windows = new KeyWindows(view);
  const ranges = h("div", { class: "choices", role: "group", "aria-label": "How far back" });
  const which = h("span", { class: "spread" });
  const body = h("div", { class: "page" });
  let chosen = view.query.get("pipeline");
  view.root.append(h("div", { class: "head" }, h("h1", {}, "Pipeline"), which, ranges), body, windows.node);

  function drawRanges() {
    fill(ranges, RANGES.map((range) => h("button", { type: "button", "aria-pressed": String(range === history.range), onclick: () => choose(range) }, range.name)));
  }

  function choose(range) {
    history.look(range);
    drawRanges();
    view.wake();
  }

  function drawWhich(names, name) {
    fill(which, names.length > 1 && h("select", { "aria-label": "Pipeline", onchange: (event) => { chosen = event.target.value; view.wake(); } },
      names.map((one) => h("option", { value: one, selected: one === name }, one))));
  }

  drawRanges();
  return async (signal) => {
    await Promise.all([history.readFurther(signal), windows.refresh(signal)]);
    drawRanges();
    const names = [...history.processes.keys()].sort();
    const name = names.includes(chosen) ? chosen : names.find((one) => history.isThere(one)) ?? names[0];
    drawWhich(names, name);
    fill(body, name ? run.draw(name, history) : nothing());
  };
}

function nothing() {
  return h("section", { class: "card" }, h("p", { class: "empty" },
    h("strong", {}, "No pipeline has run within the last hour."),
    "One that runs on this store is seen here: ", h("code", {}, "batchline run pipeline.toml"), ", or ", h("code", {}, "make run STAY=1"), "."));
}

/** The numbers of one pipeline: its parts stay while the numbers change. */
class Run {
  constructor() {
    this.head = h("div", { class: "head" });
    this.figures = h("dl", { class: "figures" });
    this.steps = h("dl", { class: "steps" });
    this.durations = new Chart({ kind: "bars", height: 180, format: spanText, tick: (ms) => (ms < 1_000 ? `${short(ms)} ms` : `${short(ms / 1_000)} s`) });
    this.rates = new Chart({ kind: "lines", height: 180, format: rate });
    this.held = new Chart({ kind: "lines", height: 180, format: (value) => count(Math.round(value)) });
    this.bytes = new Chart({ kind: "lines", height: 180, format: bytes, tick: bytes });
    this.parcels = new Chart({ kind: "lines", height: 180, format: rate });
    this.rejected = new Chart({ kind: "bars", height: 180, format: (value) => count(Math.round(value)) });
    this.epochs = h("details", { class: "as-table" }, h("summary", {}, "The last micro-batches"), h("div", { class: "scroll" }));
    this.summary = h("section", { class: "card", "data-key": "summary" }, this.head, this.figures, this.steps, this.epochs);
    this.charts = h("div", { class: "columns", "data-key": "charts" },
      card("Rows per second", this.rates), card("Micro-batches: how long each took", this.durations), card("Rejected, by reason", this.rejected),
      card("Open batches, and rows in them", this.held), card("State", this.bytes), card("Parcels: published, and arrived", this.parcels));
  }

  draw(name, history) {
    const last = history.last(name), columns = history.columns([name]), epochs = epochsOf(history.processes.get(name));
    this.drawSummary(name, last, history, epochs);
    this.drawRates(name, history, columns);
    this.drawEpochs(name, history, columns, epochs);
    this.drawState(name, history, columns);
    this.drawRejected(name, last, history, columns);
    for (const chart of [this.held, this.bytes]) chart.node.parentElement.hidden = !hasValues(chart);
    this.durations.node.parentElement.hidden = epochs.length === 1;
    return [this.summary, this.charts];
  }

  drawSummary(name, last, history, epochs) {
    const there = history.isThere(name);
    const [kind, words] = there ? ["good", "running"] : last.ended ? [last.complete ? "good" : "", last.complete ? "ended, all has arrived" : "ended"] : ["bad", `silent, last seen ${from(last.at, history.now)}`];
    fill(this.head, h("h2", {}, name), h("span", { class: `badge ${kind}` }, words), h("span", { class: "label" }, `source ${last.source}`), h("span", { class: "label" }, `topic ${last.topic}`));
    const rejected = Object.values(last.rejected).reduce((all, one) => all + one, 0);
    const figures = [
      ["rows read", count(last.read)], ["in batches", count(last.batched)],
      [`rejected, ${percent(rejected, last.read)}`, count(rejected)], ["batches", count(last.batches)],
      ["parcels published", count(last.parcels)], [`arrived, ${percent(last.acked, last.parcels)}`, count(last.acked)],
      last.failed > 0 && ["refused", count(last.failed), "bad"],
      ...(epochs.length === 1 ? [["until published", spanText(epochs[0].duration_ms)]] : [["open batches", count(last.open_batches)], ["state", bytes(last.state_bytes)], ["epoch", last.epoch === null ? "–" : count(last.epoch)]]),
    ];
    fill(this.figures, figures.filter(Boolean).map(([title, value, tone]) => h("div", { class: tone }, h("dt", {}, title), h("dd", {}, value))));
    const steps = there ? Object.entries(last.steps) : [];
    fill(this.steps, steps.map(([step, { done, total }]) => [
      h("dt", {}, step), h("dd", {}, progress([{ value: Math.min(done, total), tone: "accent", name: step }], total, `${step}: ${percent(done, total)}`)), h("dd", { class: "quiet number" }, total ? percent(done, total) : count(done)),
    ]));
  }

  drawRates(name, history, columns) {
    this.rates.update({ label: `Rows per second of ${name}`, columns, series: [
      { name: "read", values: history.rate(name, columns, (one) => one.read), tone: "t0" },
      { name: "in batches", values: history.rate(name, columns, (one) => one.batched), tone: "t2" },
    ] });
    this.parcels.update({ label: `Parcels of ${name}`, columns, series: [
      { name: "published", values: history.rate(name, columns, (one) => one.parcels), tone: "t3" },
      { name: "arrived", values: history.rate(name, columns, (one) => one.acked + one.failed), tone: "t4" },
    ] });
  }

  drawEpochs(name, history, columns, epochs) {
    const longest = columns.map(({ from: begin, to }) => Math.max(...epochs.filter((one) => one.at_ms > begin && one.at_ms <= to).map((one) => one.duration_ms), -1));
    this.durations.update({ label: `How long micro-batches of ${name} took`, columns, series: [{ name: "longest", values: longest.map((ms) => (ms < 0 ? null : ms)), tone: "accent" }] });
    fill(this.epochs.lastElementChild, h("table", {},
      h("thead", {}, h("tr", {}, ["Epoch", "Ended", "Rows", "Took", "Rows per second"].map((head, place) => h("th", { scope: "col", class: place ? "number" : null }, head)))),
      h("tbody", {}, epochs.slice(-10).reverse().map((one) => h("tr", { "data-key": `e${one.epoch}` },
        h("th", { scope: "row" }, count(one.epoch)), h("td", { class: "number" }, from(one.at_ms, history.now)), h("td", { class: "number" }, count(one.rows)),
        h("td", { class: "number" }, spanText(one.duration_ms)), h("td", { class: "number" }, short(one.rows_per_second)))))));
  }

  drawState(name, history, columns) {
    this.held.update({ label: `Open batches of ${name}`, columns, series: [
      { name: "open batches", values: history.gauge(name, columns, (one) => one.open_batches), tone: "t3" },
      { name: "rows in them", values: history.gauge(name, columns, (one) => one.open_rows), tone: "t4" },
    ] });
    this.bytes.update({ label: `State of ${name}`, columns, series: [{ name: "bytes", values: history.gauge(name, columns, (one) => one.state_bytes), tone: "t6" }] });
  }

  drawRejected(name, last, history, columns) {
    const tones = { late: "bad", future: "warn", duplicate: "t3", oversize: "t5", malformed: "t8" };
    this.rejected.update({ label: `Rejected by ${name}`, columns, series: Object.keys(last.rejected).sort().map((reason) => ({
      name: reason, tone: tones[reason], values: history.growth(name, columns, (one) => one.rejected[reason] ?? 0).map((grown) => (grown ? Math.round(grown.by) : null)),
    })) });
  }
}

/** Files in one batch hold nothing open: there is nothing to draw. */
const hasValues = (chart) => chart.data.series.some((one) => one.values.some((value) => value > 0));

/** All epochs that reports tell of, each once; started again, a process counts on. */
function epochsOf(reports) {
  const epochs = new Map(reports.flatMap((report) => report.epochs).map((one) => [`${one.epoch} ${one.at_ms}`, one]));
  return [...epochs.values()].sort((a, b) => a.at_ms - b.at_ms);
}

const card = (title, chart) => h("section", { class: "card", "aria-label": title }, h("h2", {}, title), chart.node);

/** 4.7 kB */
function bytes(value) {
  const place = value < 1_000 ? 0 : Math.min(4, Math.floor(Math.log10(value) / 3));
  return `${short(value / 1_000 ** place)} ${["B", "kB", "MB", "GB", "TB"][place]}`;
}
