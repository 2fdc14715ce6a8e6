// The windows of a key that the reader chooses: keys are searched, windows are paged, the newest are followed.

import { get } from "./api.js";
import { fill, h } from "./dom.js";
import { WindowsPlot } from "./windows.js";
import { count, plural } from "./words.js";

const PAGE = { wide: 8, narrow: 3 };
const NARROW = 640;
const KEYS = 12;

export class KeyWindows {
  constructor(view) {
    this.view = view;
    this.key = view.query.get("key") ?? "";
    this.like = "";
    this.skip = 0;
    this.order = [];
    this.hidden = new Set();
    this.types = new Map();
    this.plot = new WindowsPlot();
    this.search = h("input", { type: "search", placeholder: "pump-00…", "data-search": true, autocomplete: "off", spellcheck: "false", oninput: () => this.look() });
    this.found = h("div", { class: "keys-found", role: "group", "aria-label": "Keys" });
    this.pager = h("div", { class: "choices", role: "group", "aria-label": "Windows" });
    this.told = h("p", { class: "quiet" });
    this.chips = h("div", { class: "types", role: "group", "aria-label": "Types" });
    this.parts = [
      h("div", { class: "bar-of-controls" }, h("label", {}, "Key", this.search), this.found),
      h("div", { class: "head windows-head" }, this.told, this.pager), this.chips, this.plot.node,
    ];
    this.body = h("div", { class: "page" });
    this.node = h("section", { class: "card windows-card", "aria-label": "Windows of a key" }, h("h2", {}, "Windows of a key"), this.body);
  }

  look() {
    this.like = this.search.value.trim();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.view.wake(), 150);
  }

  async refresh(signal) {
    const { keys, tables, forbidden } = await get("/v1/pipeline/keys", { like: this.like, limit: 5 * KEYS }, signal).catch((error) => {
      if (error.type !== "Forbidden") throw error;
      return { forbidden: true };
    });
    if (forbidden) return fill(this.body, h("p", { class: "empty" }, h("strong", {}, "Your token is not for all topics."), "The tables of a pipeline have the keys of all of them."));
    if (!tables) return fill(this.body, noTables());
    if (!this.key && !this.like && keys.length) this.key = keys[0].key;
    if (!this.key && !keys.length && !this.like) return fill(this.body, h("p", { class: "empty" }, h("strong", {}, "There is no batch yet."), "The first windows are seen here when they have closed."));
    fill(this.body, this.parts);
    this.drawKeys(keys);
    if (this.key) await this.drawWindows(signal);
  }

  /** Keys stay where they are while their numbers change: nobody hits the wrong one. */
  drawKeys(found) {
    if (this.likeShown !== this.like) this.order = [];
    this.likeShown = this.like;
    this.order = [...this.order, ...found.map((one) => one.key).filter((key) => !this.order.includes(key))].slice(0, KEYS);
    const keys = this.order.map((key) => found.find((one) => one.key === key) ?? { key });
    const button = (key, note) => h("button", { type: "button", "data-key": key, "aria-pressed": String(key === this.key), onclick: () => this.choose(key) }, key, note && h("span", { class: "quiet" }, ` ${note}`));
    const shown = keys.some((one) => one.key === this.key) || this.like || !this.key ? keys : [{ key: this.key }, ...keys.slice(0, KEYS - 1)];
    fill(this.found, shown.length ? shown.map((one) => button(one.key, one.rejected ? `${count(one.rejected)} rejected` : "")) : h("span", { class: "quiet" }, `No key has “${this.like}” in it.`));
  }

  choose(key) {
    Object.assign(this, { key, skip: 0 });
    this.hidden.clear();
    const query = new URLSearchParams(location.search);
    query.set("key", key);
    this.view.go(`/pipeline?${query}`, { replace: true });
    this.view.wake();
  }

  async drawWindows(signal) {
    const limit = this.node.clientWidth < NARROW ? PAGE.narrow : PAGE.wide;
    const data = await get("/v1/pipeline/windows", { key: this.key, limit, skip: this.skip }, signal).catch((error) => {
      if (error.type !== "UnknownKey") throw error;
      return null;
    });
    if (!data) {
      fill(this.told, `No measurement of ${this.key} is in the tables any more.`);
      return;
    }
    this.data = data;
    this.limit = limit;
    for (const type of data.types) if (!this.types.has(type)) this.types.set(type, `t${this.types.size % 10}`);
    this.draw();
  }

  draw() {
    const { data, limit } = this;
    const rejected = Object.entries(data.rejected_by_reason).map(([reason, number]) => `${count(number)} ${reason}`);
    fill(this.told, h("strong", { class: "id" }, data.key), ` ${plural(data.batches, "batch", "batches")} of ${plural(data.batched, "message")} · rejected: ${rejected.join(", ") || "none"}`);
    const page = (name, skip, there) => h("button", { type: "button", disabled: !there, onclick: () => { this.skip = skip; this.view.wake(); } }, name);
    fill(this.pager,
      page("← Earlier", this.skip + limit, data.earlier > 0),
      page("Later →", Math.max(0, this.skip - limit), data.later > 0),
      h("button", { type: "button", "aria-pressed": String(this.skip === 0), onclick: () => { this.skip = 0; this.view.wake(); } }, "Newest"));
    fill(this.chips, data.types.map((type) => h("button", { type: "button", "data-key": type, class: this.types.get(type), "aria-pressed": String(!this.hidden.has(type)), onclick: () => this.toggle(type) }, type)));
    this.plot.update(data, (type) => this.types.get(type), this.hidden);
  }

  toggle(type) {
    if (!this.hidden.delete(type)) this.hidden.add(type);
    this.draw();
  }
}

function noTables() {
  return h("p", { class: "empty" },
    h("strong", {}, "This service was not told where the pipeline's tables are."),
    "Start it with the directory that the pipeline writes to, its ", h("code", {}, "out"), ": ", h("code", {}, "batchline serve --tables DIR"), ". Or try ", h("code", {}, "batchline serve --demo"), ".");
}
