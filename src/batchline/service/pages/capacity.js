// Capacity: what is shared, who holds what of it, and how much of it is used.

import { get } from "./api.js";
import { Chart } from "./chart.js";
import { fill, h, s } from "./dom.js";
import { History, RANGES, sum } from "./history.js";
import { count, from, percent, plural, rate } from "./words.js";

const amount = (value) => (value && typeof value === "object" ? Object.values(value).reduce((all, one) => all + one, 0) : value ?? 0);

export function open(view) {
  const history = new History("work");
  const cards = new Map();
  const ranges = h("div", { class: "choices spread", role: "group", "aria-label": "How far back" });
  const body = h("div", { class: "page" });
  view.root.append(h("div", { class: "head" }, h("h1", {}, "Capacity"), ranges), body);

  function drawRanges() {
    fill(ranges, RANGES.map((range) => h("button", { type: "button", "aria-pressed": String(range === history.range), onclick: () => choose(range) }, range.name)));
  }

  function choose(range) {
    history.look(range);
    drawRanges();
    view.wake();
  }

  drawRanges();
  return async (signal) => {
    const [answer] = await Promise.all([get("/v1/capacity", {}, signal), history.readFurther(signal)]);
    const now = Date.parse(answer.now);
    drawRanges();
    const resources = [...answer.resources, ...past(answer.resources, history)];
    fill(body, resources.length ? resources.map((resource) => {
      const key = `${resource.shared} ${resource.name}`;
      if (!cards.has(key)) cards.set(key, new Card(resource));
      return cards.get(key).draw(resource, history, now);
    }) : nothing());
  };
}

/** Capacities that somebody worked within lately, and nobody does any more. */
function past(present, history) {
  const found = new Map();
  for (const [process, reports] of history.processes) {
    const { capacity } = reports.at(-1);
    if (!capacity) continue;
    const name = capacity.name ?? process;
    if (present.some((one) => one.shared === capacity.shared && one.name === name)) continue;
    const resource = found.get(`${capacity.shared} ${name}`) ?? { name, shared: capacity.shared, limit: amount(capacity.limit), cost: capacity.cost, partitions: null, used: null, instances: [] };
    found.set(`${capacity.shared} ${name}`, resource);
    resource.instances.push({ worker: process, instance: capacity.instance, topic: reports.at(-1).topic, partitions: [], until: null, asks_for: null, granted: null, wanted: null, used: null, waiting: null, paused: false, pauses: reports.at(-1).pauses, gone: reports.at(-1).at });
  }
  return [...found.values()];
}

function nothing() {
  return h("section", { class: "card" }, h("p", { class: "empty" },
    h("strong", {}, "Nobody has worked within a capacity lately."),
    "Workers are seen here as soon as they run: ", h("code", {}, "batchline work --capacity 50 --shared STORE …"),
    ", or ", h("code", {}, "[capacity]"), " in the file of a pipeline."));
}

/** One capacity: it stays while its numbers change. */
class Card {
  constructor({ name, shared }) {
    this.tones = new Map();
    this.badges = h("span", { class: "labels" });
    this.figures = h("dl", { class: "figures" });
    this.strip = h("div", { class: "partitions" });
    this.table = h("div", { class: "scroll" });
    this.shaded = h("span", { class: "shaded warn" });
    this.apart = h("span", { class: "quiet small plain" });
    const perSecond = (value) => rate(Math.round(value * 10) / 10);
    this.held = new Chart({ kind: "bands", height: 200, format: perSecond });
    this.used = new Chart({ kind: "lines", height: 200, format: perSecond });
    this.node = h("section", { class: "card capacity-card", "data-key": `${shared} ${name}`, "aria-label": `Capacity ${name}` },
      h("div", { class: "head" }, h("h2", {}, name), this.badges),
      this.figures,
      this.strip,
      h("div", { class: "columns" },
        h("div", {}, h("h3", {}, shared ? "Who holds what" : "What it may use", " ", this.apart), this.held.node),
        h("div", {}, h("h3", {}, "Used, against the limit ", this.shaded), this.used.node)),
      this.table,
    );
  }

