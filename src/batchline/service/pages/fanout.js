// One fanout: its numbers, its pending and failed items, its children; and, for who may, giving it up.

import { get, now, path, post, Problem } from "./api.js";
import { Chart } from "./chart.js";
import { confirm, note } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { badge, bar, isLive, labels, Pace, row, tells } from "./fanout_row.js";
import { count, from, moment, percent, plural, rate, span } from "./words.js";

const PAGE = 50;

export function openFanout(view) {
  const id = view.name, pace = new Pace();
  const parts = Object.fromEntries(["top", "facts", "pending", "failed", "children"].map((name) => [name, h("div", {})]));
  const watched = new Chart({ kind: "lines", height: 170 });
  const watching = h("section", { class: "card", hidden: true }, h("h2", {}, "Pending, since you opened this page"), watched.node);
  const seen = [];
  let state = null;
  const lists = { pending: PAGE, failed: PAGE };
  view.root.append(
    h("p", {}, h("a", { href: "/fanouts" }, "← All fanouts")),
    h("section", { class: "card first" }, parts.top, parts.facts),
    watching,
    h("div", { class: "columns" }, h("section", { class: "card" }, parts.pending), h("section", { class: "card" }, parts.failed)),
    parts.children,
  );

  return async (signal) => {
    const fanout = await read(id, signal);
    if (!fanout) return fill(parts.top, h("h1", { class: "id" }, id), h("p", { class: "empty" }, h("strong", {}, "There is no such fanout, or it is not yours."), "One that has expired is forgotten after a while."));
    pace.see(fanout);
    fill(parts.top, top(fanout, pace, view));
    fill(parts.facts, facts(fanout, pace));
    if (state && state !== fanout.state) view.announce(`${id} is ${fanout.state}`);
    state = fanout.state;
    watch(fanout);
    const asks = fanout.state === "expired" ? [{ items: [] }, { items: [] }] : [
      get(path`/v1/fanouts/${id}/pending`, { limit: lists.pending }, signal),
      get(path`/v1/fanouts/${id}/failed`, { limit: lists.failed }, signal),
    ];
    const [pending, failed, children] = await Promise.all([...asks, get("/v1/fanouts", { parent: id, limit: PAGE }, signal)]);
    fill(parts.pending, items("Pending", fanout.pending, (pending.items ?? []).map((item) => [item]), () => more("pending"), fanout));
    fill(parts.failed, items("Failed", fanout.failed, (failed.items ?? []).map((item) => [item.id, item.reason, item.failed_at]), () => more("failed"), fanout));
    fill(parts.children, children.fanouts?.length ? h("section", { class: "card" }, h("h2", {}, "Children"), h("ul", { class: "fanout-list" }, children.fanouts.map((one) => row(one, pace)))) : null);
  };

  function more(name) {
    lists[name] = Math.min(lists[name] + 200, 10_000);
    view.wake();
  }

  function watch(fanout) {
    seen.push({ at: now(), pending: fanout.pending });
    if (seen.length > 300) seen.shift();
    watching.hidden = seen.length < 3 || new Set(seen.map((one) => one.pending)).size < 2;
    if (!watching.hidden) {
      watched.update({ label: `Pending items of ${id}`, columns: seen.map(({ at }) => ({ from: at, to: at })), series: [{ name: "pending", values: seen.map((one) => one.pending), tone: "accent" }] });
    }
  }
}

async function read(id, signal) {
  try {
    return await get(path`/v1/fanouts/${id}`, {}, signal);
  } catch (error) {
    if (error instanceof Problem && (error.status === 404 || error.status === 403)) return null;
    throw error;
  }
}

function top(fanout, pace, view) {
  return [
    h("div", { class: "head" }, h("h1", { class: "id" }, fanout.id), badge(fanout), labels(fanout), mayExpire(fanout, view.caller) && h("button", { type: "button", class: "spread", onclick: () => expire(fanout, view) }, "Give up…")),
    h("div", { class: "large" }, bar(fanout)),
    h("p", { class: "quiet" }, tells(fanout, pace).join(" · ")),
  ];
}

const mayExpire = (fanout, { open, admin, producer_group: group }) => isLive(fanout) && (open || admin || (group && fanout.labels?.producer_group === group));

async function expire(fanout, view) {
  const answer = await confirm({ title: "Give the fanout up?", text: `${plural(fanout.pending, "item is", "items are")} pending. A later ack will be answered “expired”. This cannot be undone.`, action: "Give it up", dangerous: true });
  if (!answer) return;
  try {
    await post(path`/v1/fanouts/${fanout.id}/expire`, {});
    note(`${fanout.id} is given up.`);
  } catch (error) {
    note(`That did not work: ${error.message}`, { bad: true });
  }
  view.wake();
}

function facts(fanout, pace) {
  const left = pace.left(fanout);
  const when = (text) => (text ? `${moment(Date.parse(text), now())} · ${from(Date.parse(text), now())}` : null);
  const list = [
    ["Items", count(fanout.total)],
    ["Done", `${count(fanout.acked)} · ${percent(fanout.acked, fanout.total)}`],
    ["Pending", count(fanout.pending)],
    ["Failed", `${count(fanout.failed)} · ${fanout.tolerate === "any" ? "any number is tolerated" : `${count(fanout.tolerate)} tolerated`}`],
    ["Rate", isLive(fanout) ? rate(pace.of(fanout)) : null],
    ["Time left", left === null ? null : span(left)],
    ["Opened", when(fanout.opened_at)],
    ["Sealed", when(fanout.sealed_at)],
    ["Last activity", when(fanout.last_activity_at)],
    ["Complete", when(fanout.completed_at)],
    ["Failed at", when(fanout.failed_at)],
    ["Expired", when(fanout.expired_at)],
    ["Parent", fanout.parent ? h("a", { href: path`/fanouts/${fanout.parent}` }, fanout.parent) : null],
  ];
  return h("dl", { class: "facts" }, list.filter(([, value]) => value !== null).map(([name, value]) => h("div", { "data-key": name }, h("dt", {}, name), h("dd", {}, value))));
}

function items(title, total, rows, more, fanout) {
  const short = (item) => item.slice(fanout.id.length + 1);
  const none = fanout.state === "expired" ? "Its items are forgotten." : title === "Pending" ? "No item is pending." : "No item has failed.";
  return [
    h("div", { class: "head" }, h("h2", {}, title), h("span", { class: "quiet" }, count(fanout.state === "expired" ? 0 : total))),
    rows.length ? h("ul", { class: "items" }, rows.map(([item, reason, at]) => h("li", { "data-key": item, title: item },
      h("span", { class: "id" }, short(item)),
      reason !== undefined && h("span", { class: "reason" }, reason || "no reason was given", h("span", { class: "quiet" }, ` · ${from(Date.parse(at), now())}`)),
    ))) : h("p", { class: "empty" }, none),
    rows.length < total && rows.length > 0 && h("div", { class: "actions" }, h("span", { class: "quiet small spread-left" }, `the first ${count(rows.length)}`), h("button", { type: "button", onclick: more }, "More")),
  ];
}
