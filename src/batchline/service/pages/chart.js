// Charts over time: bars, lines and stacked bands, with an axis, the value under the pointer or the arrow keys, and a table
// for who does not see them.
//
//   const chart = new Chart({ kind: "bars", unit: "messages" });     // or "lines", "bands"
//   root.append(chart.node);
//   chart.update({
//     label: "Load of orders",
//     columns: [{ from: ms, to: ms }, …],          // of a line or band, from and to are the same moment
//     series: [{ name: "waiting", values: [3, …], tone: "t0" }],   // null where nothing is known
//     marked: [false, …],                          // columns that are worse than the others
//     limit: { name: "limit", values: [10, …] },   // or one value: a dashed line
//     spans: [{ from, to, name, tone: "bad" }],    // stretches to be shaded
//   });

import { fill, h, s } from "./dom.js";
import { timeTicks, valueTicks } from "./scale.js";
import { clock, count, day, short } from "./words.js";

const LEFT = 46, RIGHT = 10, TOP = 10, BOTTOM = 24;

export class Chart {
  constructor({ kind, unit = "", height = 220, format = count, tick = short, stacked = kind !== "lines" }) {
    Object.assign(this, { kind, unit, height, format, tick, stacked, data: null, cursor: null });
    this.svg = s("svg", { class: "plot", tabindex: "0", role: "img" });
    this.readout = h("output", { class: "readout" });
    this.legend = h("ul", { class: "legend" });
    this.table = h("details", { class: "as-table" }, h("summary", {}, "As a table"), h("div", { class: "scroll" }));
    this.table.addEventListener("toggle", () => this.drawTable());
    this.node = h("figure", { class: `chart ${kind}` }, this.svg, h("figcaption", {}, this.legend, this.readout), this.table);
    this.svg.addEventListener("pointermove", (event) => this.pointAt(event.clientX));
    this.svg.addEventListener("pointerdown", (event) => this.pointAt(event.clientX));
    this.svg.addEventListener("pointerleave", () => this.moveTo(null));
    this.svg.addEventListener("blur", () => this.moveTo(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  update(data) {
    const pointed = this.data?.columns[this.cursor ?? -1];
    this.data = data;
    // Another range has other columns: the cursor stays at its moment, not at its place.
    if (pointed) this.cursor = nearest(data.columns.map(({ from, to }) => (from + to) / 2), (pointed.from + pointed.to) / 2);
    this.draw();
    if (this.table.open) this.drawTable();
  }

  // --- drawing ---

  draw() {
    const width = Math.round(this.node.clientWidth);
    if (!this.data || !width) return;
    const { columns, series } = this.data;
    this.width = width;
    const from = this.data.from ?? columns[0]?.from ?? 0;
    const to = this.data.to ?? columns.at(-1)?.to ?? 1;
    const ticks = valueTicks(this.highest(), 4, this.tick);
    this.x = (at) => LEFT + ((at - from) / (to - from || 1)) * (width - LEFT - RIGHT);
    this.y = (value) => TOP + (1 - value / ticks.at(-1).at) * (this.height - TOP - BOTTOM);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", this.height);
    this.svg.setAttribute("aria-label", this.summary());
    fill(this.svg,
      s("g", { class: "axis" }, ticks.map((tick) => this.valueTick(tick)), timeTicks(from, to, (width - LEFT) / 72).map((tick) => this.timeTick(tick))),
      s("g", { class: "spans" }, (this.data.spans ?? []).map((span) => this.span(span))),
      s("g", { class: "marks" }, { bars: () => this.bars(), lines: () => this.lines(), bands: () => this.bands() }[this.kind]()),
      s("g", { class: "limit" }, this.limit()),
      s("g", { class: "cursor" }, this.cursorMark()),
    );
    fill(this.legend, series.length + (this.data.limit ? 1 : 0) > 1 && [
      series.map((one, index) => h("li", { class: tone(one, index) }, one.name)),
      this.data.limit && h("li", { class: "limit" }, this.data.limit.name),
    ]);
    this.drawReadout();
  }

  highest() {
    const { columns, series, limit } = this.data;
    const sums = columns.map((_, place) => {
      const values = series.map((one) => one.values[place] ?? 0);
      return this.stacked ? values.reduce((sum, value) => sum + value, 0) : Math.max(0, ...values);
    });
    const limits = this.data.limitInView === false ? [] : limitValues(limit, columns);
    return Math.max(0, ...sums, ...limits.filter((value) => value !== null));
  }

  valueTick({ at, text }) {
    const y = this.y(at);
    return [
      s("line", { class: at ? "grid" : "rule", x1: LEFT, x2: this.width - RIGHT, y1: y, y2: y }),
      s("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, text),
    ];
  }

  timeTick({ at, text }) {
    const x = this.x(at), y = this.height - BOTTOM;
    const room = Math.min(x, this.width - x);
    return [
      s("line", { class: "rule", x1: x, x2: x, y1: y, y2: y + 4 }),
      s("text", { x, y: y + 17, "text-anchor": room > 20 ? "middle" : x < this.width / 2 ? "start" : "end" }, text),
    ];
  }

  span({ from, to, name, tone: kind = "bad" }) {
    const x = this.x(from);
    return s("rect", { class: `span ${kind}`, x, width: Math.max(1, this.x(to) - x), y: TOP, height: this.height - TOP - BOTTOM }, s("title", {}, name));
  }

  bars() {
    const { columns, series, marked = [] } = this.data;
    return columns.flatMap(({ from, to }, place) => {
      const x = this.x(from), full = this.x(to) - x, gap = full > 6 ? 2 : full > 3 ? 1 : 0.25;
      let below = 0;
      return series.map((one, index) => {
        const value = one.values[place] ?? 0;
        const y = this.y(below + value), height = Math.max(this.y(below) - y, value ? 1.5 : 0);
        below += value;
        const kind = marked[place] ? "bad" : tone(one, index);
        return value ? s("rect", { class: `bar ${kind}`, x: x + gap / 2, width: Math.max(full - gap, 0.75), y: this.y(below - value) - height, height, rx: full > 8 ? 2 : 0 }) : null;
      });
    });
  }

  lines() {
    return this.data.series.map((one, index) => s("path", { class: `curve ${tone(one, index)}`, d: this.curve(one.values) }));
  }

  curve(values) {
    let pen = "M";
    return this.data.columns.map(({ from, to }, place) => {
      if (values[place] === null || values[place] === undefined) {
        pen = "M";
        return "";
      }
      const text = `${pen}${round(this.x((from + to) / 2))} ${round(this.y(values[place]))}`;
      pen = "L";
      return text;
    }).join("");
  }

  bands() {
    const { columns, series } = this.data;
    const xs = columns.map(({ from, to }) => round(this.x((from + to) / 2)));
    let below = columns.map(() => 0);
    return series.map((one, index) => {
      const above = below.map((value, place) => value + (one.values[place] ?? 0));
      const there = above.map((value, place) => `${xs[place]} ${round(this.y(value))}`);
      const back = below.map((value, place) => `${xs[place]} ${round(this.y(value))}`).reverse();
      below = above;
      return s("path", { class: `band ${tone(one, index)}`, d: columns.length ? `M${[...there, ...back].join("L")}Z` : "" });
    });
  }

  limit() {
    if (!this.data.limit) return null;
    return s("path", { class: "dashed", d: this.curve(limitValues(this.data.limit, this.data.columns)) });
  }

  // --- the value under the cursor ---

  pointAt(clientX) {
    const x = clientX - this.svg.getBoundingClientRect().left;
    const columns = this.data?.columns ?? [];
    this.moveTo(nearest(columns.map(({ from, to }) => this.x((from + to) / 2)), x));
  }

  key(event) {
    const last = (this.data?.columns.length ?? 0) - 1;
    const places = { ArrowRight: (this.cursor ?? -1) + 1, ArrowLeft: (this.cursor ?? last + 1) - 1, Home: 0, End: last };
    if (!(event.key in places) || last < 0) return;
    event.preventDefault();
    this.moveTo(Math.max(0, Math.min(last, places[event.key])));
  }

  moveTo(place) {
    this.cursor = place;
    const group = this.svg.querySelector(".cursor");
    if (group) fill(group, this.cursorMark());
    this.drawReadout();
  }

  cursorMark() {
    const column = this.data.columns[this.cursor ?? -1];
    if (!column) return null;
    if (this.kind !== "bars") return s("line", { x1: this.x(column.from), x2: this.x(column.from), y1: TOP, y2: this.height - BOTTOM });
    const x = this.x(column.from);
    return s("rect", { x, width: Math.max(1, this.x(column.to) - x), y: TOP, height: this.height - TOP - BOTTOM });
  }

  drawReadout() {
    const column = this.data?.columns[this.cursor ?? -1];
    fill(this.readout, column ? [h("b", {}, columnText(column)), " ", this.valuesAt(this.cursor).map(([name, text]) => h("span", {}, name, " ", h("b", {}, text)))] : "");
  }

  valuesAt(place) {
    const named = this.data.series.map((one) => [one.name, one.values[place]]);
    if (this.data.limit) named.push([this.data.limit.name, limitValues(this.data.limit, this.data.columns)[place]]);
    return named.map(([name, value]) => [name, value === null || value === undefined ? "–" : this.format(value)]);
  }

  // --- for who does not see it ---

  summary() {
    const { label, columns, series, marked = [] } = this.data;
    if (!columns.length) return `${label}: nothing yet`;
    const tells = series.map((one) => {
      const highest = Math.max(...one.values.map((value) => value ?? 0));
      const place = one.values.indexOf(highest);
      return `${one.name}: at most ${this.format(highest)}${place >= 0 ? ` at ${columnText(columns[place])}` : ""}`;
    });
    const worse = marked.filter(Boolean).length;
    return `${label}. ${tells.join("; ")}.${worse ? ` ${worse} marked.` : ""} Arrow keys tell the values.`;
  }

  drawTable() {
    if (!this.table.open || !this.data) return;
    const { columns, series, limit } = this.data;
    const names = [...series.map((one) => one.name), ...(limit ? [limit.name] : [])];
    fill(this.table.lastElementChild, h("table", {},
      h("caption", { class: "unseen" }, this.data.label),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "When"), names.map((name) => h("th", { scope: "col", class: "number" }, name)))),
      h("tbody", {}, columns.map((column, place) => h("tr", {}, h("th", { scope: "row" }, columnText(column)), this.valuesAt(place).map(([, text]) => h("td", { class: "number" }, text))))),
    ));
  }
}

const tone = (series, index) => series.tone ?? `t${index % 10}`;
const round = (value) => Math.round(value * 10) / 10;
const limitValues = (limit, columns) => (!limit ? [] : Array.isArray(limit.values) ? limit.values : columns.map(() => limit.values));

function columnText({ from, to }) {
  if (to - from >= 864e5) return day(from);
  const seconds = to - from < 60_000;
  const begin = day(from) === day(Date.now()) && to - from < 36e5 ? clock(from, seconds) : `${day(from)} ${clock(from, seconds)}`;
  return to === from ? begin : `${begin}–${clock(to, seconds)}`;
}

/** The place of the value that is nearest to another; null if there is none. */
function nearest(values, wanted) {
  const distances = values.map((value) => Math.abs(value - wanted));
  return distances.length ? distances.indexOf(Math.min(...distances)) : null;
}

/** A bar that shows how far something is: parts of a whole, [{ value, tone, name }]. */
export function progress(parts, whole, label) {
  let x = 0;
  return s("svg", { class: "progress", role: "img", "aria-label": label, width: "100%", height: 8, preserveAspectRatio: "none" },
    s("rect", { class: "track", width: "100%", height: 8, rx: 4 }),
    parts.filter((part) => part.value > 0).map((part) => {
      const width = (100 * part.value) / (whole || 1), at = x;
      x += width;
      return s("rect", { class: `bar ${part.tone}`, x: `${round(at)}%`, width: `${Math.max(round(width), 0.5)}%`, height: 8 }, s("title", {}, part.name));
    }),
  );
}

/** A small line without axes: how something went lately. */
export function spark(values, label, width = 88, height = 24) {
  const most = Math.max(...values, 0) || 1;
  const step = width / Math.max(values.length - 1, 1);
  const points = values.map((value, place) => `${round(place * step)} ${round(height - 2 - (value / most) * (height - 4))}`);
  return s("svg", { class: "spark", role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`, width, height },
    points.length > 1 && [
      s("path", { class: "under", d: `M0 ${height}L${points.join("L")}L${width} ${height}Z` }),
      s("path", { class: "curve", d: `M${points.join("L")}` }),
    ]);
}
