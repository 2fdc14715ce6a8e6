// Axes: where the ticks are, and what they say.

import { clock, day, short } from "./words.js";

const SECOND = 1_000, MINUTE = 60_000, HOUR = 3_600_000, DAY = 86_400_000;
const STEPS = [
  SECOND, 2 * SECOND, 5 * SECOND, 10 * SECOND, 15 * SECOND, 30 * SECOND,
  MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE,
  HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 3 * DAY, 7 * DAY, 14 * DAY, 30 * DAY,
];

/** Ticks of a time axis, at most so many: [{ at, text }], in the reader's own time. */
export function timeTicks(from, to, most) {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? STEPS.at(-1);
  const zone = new Date(from).getTimezoneOffset() * MINUTE;
  const ticks = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) ticks.push({ at, text: tickText(at, step) });
  return ticks;
}

function tickText(at, step) {
  if (step >= DAY) return day(at);
  const text = clock(at, step < MINUTE);
  return text === "00:00" ? day(at) : text;
}

/** Ticks from zero to at least `most`: [{ at, text }]. */
export function valueTicks(most, wanted = 4, format = short) {
  const rough = (most || 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough;
  const ticks = [];
  for (let index = 0; ; index++) {
    ticks.push({ at: index * step, text: format(index * step) });
    if (index * step >= most && index > 0) return ticks;
  }
}
