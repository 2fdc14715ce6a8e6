// What opens above a page: a question, the sign-in, the keys. And notes that go by themselves.

import { fill, h } from "./dom.js";

const NOTE_MS = 10_000, THEN_MS = 5_000;

/** Shows a dialog of parts; resolves when it is closed, with what `close(value)` was given. */
export function show(label, ...parts) {
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-label": label, closedby: "any" }, ...parts.map((part) => (typeof part === "function" ? part(close) : part)));
    let result;
    function close(value) {
      result = value;
      dialog.close();
    }
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(result);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Asks before something is changed; true if the reader wants it. */
export async function confirm({ title, text, action, dangerous = false, fields = null }) {
  const answer = await show(title, (close) =>
    h("form", { method: "dialog", onsubmit: (event) => { event.preventDefault(); close(new FormData(event.target)); } },
      h("h2", {}, title),
      text && h("p", {}, text),
      fields,
      h("div", { class: "actions" },
        h("button", { type: "button", onclick: () => close() }, "Back"),
        h("button", { type: "submit", class: dangerous ? "primary danger" : "primary" }, action),
      ),
    ),
  );
  return answer ?? null;
}

/**
 * A note at the foot of the page, with a way to take back what was done. With `then`, it is not done yet: it is when the
 * note goes, also if the page does, unless it is taken back.
 */
export function note(text, { bad = false, undo = null, then = null } = {}) {
  const notes = document.getElementById("notes");
  const close = () => {
    window.removeEventListener("pagehide", close);
    node.remove();
    then?.();
    then = null;
  };
  const node = h("div", { class: bad ? "note bad" : "note", role: bad ? "alert" : "status" },
    h("span", {}, text),
    undo && h("button", { type: "button", onclick: () => { then = null; close(); undo(); } }, "Undo"),
    h("button", { type: "button", class: "icon-button", "aria-label": "Close", onclick: close }, "×"),
  );
  notes.append(node);
  setTimeout(close, then ? THEN_MS : NOTE_MS);
  if (then) window.addEventListener("pagehide", close);
}

/** Says something to who listens instead of looking. */
export function announce(text) {
  const said = document.getElementById("said");
  if (said.textContent !== text) fill(said, text);
}
