// What processes reported over the last minutes, read piece by piece: a page that is open asks only for what is new.
//
// Numbers are of two sorts: gauges stand until the next report, counters grow, and begin anew with their process.

import { get, now } from "./api.js";

/** How far back one may look, and in how long stretches it is drawn. */
export const RANGES = [
  { name: "5 min", ms: 300_000, step: 3_000 },
  { name: "15 min", ms: 900_000, step: 9_000 },
  { name: "1 h", ms: 3_600_000, step: 30_000 },
];
const OVERLAP_MS = 10_000;
/** After so long without a report a process is not there. */
export const SILENT_MS = 10_000;
const SHORTEST_MS = 30_000;

export class History {
  constructor(kind, range = RANGES[0]) {
    this.kind = kind;
    this.look(range);
  }

  /** Look so far back from now on. */
  look(range) {
    this.range = range;
    this.processes = new Map();
    this.newest = 0;
    this.now = 0;
  }

  async read(signal) {
    const range = this.range;
    const since = this.newest ? this.newest - OVERLAP_MS : now() - range.ms - 5_000;
    const every = range.step > 3_000 && !this.newest ? `${range.step / 3}ms` : null;
    const answer = await get("/v1/reports", { kind: this.kind, since: new Date(since).toISOString(), every }, signal);
    if (range !== this.range) return;
    this.now = Date.parse(answer.now);
    for (const report of answer.reports) this.take(report.name, { ...report.numbers, at: Date.parse(report.at) });
    this.forget();
  }

  /** The same; where nobody has said anything so far back, it looks further. */
  async readFurther(signal) {
    await this.read(signal);
    while (!this.processes.size && !this.chosen && this.range !== RANGES.at(-1)) {
      this.look(RANGES[RANGES.indexOf(this.range) + 1]);
      await this.read(signal);
    }
    this.chosen = true;
  }

  take(name, report) {
    const reports = this.processes.get(name) ?? [];
    this.processes.set(name, reports);
    if (!reports.length || report.at > reports.at(-1).at) reports.push(report);
    this.newest = Math.max(this.newest, Math.min(report.at, this.now));
  }

  forget() {
    const oldest = this.now - this.range.ms - this.range.step;
    for (const [name, reports] of this.processes) {
      while (reports.length && reports[0].at < oldest) reports.shift();
      if (!reports.length) this.processes.delete(name);
    }
  }

  last(name) {
    return this.processes.get(name)?.at(-1) ?? null;
  }

  isThere(name) {
    const last = this.last(name);
    return last !== null && !last.ended && this.now - last.at <= SILENT_MS;
  }

  /** Stretches of one length, at the same moments whenever one looks; where nobody had reported yet there are none. */
  columns(names = [...this.processes.keys()]) {
    const { ms, step } = this.range;
    const first = Math.min(...names.map((name) => this.processes.get(name)?.[0]?.at ?? Infinity), this.now - SHORTEST_MS);
    const from = Math.floor(Math.max(first, this.now - ms) / step) * step;
    const columns = [];
    for (let at = from; at < this.now; at += step) columns.push({ from: at, to: at + step });
    return columns;
  }

  /** A gauge in each stretch, as it was last told; null while the process was not there. */
  gauge(name, columns, pick) {
    const reports = this.processes.get(name) ?? [];
    let place = 0;
    return columns.map(({ to }) => {
      while (place < reports.length && reports[place].at <= to) place++;
      const report = reports[place - 1];
      const fresh = Math.max(SILENT_MS, this.range.step * 1.5);
      return report && !report.ended && to - report.at <= fresh ? pick(report) : null;
    });
  }

  /** By how much a counter grew a second in each stretch; null where nothing is known. */
  rate(name, columns, pick) {
    return this.growth(name, columns, pick).map((grown) => (grown ? (grown.by * 1_000) / grown.ms : null));
  }

  /** By how much a counter grew in each stretch, and in how much of it: { by, ms }, or null. */
  growth(name, columns, pick) {
    const points = grown(this.processes.get(name) ?? [], pick);
    if (points.length < 2) return columns.map(() => null);
    const first = points[0].at, last = points.at(-1).at;
    return columns.map(({ from, to }) => {
      const begin = Math.max(from, first), end = Math.min(to, last);
      return end - begin < 0.6 * (to - from) ? null : { by: valueAt(points, end) - valueAt(points, begin), ms: end - begin };
    });
  }
}

/** A counter as a line that never falls. */
function grown(reports, pick) {
  let total = 0, before = null;
  return reports.map((report) => {
    const value = pick(report) ?? 0;
    if (before) total += before.started === report.started_ms && value >= before.value ? value - before.value : value;
    before = { value, started: report.started_ms };
    return { at: report.at, total };
  });
}

function valueAt(points, at) {
  let low = 0, high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle].at <= at) low = middle;
    else high = middle;
  }
  const [begin, end] = [points[low], points[high]];
  const share = Math.min(1, Math.max(0, (at - begin.at) / (end.at - begin.at || 1)));
  return begin.total + (end.total - begin.total) * share;
}

/** Sums of several series, place by place; null only where all are. */
export function sum(series, length) {
  return Array.from({ length }, (_, place) => {
    const known = series.map((values) => values[place]).filter((value) => value !== null && value !== undefined);
    return known.length ? known.reduce((all, value) => all + value, 0) : null;
  });
}
