// Numbers, spans and moments as people read them.

const GROUPED = new Intl.NumberFormat("en");
const SMALL = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const TINY = new Intl.NumberFormat("en", { maximumSignificantDigits: 2 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const UNITS = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];

/** 12,345 */
export const count = (value) => GROUPED.format(value);
/** 12.3K, for where there is little room. */
export const short = (value) => (Math.abs(value) < 10_000 ? SMALL.format(value) : SHORT.format(value));
/** 1,234/s; a rate below one a second is told by the minute or the hour. */
export function rate(perSecond) {
  if (perSecond === null || perSecond === undefined) return "–";
  const figure = (value) => (value < 10 ? TINY.format(value) : short(value));
  if (perSecond === 0 || perSecond >= 0.1) return `${figure(perSecond)}/s`;
  return perSecond * 60 >= 1 ? `${figure(perSecond * 60)}/min` : `${figure(perSecond * 3_600)}/h`;
}
/** 37 % */
export const percent = (part, whole) => {
  const value = whole ? (100 * part) / whole : 0;
  return `${value > 0 && value < 1 ? "<1" : value > 99 && value < 100 ? ">99" : Math.round(value)} %`;
};

/** Two units at most: 3 d 4 h, 12 min, 5 s. */
export function span(ms) {
  let seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds === 0) return "0 s";
  const parts = [];
  for (const [unit, length] of UNITS) {
    const whole = Math.floor(seconds / length);
    if (whole) parts.push(`${whole} ${unit}`);
    else if (parts.length) break;
    if (parts.length === 2 || whole >= 10) break;
    seconds -= whole * length;
  }
  return parts.join(" ");
}

/** "5 s ago" or "in 3 min". */
export const from = (ms, now) => (ms > now + 500 ? `in ${span(ms - now)}` : now - ms < 1_000 ? "now" : `${span(now - ms)} ago`);

const two = (value) => String(value).padStart(2, "0");

/** The time of day; to the minute, or to the second. */
export function clock(ms, seconds = true) {
  const moment = new Date(ms);
  return `${two(moment.getHours())}:${two(moment.getMinutes())}${seconds ? `:${two(moment.getSeconds())}` : ""}`;
}
/** 16 Nov */
export const day = (ms) => DAY.format(new Date(ms));
/** The time today; with the day, on another. */
export const moment = (ms, now) => (day(ms) === day(now) && Math.abs(ms - now) < 864e5 ? clock(ms) : `${day(ms)}, ${clock(ms)}`);
/** As a `datetime-local` input takes it. */
export function local(ms) {
  const moment = new Date(ms);
  return `${moment.getFullYear()}-${two(moment.getMonth() + 1)}-${two(moment.getDate())}T${clock(ms)}`;
}
/** "1 message", "2 messages". */
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
