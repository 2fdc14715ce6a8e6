// Timeline: the future load of a topic, its counts and consumers, and one message with its history.

import { get, now, path } from "./api.js";
import { Chart } from "./chart.js";
import { fill, h } from "./dom.js";
import { MessageCard } from "./message.js";
import { count, from, plural, rate, short } from "./words.js";

const RANGES = { minute: ["1m", 60], hour: ["1h", 60], day: ["1d", 48], month: ["30d", 60] };

export function open(view) {
  let topic = view.query.get("topic"), range = view.query.get("range") ?? "hour";
  if (!RANGES[range]) range = "hour";
  const select = h("select", { "aria-label": "Topic", onchange: () => choose({ topic: select.value }) });
  const ranges = h("div", { class: "choices", role: "group", "aria-label": "How far ahead" });
  const figures = h("dl", { class: "figures" });
  const chart = new Chart({ kind: "bars", height: 260 });
  const told = h("p", { class: "quiet small told" });
  const consumers = h("div", {});
  const message = new MessageCard(view, (id) => choose({ message: id }));
  const body = h("div", { class: "page" },
    h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, "What becomes due"), ranges), figures, chart.node, told),
    h("div", { class: "columns" }, message.node, h("section", { class: "card" }, h("h2", {}, "Consumers"), consumers)),
  );
  const none = h("div", { hidden: true });
  view.root.append(h("div", { class: "head" }, h("h1", {}, "Timeline"), h("div", { class: "spread" }, select)), none, body);
  message.look(topic, view.query.get("message"));

  function choose(changed) {
    const query = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changed)) value ? query.set(name, value) : query.delete(name);
    view.go(`/timeline?${query}`, { replace: true });
    ({ topic = topic, range = range } = changed);
    if ("topic" in changed) message.look(topic, null);
    drawRanges();
    view.wake();
  }

  function drawRanges() {
    fill(ranges, Object.keys(RANGES).map((name) => h("button", { type: "button", "aria-pressed": String(name === range), onclick: () => choose({ range: name }) }, name)));
  }
  drawRanges();

  return async (signal) => {
    const { topics } = await get("/v1/topics", {}, signal);
    const names = topics.filter((one) => !one.deleted).map((one) => one.name);
    body.hidden = select.hidden = !names.length;
    none.hidden = names.length > 0;
    fill(none, !names.length && emptyTopics());
    if (!names.length) return;
    if (!names.includes(topic)) {
      topic = names.find((name) => !topics.some((one) => one.dead_letter === name)) ?? names[0];
      message.look(topic, message.id);
    }
    fill(select, names.map((name) => h("option", { value: name }, name)));
    select.value = topic;
    const [within, bins] = RANGES[range];
    const asked = topic;
    const [counts, load, there] = await Promise.all([
      get(path`/v1/topics/${topic}/count`, {}, signal),
      get(path`/v1/topics/${topic}/load`, { within, bins }, signal),
      get(path`/v1/topics/${topic}/consumers`, {}, signal),
      message.refresh(signal),
    ]);
    if (asked !== topic) return;
    drawFigures(figures, counts, load, range);
    drawLoad(chart, told, load, topic, range);
    fill(consumers, consumerTable(there.consumers, counts.available));
  };
}

const emptyTopics = () => h("p", { class: "card empty" }, h("strong", {}, "There is no topic yet, or none that you may see."), "Make one, and put a message on it: ", h("code", {}, "batchline topic create orders"), " ", h("code", {}, "batchline put orders --in 1h --body hello"));

function drawFigures(node, counts, load, range) {
  const soon = load.bins.reduce((sum, bin) => sum + bin.count, 0);
  const list = [
    ["waiting", counts.waiting], ["due, not taken", counts.available], ["in hand", counts.processing], [`in the next ${range}`, soon],
  ];
  fill(node, list.map(([name, value]) => h("div", { "data-key": name.split(" ")[0] }, h("dt", {}, name), h("dd", { title: count(value) }, value < 1e6 ? count(value) : short(value)))));
}

function drawLoad(chart, told, { bins, messages_per_second: perSecond }, topic, range) {
  const columns = bins.map((bin) => ({ from: Date.parse(bin.begin), to: Date.parse(bin.end) }));
  const values = bins.map((bin) => bin.count);
  // The first and the last stretch may be shorter; a line far above all bars would press them flat.
  const length = Math.max(...columns.map(({ from, to }) => to - from));
  const can = (perSecond * length) / 1_000;
  const near = perSecond && can <= 3 * Math.max(...values);
  const spikes = bins.filter((bin) => bin.spike).length;
  chart.update({
    label: `Messages on ${topic} that become due in the next ${range}`,
    columns,
    series: [{ name: "messages", values, tone: "accent" }],
    marked: bins.map((bin) => bin.spike),
    limit: near ? { name: "what consumers can take", values: columns.map(({ from, to }) => (to - from === length ? can : null)) } : null,
  });
  const tells = [];
  if (!values.some(Boolean)) tells.push(`Nothing becomes due in the next ${range}.`);
  tells.push(perSecond ? `The consumers have shown that they take ${rate(perSecond)}${near ? "" : ", far more than this"}.` : "No consumer has shown yet how much it can take.");
  if (spikes) tells.push(`${plural(spikes, "stretch has", "stretches have")} more than that: red.`);
  fill(told, tells.join(" "));
}

function consumerTable(list, due) {
  if (!list.length) {
    return h("p", { class: "empty" }, h("strong", {}, due ? `Nobody is there, and ${plural(due, "message is", "messages are")} due.` : "Nobody is there."), "A consumer begins with ", h("code", {}, "batchline lease orders --consumer me"), " or the ", h("code", {}, "Consumer"), " class.");
  }
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Consumer"), ["Rate", "Clock", "Seen"].map((name) => h("th", { scope: "col", class: "number" }, name)))),
    h("tbody", {}, list.map((one) => h("tr", { "data-key": one.consumer },
      h("th", { scope: "row", class: "id" }, one.consumer),
      h("td", { class: "number" }, rate(one.messages_per_second)),
      h("td", { class: Math.abs(one.drift_ms) > 1_000 ? "number wrong" : "number" }, `${one.drift_ms >= 50 ? "+" : ""}${(Math.round(one.drift_ms / 100) / 10 || 0).toFixed(1)} s`),
      h("td", { class: "number quiet" }, from(Date.parse(one.seen), now())),
    ))),
  ));
}
