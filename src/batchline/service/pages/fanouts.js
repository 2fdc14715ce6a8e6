// Fanouts: how far each is, the stuck ones on top; under /fanouts/<id> one of them.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { openFanout } from "./fanout.js";
import { isStuck, Pace, row } from "./fanout_row.js";
import { count, plural } from "./words.js";

const STATES = { now: "Now", all: "All", open: "Open", sealed: "Sealed", complete: "Complete", failed: "Failed", expired: "Expired" };
const PAGE = 50, MOST_LIVE = 200, MOST_FAILED = 10;

export function open(view) {
  return view.name ? openFanout(view) : openList(view);
}

function openList(view) {
  let state = STATES[view.query.get("state")] ? view.query.get("state") : "now";
  let label = view.query.get("label") ?? "", limit = PAGE, stuckBefore = null;
  const pace = new Pace();
  const choices = h("div", { class: "choices", role: "group", "aria-label": "State" });
  const filter = h("input", { type: "search", placeholder: "label, such as job=import", "aria-label": "Label", value: label, "data-search": true, onchange: () => choose({ label: filter.value.trim() }) });
  const byId = h("input", { type: "search", name: "id", placeholder: "open by id", "aria-label": "Id of a fanout", autocomplete: "off", spellcheck: "false" });
  const list = h("div", {}), more = h("div", { class: "actions" });
  const goTo = (event) => {
    event.preventDefault();
    if (byId.value.trim()) view.go(`/fanouts/${encodeURIComponent(byId.value.trim())}`);
  };
  view.root.append(
    h("div", { class: "head" }, h("h1", {}, "Fanouts")),
    h("div", { class: "bar-of-controls" }, choices, filter, h("form", { class: "spread", role: "search", onsubmit: goTo }, byId)),
    h("section", { class: "card", "aria-label": "Fanouts" }, list, more),
  );

  function choose(changed) {
    ({ state = state, label = label } = changed);
    limit = PAGE;
    const query = new URLSearchParams(Object.entries({ state: state === "now" ? "" : state, label }).filter(([, value]) => value));
    view.go(`/fanouts${query.size ? `?${query}` : ""}`, { replace: true });
    drawChoices();
    view.wake();
  }
  const drawChoices = () => fill(choices, Object.entries(STATES).map(([name, words]) => h("button", { type: "button", "aria-pressed": String(name === state), onclick: () => choose({ state: name }) }, words)));
  drawChoices();

  return async (signal) => {
    if (label && !/^[^=]+=.+$/.test(label)) {
      fill(list, h("p", { class: "empty" }, h("strong", {}, "A label has a name and a value."), "Such as ", h("code", {}, "job=import"), "."));
      return;
    }
    const asked = state + label;
    const { fanouts, next } = state === "now" ? await readLive(label, signal) : await get("/v1/fanouts", { state: state === "all" ? null : state, label, limit, newest: true }, signal);
    if (asked !== state + label) return;
    fanouts.forEach((one) => pace.see(one));
    const sorted = [...fanouts].sort((a, b) => isStuck(b) - isStuck(a) || (state === "now" ? Date.parse(b.last_activity_at) - Date.parse(a.last_activity_at) : 0));
    fill(list, sorted.length ? h("ul", { class: "fanout-list" }, sorted.map((one) => row(one, pace))) : empty(state, label));
    fill(more, next && state !== "now" ? h("button", { type: "button", onclick: () => { limit = Math.min(limit + PAGE, 1_000); view.wake(); } }, "Show older") : next ? h("p", { class: "quiet small" }, `These are the first ${count(MOST_LIVE)} of each state.`) : null);
    const stuck = fanouts.filter(isStuck).length;
    if (stuckBefore !== null && stuck > stuckBefore) view.announce(`${plural(stuck, "fanout is", "fanouts are")} stuck`);
    stuckBefore = stuck;
  };
}

async function readLive(label, signal) {
  const pages = await Promise.all([
    get("/v1/fanouts", { state: "open", label, limit: MOST_LIVE }, signal),
    get("/v1/fanouts", { state: "sealed", label, limit: MOST_LIVE }, signal),
    get("/v1/fanouts", { state: "failed", label, limit: MOST_FAILED, newest: true }, signal),
  ]);
  return { fanouts: pages.flatMap((page) => page.fanouts), next: pages[0].next ?? pages[1].next };
}

function empty(state, label) {
  if (label || !["now", "all"].includes(state)) return h("p", { class: "empty" }, h("strong", {}, "None is as you ask."), "Choose another state or label.");
  if (state === "now") return h("p", { class: "empty fine" }, h("strong", {}, "Nothing is under way."), "What is complete is under All. A fanout begins with ", h("code", {}, "batchline fanout open"), ".");
  return h("p", { class: "empty" }, h("strong", {}, "There is no fanout yet."), "Open one: ", h("code", {}, "batchline fanout open"));
}
