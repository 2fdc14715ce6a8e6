// Who reads: asks for a token where the service wants one, and knows what may be done with it.

import { get, keepToken, Problem } from "./api.js";
import { show } from "./dialogs.js";
import { h } from "./dom.js";

let caller = null;
let asking = null;

/** What the reader may do: { open, name, producer_group, topics, consumers, admin }. */
export async function whoReads() {
  caller ??= await get("/v1/caller");
  return caller;
}

/** Asks for a token until the service takes one. */
export function signIn() {
  asking ??= ask().finally(() => (asking = null));
  return asking;
}

async function ask(said = "") {
  const text = await show("Sign in", (close) => form(close, said));
  if (text === undefined) return ask(said);
  keepToken(text);
  try {
    caller = null;
    return await whoReads();
  } catch (error) {
    keepToken(null);
    return ask(error instanceof Problem && error.status === 401 ? "The service does not know this token, or it has ended." : `That did not work: ${error.message}`);
  }
}

function form(close, said) {
  const submit = (event) => {
    event.preventDefault();
    close(new FormData(event.target).get("token").trim());
  };
  return h("form", { class: "sign-in", onsubmit: submit },
    h("h2", {}, "Sign in"),
    h("p", {}, "This service asks for a token. Who runs it makes one with ", h("code", {}, "batchline token create"), "."),
    h("label", {}, "Token",
      h("input", { name: "token", type: "password", required: true, autofocus: true, autocomplete: "current-password", placeholder: "bl_…", spellcheck: "false", "aria-describedby": "sign-in-said" }),
    ),
    h("p", { id: "sign-in-said", class: "wrong", role: "alert" }, said),
    h("div", { class: "actions" }, h("button", { class: "primary" }, "Sign in")),
    h("p", { class: "quiet small" }, "It is kept in this tab until you close it or sign out."),
  );
}

/** Forget the token, and begin again. */
export function signOut() {
  keepToken(null);
  location.reload();
}
