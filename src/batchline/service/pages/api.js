// Asks the service. The token is kept for this tab, and goes only into the header of requests to the same origin.

const KEPT = "batchline.token";
const PATIENCE_MS = 10_000, EXACT_MS = 2_000;

/** The service refused a request; `type` is the name of an error in the reference. */
export class Problem extends Error {
  constructor({ type = "", status = 0, detail = "", title = "" }) {
    super(detail || title || `status ${status}`);
    this.status = status;
    this.type = type.replace("/problems/", "");
  }
}

/** No answer came, or none that the service gives. */
export class Unreachable extends Error {}

let token = sessionStorage.getItem(KEPT);
let skew = 0;
/** What the reader has just changed is to be seen: until then no answer may be old. */
let exactUntil = 0;

export function keepToken(text) {
  token = text || null;
  if (token) sessionStorage.setItem(KEPT, token);
  else sessionStorage.removeItem(KEPT);
}
export const hasToken = () => token !== null;
/** What the service's clock shows, in milliseconds. */
export const now = () => Date.now() + skew;

export const get = (path, query, signal) => ask("GET", path + queryText(query), undefined, signal);
/** `group`: where there are no tokens, the producer group in whose name something is changed. */
export const post = (path, body, group) => ask("POST", path, body ?? undefined, undefined, group);

/** A path whose segments are names of any kind: path`/v1/topics/${topic}/count`. */
export const path = (texts, ...names) => String.raw({ raw: texts }, ...names.map(encodeURIComponent));

function queryText(query) {
  const pairs = Object.entries(query ?? {}).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value]).filter((one) => one !== null && one !== undefined && one !== "").map((one) => [name, one]),
  );
  return pairs.length ? `?${new URLSearchParams(pairs)}` : "";
}

async function ask(method, address, body, signal, group) {
  const headers = { accept: "application/json" };
  if (token) headers.authorization = `Bearer ${token}`;
  if (method === "GET" && Date.now() > exactUntil) headers["batchline-may-be-old"] = "1";
  if (method !== "GET") exactUntil = Date.now() + EXACT_MS;
  if (group) headers["batchline-producer-group"] = encodeURIComponent(group);
  if (body !== undefined) headers["content-type"] = "application/json";
  const signals = [AbortSignal.timeout(PATIENCE_MS), ...(signal ? [signal] : [])];
  let response, text;
  try {
    response = await fetch(address, {
      method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", keepalive: method !== "GET", signal: AbortSignal.any(signals),
    });
    text = await response.text();
  } catch (error) {
    if (signal?.aborted) throw signal.reason;
    throw new Unreachable(error.message);
  }
  setClock(response.headers.get("date"));
  return read(response, text);
}

function read(response, text) {
  let answer = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    throw new Unreachable(`status ${response.status}`);
  }
  if (response.ok) return answer;
  if (response.status >= 502 && !answer?.type) throw new Unreachable(`status ${response.status}`);
  throw new Problem({ ...answer, status: response.status });
}

function setClock(date) {
  const found = Date.parse(date ?? "") + 500 - Date.now(); // a header's seconds are cut off
  if (Math.abs(found - skew) > 1_500) skew = Math.abs(found) > 1_500 ? found : 0;
}
