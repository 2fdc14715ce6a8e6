// One loop for the page that is shown: it asks, waits, asks again. A page that nobody sees asks nothing.
//
// Asking every two seconds, not a stream: any process of the service may answer the next time, a proxy needs no settings,
// and what the processes answer is computed at most once a second however many pages are open.

import { Problem, Unreachable } from "./api.js";

const EVERY_MS = 2_000;
const LONGEST_MS = 10_000;

export class Live {
  /** `told({ state, seen })` hears "fresh", "lost", "refused" or "paused"; `signIn` is called where a token is asked for. */
  constructor({ told, signIn }) {
    this.told = told;
    this.signIn = signIn;
    this.seen = null;
    document.addEventListener("visibilitychange", () => this.wake());
    window.addEventListener("online", () => this.wake());
  }

  /** Show another page: `refresh(signal)` asks and draws. */
  follow(refresh) {
    this.stop();
    this.refresh = refresh;
    return this.step();
  }

  stop() {
    clearTimeout(this.timer);
    this.turn?.abort();
    this.refresh = null;
  }

  /** Ask now, for example since the reader has changed something. */
  wake() {
    clearTimeout(this.timer);
    if (document.hidden) this.told({ state: "paused", seen: this.seen });
    else if (this.refresh) return this.step();
  }

  async step() {
    this.turn?.abort();
    const turn = (this.turn = new AbortController());
    let wait = EVERY_MS;
    try {
      await this.refresh(turn.signal);
      this.failures = 0;
      if (turn.signal.aborted) return;
      this.seen = Date.now();
      this.told({ state: "fresh", seen: this.seen });
    } catch (error) {
      if (turn.signal.aborted) return;
      wait = this.failed(error);
    }
    if (wait !== null) this.timer = setTimeout(() => this.wake(), wait);
  }

  failed(error) {
    if (error instanceof Problem && error.status === 401) {
      this.signIn(error);
      return null;
    }
    const lost = error instanceof Unreachable || (error instanceof Problem && error.status >= 500);
    if (!lost && !(error instanceof Problem)) console.error(error);
    this.told({ state: lost ? "lost" : "refused", seen: this.seen, error });
    this.failures = (this.failures ?? 0) + 1;
    return Math.min(EVERY_MS * 1.5 ** (this.failures - 1), LONGEST_MS);
  }
}