  draw(resource, history, now) {
    this.resource = resource;
    const names = this.namesIn(history);
    for (const name of [...names, ...resource.instances.map(nameOf)]) this.toneOf(name);
    this.drawFigures(resource);
    this.drawStrip(resource);
    this.drawCharts(resource, history, names);
    fill(this.table, instanceTable(resource, now, (name) => this.toneOf(name)));
    return this.node;
  }

  namesIn(history) {
    const { shared, name } = this.resource;
    const uses = (report) => report.capacity && report.capacity.shared === shared && (shared ? report.capacity.name === name : true);
    return [...history.processes.keys()].filter((process) => uses(history.last(process)) && (shared || process === name)).sort();
  }

  toneOf(name) {
    if (!this.tones.has(name)) this.tones.set(name, `t${this.tones.size % 10}`);
    return this.tones.get(name);
  }

  drawFigures(resource) {
    const { instances, limit, used, partitions } = resource;
    const held = instances.reduce((all, one) => all + one.partitions.length, 0);
    const paused = instances.filter((one) => one.paused).length;
    const here = instances.some((one) => !one.gone);
    fill(this.badges,
      resource.cost && h("span", { class: "label" }, `in ${`${resource.cost}s`.replace(/^field:(.*)s$/, "$1")}`),
      h("span", { class: "badge" }, resource.shared ? `shared by ${instances.length}` : "a worker's own"),
      instances.length > 0 && !here && h("span", { class: "badge" }, "nobody any more"),
      paused > 0 && h("span", { class: "badge warn" }, `${paused} paused`));
    const figures = [
      ["limit", limit === null ? "–" : rate(limit)],
      here && [limit ? `used, ${percent(used ?? 0, limit)}` : "used", rate(used)],
      partitions !== null && ["partitions held", `${held} of ${partitions}`],
      partitions !== null && ["partitions asked for", count(instances.reduce((all, one) => all + (one.asks_for ?? 0), 0))],
      here && ["waiting", count(instances.reduce((all, one) => all + (one.waiting ?? 0), 0))],
    ];
    fill(this.figures, figures.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
  }

  drawStrip({ partitions, instances }) {
    if (!partitions) return fill(this.strip);
    const holders = new Map(instances.flatMap((one) => one.partitions.map((number) => [number, nameOf(one)])));
    const free = partitions - holders.size;
    const told = instances.filter((one) => one.partitions.length).map((one) => `${nameOf(one)} ${one.partitions.length}`);
    fill(this.strip,
      s("svg", { width: "100%", height: 18, role: "img", "aria-label": `Partitions: ${told.join(", ")}${free ? `, ${free} free` : ""}` },
        Array.from({ length: partitions }, (_, number) => {
          const holder = holders.get(number);
          const width = 100 / partitions;
          return s("rect", { class: holder ? `partition ${this.toneOf(holder)}` : "partition free", x: `${(number * width).toFixed(3)}%`, width: `${(width * (partitions > 150 ? 1 : 0.86)).toFixed(3)}%`, height: 18, rx: partitions > 60 ? 0 : 3 },
            s("title", {}, `partition ${number}: ${holder ?? "free"}`));
        })));
  }

  drawCharts(resource, history, names) {
    const columns = history.columns(names);
    const limit = resource.limit === null ? null : { name: "limit", values: resource.limit };
    const granted = names.map((name) => history.gauge(name, columns, (report) => amount(report.capacity?.granted)));
    const used = names.map((name) => history.rate(name, columns, (report) => amount(report.used)));
    this.held.update({
      label: `Who holds what of ${resource.name}`, columns, limit,
      series: names.map((name, place) => ({ name, values: granted[place], tone: this.toneOf(name) })),
    });
    // Each says what it holds at moments of its own: one that gave back since then, and one that got it, are both counted.
    const above = sum(granted, columns.length).some((all) => limit && all > resource.limit);
    fill(this.apart, above && "as each said it, up to 2 s apart: what moved between two is drawn twice");
    const spans = pauses(history, names, columns);
    const single = names.map((name, place) => ({ name, values: used[place], tone: this.toneOf(name) }));
    this.used.update({
      label: `Rate used of ${resource.name}`, columns, limit,
      series: names.length > 1 ? [{ name: "together", values: sum(used, columns.length), tone: "strong" }, ...single] : single,
      spans,
    });
    fill(this.shaded, spans.length > 0 && "shaded: paused, for the receiver had too much to do");
  }
}

const nameOf = (one) => one.worker ?? one.instance;

/** Stretches in which somebody was paused. */
function pauses(history, names, columns) {
  const paused = names.map((name) => history.gauge(name, columns, (report) => report.paused));
  const more = names.map((name) => history.growth(name, columns, (report) => report.pauses));
  return columns.flatMap(({ from: begin, to }, place) => {
    const who = names.filter((_, index) => paused[index][place] || more[index][place]?.by > 0.5);
    return who.length ? [{ from: begin, to, name: `paused: ${who.join(", ")}`, tone: "warn" }] : [];
  });
}

function instanceTable({ shared, instances, limit }, now, toneOf) {
  const heads = [shared ? "Instance" : "Worker", shared && "Partitions", shared && "Held until", shared && "Asks for", "May use", "Could use", "Used", "Waiting", "State"];
  return h("table", {},
    h("thead", {}, h("tr", {}, heads.map((head, place) => head && h("th", { scope: "col", class: place && place < 8 && place !== 1 ? "number" : null }, head)))),
    h("tbody", {}, instances.map((one) => h("tr", { "data-key": nameOf(one) },
      h("th", { scope: "row" }, h("span", { class: `swatch ${toneOf(nameOf(one))}` }), h("span", { class: "id" }, nameOf(one)), one.topic && h("span", { class: "quiet small" }, ` on ${one.topic}`)),
      shared && h("td", { title: one.partitions.join(", ") }, ranges(one.partitions)),
      shared && h("td", { class: "number" }, one.until ? from(Date.parse(one.until), now) : "–"),
      shared && h("td", { class: "number" }, one.asks_for === null ? "–" : count(one.asks_for)),
      h("td", { class: "number" }, one.granted === null ? "–" : rate(one.granted)),
      h("td", { class: "number" }, one.wanted === null ? "–" : rate(one.wanted)),
      h("td", { class: "number" }, rate(one.used), one.used !== null && limit ? h("span", { class: "quiet small" }, ` ${percent(one.used, limit)}`) : null),
      h("td", { class: "number" }, one.waiting === null ? "–" : count(one.waiting)),
      h("td", {}, state(one, now)),
    ))));
}

function state(one, now) {
  if (one.gone) return h("span", { class: "badge" }, `gone, seen ${from(one.gone, now)}`);
  const often = one.pauses ? `paused ${plural(one.pauses, "time")} so far` : "never paused so far";
  if (one.worker === null) return h("span", { class: "badge", title: "It holds or asks, and does not report here." }, "not reporting");
  return h("span", { class: one.paused ? "badge warn" : "badge good", title: often }, one.paused ? "paused" : "running");
}

/** 0–3, 7, 9–12 */
function ranges(numbers) {
  const parts = [];
  for (const number of numbers) {
    const last = parts.at(-1);
    if (last && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  const texts = parts.map(([first, last]) => (first === last ? `${first}` : `${first}–${last}`));
  return texts.length > 6 ? `${numbers.length}: ${texts.slice(0, 5).join(", ")}, …` : texts.length ? `${numbers.length}: ${texts.join(", ")}` : "none";
}
