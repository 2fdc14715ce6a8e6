// Overview: the path as a picture, what needs attention, rejections, topics, fanouts, processes.

import { get, now, path } from "./api.js";
import { progress } from "./chart.js";
import { fill, h } from "./dom.js";
import { pathPicture, pathTable } from "./path.js";
import { count, from, plural, rate, short, span } from "./words.js";

const STATES = { running: "good", ended: "", silent: "bad" };

export function open(view) {
  const parts = Object.fromEntries(["picture", "table", "attention", "rejections", "topics", "fanouts", "processes"].map((name) => [name, h("div", { class: name })]));
  const table = h("details", { class: "as-table" }, h("summary", {}, "As a table"), parts.table);
  let last = null, bad = null;
  view.root.append(
    h("div", { class: "head" }, h("h1", {}, "Overview")),
    h("section", { class: "card", "aria-label": "The path" }, parts.picture, table),
    h("div", { class: "columns" },
      card("Needs attention", parts.attention),
      card("Rejected measurements", parts.rejections),
    ),
    h("div", { class: "columns" },
      card("Topics", parts.topics, h("a", { href: "/timeline" }, "Timeline")),
      h("div", { class: "page" },
        card("Fanouts under way", parts.fanouts, h("a", { href: "/fanouts" }, "Fanouts")),
        card("Processes", parts.processes),
      ),
    ),
  );
  const draw = () => {
    const width = Math.floor(parts.picture.clientWidth);
    if (last && width) fill(parts.picture, pathPicture(last, width, now()));
  };
  new ResizeObserver(draw).observe(parts.picture);

  return async (signal) => {
    last = await get("/v1/overview", {}, signal);
    draw();
    fill(parts.table, pathTable(last));
    fill(parts.attention, attention(last.attention));
    fill(parts.rejections, rejections(last));
    fill(parts.topics, topics(last.topics));
    fill(parts.fanouts, fanouts(last.fanouts));
    fill(parts.processes, processes(last.processes));
    const points = last.attention.length;
    if (bad !== null && points > bad) view.announce(`${plural(points, "point needs", "points need")} attention. ${last.attention[0].text}`);
    bad = points;
  };
}

const card = (title, body, link) => h("section", { class: "card" }, h("div", { class: "head" }, h("h2", {}, title), link), body);

function attention(points) {
  if (!points.length) return h("p", { class: "empty fine" }, h("strong", {}, "All is well."), "No stuck fanout, no dead letter, every clock and consumer in order.");
  return h("ul", { class: "points" }, points.map((point) => {
    const href = point.fanout ? path`/fanouts/${point.fanout}` : point.topic ? `/timeline?${new URLSearchParams({ topic: point.topic })}` : null;
    return h("li", { class: point.bad ? "bad" : "warn", "data-key": `${point.kind} ${point.fanout ?? ""} ${point.topic ?? ""} ${point.process ?? ""}` },
      href ? h("a", { href }, point.text) : h("span", {}, point.text),
      point.since && h("span", { class: "quiet small" }, `for ${span(now() - Date.parse(point.since))}`),
    );
  }));
}

function rejections({ rejections, stages }) {
  const told = stages.find((stage) => stage.name === "batcher").per_second !== null;
  if (!rejections.length) {
    return h("p", { class: "empty" }, h("strong", {}, told ? "Nothing was rejected." : "No pipeline reports."), !told && ["Start one: ", h("code", {}, "batchline run pipeline.toml")]);
  }
  const most = rejections[0].count;
  return h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Reason"), h("th", { scope: "col", class: "wide" }, h("span", { class: "unseen" }, "Share")), h("th", { scope: "col", class: "number" }, "Count"), h("th", { scope: "col", class: "number" }, "Now"))),
    h("tbody", {}, rejections.map((one) => h("tr", { "data-key": one.reason },
      h("th", { scope: "row" }, one.reason),
      h("td", { class: "wide" }, progress([{ value: one.count, tone: "warn", name: one.reason }], most, `${count(one.count)} of ${count(most)}`)),
      h("td", { class: "number" }, count(one.count)),
      h("td", { class: "number quiet" }, rate(one.per_second)),
    ))),
  );
}

function topics(list) {
  if (!list.length) return h("p", { class: "empty" }, h("strong", {}, "There is no topic yet."), "Make one: ", h("code", {}, "batchline topic create orders"));
  return h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, ["Topic", "Waiting", "Due", "In hand", "Consumers", "Rate"].map((name, place) => h("th", { scope: "col", class: place ? "number" : null }, name)))),
    h("tbody", {}, list.map((topic) => h("tr", { "data-key": topic.name },
      h("th", { scope: "row" }, h("a", { href: `/timeline?${new URLSearchParams({ topic: topic.name })}` }, topic.name), topic.dead_letters && h("span", { class: "quiet small" }, " dead letters")),
      h("td", { class: "number" }, short(topic.waiting)),
      h("td", { class: topic.dead_letters && topic.available ? "number wrong" : "number" }, short(topic.available)),
      h("td", { class: "number" }, short(topic.processing)),
      h("td", { class: !topic.consumers && topic.available && !topic.dead_letters ? "number wrong" : "number" }, count(topic.consumers)),
      h("td", { class: "number" }, topic.consumers ? rate(topic.per_second) : "–"),
    ))),
  ));
}

function fanouts(state) {
  const more = state.more ? "+" : "";
  const figures = [["open", state.open], ["sealed", state.sealed], ["stuck", state.stuck], ["items pending", state.pending]];
  return h("dl", { class: "figures" }, figures.map(([name, value]) => h("div", { class: name === "stuck" && value ? "bad" : null }, h("dt", {}, name), h("dd", {}, short(value) + more))));
}

function processes(list) {
  if (!list.length) return h("p", { class: "empty" }, h("strong", {}, "No process reports."), h("code", {}, "batchline run"), " and ", h("code", {}, "batchline work"), " tell of themselves here.");
  return h("ul", { class: "rows" }, list.map((one) => h("li", { "data-key": `${one.kind} ${one.name}` },
    h("span", {}, h("span", { class: "quiet" }, one.kind, " "), one.name),
    h("span", { class: `badge ${STATES[one.state]}`, title: `since ${one.started}` }, one.state === "running" ? `running for ${span(now() - Date.parse(one.started))}` : `${one.state}, seen ${from(Date.parse(one.seen), now())}`),
  )));
}
