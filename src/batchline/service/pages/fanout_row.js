// A fanout in numbers: how far, how fast, how long still, and whether it is stuck.

import { now, path } from "./api.js";
import { progress } from "./chart.js";
import { h } from "./dom.js";
import { count, percent, rate, span } from "./words.js";

/** As the service's own rule: pending items, and nothing happened for so long. */
const STUCK_MS = 5 * 60_000;
const WATCHED_MS = 60_000, LEAST_MS = 3_500;
const TONES = { open: "busy", sealed: "busy", complete: "good", failed: "bad", expired: "" };

export const isLive = (fanout) => fanout.state === "open" || fanout.state === "sealed";
export const isStuck = (fanout) => isLive(fanout) && fanout.pending > 0 && now() - Date.parse(fanout.last_activity_at) > STUCK_MS;
const done = (fanout) => fanout.acked + fanout.failed;

/** Remembers how far fanouts were, and so knows how fast they are. */
export class Pace {
  samples = new Map();

  see(fanout) {
    const list = this.samples.get(fanout.id) ?? [];
    list.push([Date.now(), done(fanout)]);
    while (list.length > 2 && list[0][0] < Date.now() - WATCHED_MS) list.shift();
    this.samples.set(fanout.id, list);
  }

  /** Items a second: as it was seen; before that, on the average since it was opened. */
  of(fanout) {
    const list = this.samples.get(fanout.id) ?? [];
    const [first, last] = [list[0], list.at(-1)];
    if (first && last[0] - first[0] >= LEAST_MS) return Math.max(0, last[1] - first[1]) / ((last[0] - first[0]) / 1_000);
    const since = Date.parse(fanout.last_activity_at) - Date.parse(fanout.opened_at);
    return since > 0 ? done(fanout) / (since / 1_000) : 0;
  }

  /** Milliseconds until it is done, if it goes on so; null if nobody knows. */
  left(fanout) {
    const pace = this.of(fanout);
    return fanout.state === "sealed" && pace > 0 && !isStuck(fanout) ? (fanout.pending / pace) * 1_000 : null;
  }
}

export function badge(fanout) {
  return isStuck(fanout) ? h("span", { class: "badge warn" }, "stuck") : h("span", { class: `badge ${TONES[fanout.state]}` }, fanout.state);
}

export function bar(fanout) {
  return progress(
    [
      { value: fanout.acked, tone: fanout.state === "complete" ? "good" : fanout.state === "expired" ? "still" : "accent", name: `${count(fanout.acked)} done` },
      { value: fanout.failed, tone: "bad", name: `${count(fanout.failed)} failed` },
    ],
    fanout.total,
    `${percent(done(fanout), fanout.total)} done`,
  );
}

export const labels = (fanout) => h("span", { class: "labels" }, Object.entries(fanout.labels ?? {}).map(([name, value]) => h("span", { class: "label" }, `${name}=${value}`)));

/** What is told below the bar. */
export function tells(fanout, pace) {
  const list = [`${count(done(fanout))} of ${count(fanout.total)}`];
  if (fanout.failed) list.push(`${count(fanout.failed)} failed`);
  const quiet = span(now() - Date.parse(fanout.last_activity_at));
  if (isStuck(fanout)) return [...list, `nothing happened for ${quiet}`];
  if (isLive(fanout)) {
    list.push(rate(pace.of(fanout)));
    const left = pace.left(fanout);
    if (left !== null) list.push(`${span(left)} left`);
    if (fanout.state === "open") list.push("not sealed: more may come");
  } else {
    const ended = fanout.completed_at ?? fanout.failed_at ?? fanout.expired_at ?? fanout.last_activity_at;
    list.push(`took ${span(Date.parse(ended) - Date.parse(fanout.opened_at))}`, `ended ${span(now() - Date.parse(ended))} ago`);
  }
  return list;
}

export function row(fanout, pace) {
  return h("li", { class: isStuck(fanout) ? "fanout stuck" : "fanout", "data-key": fanout.id },
    h("div", { class: "head" }, h("a", { class: "id", href: path`/fanouts/${fanout.id}` }, fanout.id), badge(fanout), labels(fanout)),
    bar(fanout),
    h("p", { class: "quiet small" }, h("strong", {}, percent(done(fanout), fanout.total)), " · ", tells(fanout, pace).join(" · ")),
  );
}
