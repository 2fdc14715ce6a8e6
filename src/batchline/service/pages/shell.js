// The frame of all pages: addresses, keys, light and dark, and whether what is shown is fresh.
//
// A page is a module with open(view) → refresh(signal). It draws into view.root, once in the beginning and then whenever
// it is asked to refresh; `view.name` is what follows its address, `view.query` what follows the question mark.

import { now } from "./api.js";
import { announce, show } from "./dialogs.js";
import { fill, h } from "./dom.js";
import { Live } from "./live.js";
import { signIn, signOut, whoReads } from "./sign_in.js";
import { span } from "./words.js";

const PAGES = [
  { path: "/", key: "o", title: "Overview", load: () => import("./overview.js") },
  { path: "/timeline", key: "t", title: "Timeline", load: () => import("./timeline.js") },
  { path: "/fanouts", key: "f", title: "Fanouts", load: () => import("./fanouts.js") },
  { path: "/capacity", key: "c", title: "Capacity", load: () => import("./capacity.js") },
  { path: "/pipeline", key: "p", title: "Pipeline", load: () => import("./pipeline.js") },
];
const THEMES = { auto: ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };
const find = (id) => document.getElementById(id);
const main = find("main");
const live = new Live({ told, signIn: () => signIn().then(arrive) });
let status = { state: "fresh", seen: null };
let shown = null;

// --- addresses ---

function pageOf(path) {
  return PAGES.find((page) => page.path !== "/" && (path === page.path || path.startsWith(`${page.path}/`))) ?? PAGES[0];
}

function go(href, { replace = false } = {}) {
  const url = new URL(href, location.href);
  if (url.href === location.href) return live.wake();
  history[replace ? "replaceState" : "pushState"](null, "", url);
  if (!replace) arrive();
}

async function arrive() {
  const page = pageOf(location.pathname);
  const rest = location.pathname.slice(page.path.length + 1);
  live.stop();
  drawNav(page);
  const first = shown === null;
  shown = location.pathname;
  await live.follow(async (signal) => {
    // What cannot be reached at first is tried again, as anything else.
    const caller = await whoReads();
    const module = await page.load();
    if (signal.aborted) return;
    drawWho(caller);
    const root = h("div", { class: `page ${page.title.toLowerCase()}` });
    const view = { root, caller, name: page.path === "/" ? "" : decodeURIComponent(rest), query: new URLSearchParams(location.search), go, wake: () => live.wake(), announce };
    fill(main);
    main.append(root);
    document.title = `${view.name ? `${view.name} · ` : ""}${page.title} · Batchline`;
    if (!first) main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
    const refresh = module.open(view);
    live.refresh = refresh;
    await refresh(signal);
  });
}

function drawNav(current) {
  fill(find("nav"), PAGES.map((page) =>
    h("a", { href: page.path, "aria-current": page === current ? "page" : null, title: `${page.title} (g ${page.key})` }, page.title)));
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  const url = new URL(link.getAttribute("href"), location.href);
  if (url.origin !== location.origin || link.target || url.hash || !isPage(url.pathname)) return;
  event.preventDefault();
  go(url);
});
const isPage = (path) => path === "/" || PAGES.some((page) => page.path !== "/" && (path === page.path || path.startsWith(`${page.path}/`)));
window.addEventListener("popstate", () => arrive());

// --- fresh or not ---

function told(news) {
  if (status.state === "lost" && news.state === "fresh") announce("The service is back.");
  if (status.state !== "lost" && news.state === "lost") announce("The service cannot be reached.");
  status = news;
  drawStatus();
}

function drawStatus() {
  const lost = find("lost");
  const ago = status.seen ? span(Date.now() - status.seen) : null;
  find("live").dataset.state = status.state;
  fill(find("live"), { fresh: "live", lost: "lost", paused: "paused", refused: "refused" }[status.state]);
  lost.hidden = status.state !== "lost" && status.state !== "refused";
  if (status.state === "lost") {
    fill(lost, h("strong", {}, "The service cannot be reached. "), ago ? `Last seen ${ago} ago: ` : "", "this page goes on when it is back.");
  } else if (status.state === "refused") {
    fill(lost, h("strong", {}, "The service refused this. "), status.error.message);
  }
}
setInterval(() => status.state === "lost" && drawStatus(), 1_000);

function drawWho(caller) {
  const who = find("who");
  who.hidden = caller.open;
  who.title = "Sign out";
  who.onclick = signOut;
  fill(who, `${caller.name || caller.producer_group || (caller.admin ? "admin" : "reader")} · sign out`);
}

// --- light and dark ---

const theme = () => document.documentElement.dataset.theme ?? "auto";

function drawTheme() {
  const [sign, words] = THEMES[theme()];
  fill(find("theme"), sign);
  find("theme").title = `Colours: ${words} (d)`;
  find("theme").setAttribute("aria-label", `Colours: ${words}`);
}

function nextTheme() {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(theme()) + 1) % names.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  localStorage.setItem("batchline.theme", next);
  drawTheme();
  announce(`Colours: ${THEMES[next][1]}`);
}
find("theme").onclick = nextTheme;

// --- keys ---

function showKeys() {
  if (document.querySelector("dialog[open]")) return;
  const rows = [
    ...PAGES.map((page) => [`g ${page.key}`, page.title]),
    ["/", "To the search or filter of the page"],
    ["r", "Ask the service now"],
    ["d", "Light, dark, as the system"],
    ["← →", "Along a chart that has the focus"],
    ["Esc", "Close what is open"],
    ["?", "These keys"],
  ];
  show("Keys", (close) => h("div", {},
    h("h2", {}, "Keys"),
    h("dl", { class: "keys" }, rows.map(([keys, words]) => [h("dt", {}, keys.split(" ").map((key) => h("kbd", {}, key))), h("dd", {}, words)])),
    h("div", { class: "actions" }, h("button", { type: "button", class: "primary", autofocus: true, onclick: () => close() }, "Close")),
  ));
}
find("keys").onclick = showKeys;

let afterG = 0;
const KEYS = {
  "?": showKeys,
  d: nextTheme,
  r: () => live.wake(),
  g: () => (afterG = now()),
  "/": () => document.querySelector("[data-search]")?.focus(),
};
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, textarea, select, dialog");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const page = now() - afterG < 1_500 && PAGES.find((one) => one.key === event.key);
  afterG = 0;
  if (!page && !KEYS[event.key]) return;
  event.preventDefault();
  if (page) go(page.path);
  else KEYS[event.key]();
});

drawTheme();
arrive();
