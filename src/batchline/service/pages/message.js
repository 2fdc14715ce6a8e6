// One message, looked up by its id: its state, its history, and, for who may, moving and cancelling it.

import { get, now, path, post, Problem } from "./api.js";
import { confirm, note } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { from, local, moment, plural } from "./words.js";

const STATES = { waiting: ["waiting", "busy"], available: ["due", "warn"], processing: ["in hand", "good"] };
const ENDINGS = { released: "given back", expired: "its lease ended", moved: "moved" };
const LONGEST = 4_000;

export class MessageCard {
  /** `chosen(id)` hears which message the reader looks at. */
  constructor(view, chosen) {
    Object.assign(this, { view, chosen, topic: null, id: null, state: null });
    this.input = h("input", { name: "id", "aria-label": "Id of a message", placeholder: "id of a message", "data-search": true, autocomplete: "off", spellcheck: "false" });
    this.found = h("div", { class: "found" });
    this.node = h("section", { class: "card message" },
      h("h2", {}, "A message"),
      h("form", { class: "bar-of-controls", role: "search", onsubmit: (event) => this.submit(event) }, this.input, h("button", {}, "Look up")),
      this.found,
    );
  }

  submit(event) {
    event.preventDefault();
    this.look(this.topic, this.input.value.trim() || null);
    this.chosen(this.id);
  }

  look(topic, id) {
    this.topic = topic;
    if (id !== this.id) this.state = null;
    this.id = id;
    this.input.value = id ?? "";
    if (!id) fill(this.found, h("p", { class: "empty" }, "Type its id, as ", h("code", {}, "create"), " answered it. What is done or cancelled is gone."));
  }

  async refresh(signal) {
    if (!this.id || !this.topic) return;
    const asked = this.id;
    let parts;
    try {
      const message = await get(path`/v1/topics/${this.topic}/messages/${asked}`, {}, signal);
      if (this.state && this.state !== message.state) this.view.announce(`${asked} is ${STATES[message.state][0]}`);
      this.state = message.state;
      parts = this.parts(message);
    } catch (error) {
      if (!(error instanceof Problem) || error.status >= 500 || error.status === 401) throw error;
      const gone = this.state !== null && error.type === "UnknownMessage";
      parts = h("p", { class: "empty" }, h("strong", {}, gone ? "It is gone: done, or cancelled." : "It cannot be shown."), gone ? null : error.message);
    }
    if (asked === this.id) fill(this.found, parts);
  }

  parts(message) {
    const [words, tone] = STATES[message.state], at = Date.parse(message.at);
    return [
      h("div", { class: "head" }, h("strong", { class: "id" }, message.id), h("span", { class: `badge ${tone}` }, words)),
      h("dl", { class: "facts" },
        fact(message.state === "processing" ? "Lease ends" : "Due", `${moment(at, now())} · ${from(at, now())}`),
        message.consumer && fact("Held by", message.consumer),
        fact("Owner", message.producer_group),
        fact("Attempts", String(message.attempts)),
        message.priority ? fact("Priority", String(message.priority)) : null,
      ),
      body(message),
      history(message.history ?? []),
      this.mayChange(message) && message.state !== "processing" && h("div", { class: "actions" },
        h("button", { type: "button", onclick: () => this.move(message) }, "Move…"),
        h("button", { type: "button", class: "cancel", onclick: () => this.cancel(message) }, "Cancel it…"),
      ),
    ];
  }

  mayChange(message) {
    const { open, producer_group: group } = this.view.caller;
    return open || group === message.producer_group;
  }

  async move(message) {
    const at = Date.parse(message.at);
    const input = h("input", { type: "datetime-local", name: "at", step: "1", required: true, value: local(Math.max(at, now() + 60_000)) });
    const answer = await confirm({ title: "Move the message", text: `${message.id} is due ${from(at, now())}.`, action: "Move", fields: h("label", {}, "New moment, in your own time", input) });
    if (answer) await this.moveTo(message, new Date(answer.get("at")).getTime(), () => this.moveTo(message, at));
  }

  async moveTo(message, at, undo) {
    await this.change(message, "move", { moments: { [message.id]: at } }, "moved", `${message.id} stands at ${moment(at, now())}.`, undo);
  }

  async cancel(message) {
    const answer = await confirm({ title: "Cancel the message?", text: `${message.id} will not be delivered.`, action: "Cancel the message", dangerous: true });
    if (!answer) return;
    // What was cancelled cannot be put back at once, its id is kept for a while: so there is time before it, not after.
    const then = () => this.change(message, "cancel", { ids: [message.id] }, "cancelled", `${message.id} is cancelled.`);
    note(`${message.id} is about to be cancelled.`, { undo: () => note(`${message.id} stays.`), then });
  }

  async change(message, word, form, wanted, said, undo) {
    try {
      const { outcomes: [one] } = await post(path`/v1/topics/${message.topic}/messages/${word}`, form, this.group(message));
      if (one.outcome === wanted) note(said, { undo });
      else note(`${message.id} was not ${wanted}: it is ${one.outcome}. ${one.reason ?? ""}`, { bad: true });
    } catch (error) {
      note(`That did not work: ${error.message}`, { bad: true });
    }
    this.view.wake();
  }

  /** Where there are no tokens, one acts in the name of the owner. */
  group(message) {
    return this.view.caller.open ? message.producer_group : null;
  }
}

const fact = (name, value) => h("div", {}, h("dt", {}, name), h("dd", {}, value));

function body({ body, body_base64: base64 }) {
  const text = body ?? base64 ?? "";
  if (!text) return h("p", { class: "quiet small" }, "Its body is empty.");
  return h("details", { class: "body", open: text.length < 400 }, h("summary", {}, base64 ? "Body, in base64" : "Body"), h("pre", {}, text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text));
}

function history(attempts) {
  if (!attempts.length) return null;
  return h("div", {},
    h("h3", {}, plural(attempts.length, "attempt"), " in vain"),
    h("ol", { class: "history" }, attempts.map((one) => h("li", {},
      h("span", {}, `${one.attempt}. ${one.consumer}: ${ENDINGS[one.ending] ?? one.ending}`),
      h("span", { class: "quiet" }, moment(Date.parse(one.ended), now())),
      one.reason && h("span", { class: "reason" }, one.reason),
    ))),
  );
}
