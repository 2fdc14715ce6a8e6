import { get } from "./api.js";
import { h } from "./dom.js";

/** This page is being built. */
export function open(view) {
  view.root.append(h("div", { class: "head" }, h("h1", {}, "Overview")), h("p", { class: "empty" }, "Nothing to show yet."));
  return async (signal) => void (await get("/v1/caller", {}, signal));
}
