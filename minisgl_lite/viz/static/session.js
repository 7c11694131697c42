// A live run: commands to the driver in the kernel, frames back. All views of one widget share its session.
// Commands go one at a time; one that comes during a turn waits.

/** After how long a silent kernel is called busy, and after how long perhaps stopped. */
export const BUSY_MS = 2000;
export const DEAD_MS = 15000;

/**
 * @typedef {Object} Session
 * @property {any} trace grows as frames come
 * @property {{key: string, values: Object<string, any>, bad: boolean}} status
 */

export class LiveSession {
  /** @param {any} trace what is known at the start */
  constructor(trace) {
    this.trace = trace;
    this.status = { key: "live.ready", values: {}, bad: false };
    /** @type {{id: string, op: string, at: number}|null} */
    this.pending = null;
    /** @type {{command: any, send: (message: any) => void}[]} */
    this.queue = [];
    /** @type {Set<(change: {from: number, reset: boolean, answer: any}) => void>} */
    this.listeners = new Set();
    this.seen = new Set();
    this.count = 0;
    this.timer = 0;
  }

  get busy() {
    return this.pending !== null;
  }

  /**
   * Send a command, or keep it until the running one is answered.
   * @param {any} command {op, ...}
   * @param {(message: any) => void} send
   */
  command(command, send) {
    if (this.pending) {
      this.queue.push({ command, send });
      this.say("live.queued");
      return;
    }
    const id = `${++this.count}-${Math.random().toString(36).slice(2, 8)}`;
    this.pending = { id, op: command.op, at: Date.now() };
    this.say("live.waiting");
    clearInterval(this.timer);
    this.timer = setInterval(() => this.watch(), 500);
    try {
      send({ ...command, id });
    } catch (error) {
      this.pending = null;
      this.queue = [];
      this.say("live.gone", { text: String(error.message ?? error) }, true);
    }
  }

  watch() {
    if (!this.pending) return clearInterval(this.timer);
    const waited = Date.now() - this.pending.at;
    if (waited > DEAD_MS) this.say("live.dead", { n: Math.round(waited / 1000) }, true);
    else if (waited > BUSY_MS) this.say("live.busy");
  }

  /** Take up an answer. An answer may reach several views, or come again: it counts once. @param {any} answer */
  receive(answer) {
    if (!answer || typeof answer !== "object" || this.seen.has(answer.id)) return;
    this.seen.add(answer.id);
    const mine = this.pending && this.pending.id === answer.id;
    const op = mine ? this.pending.op : "";
    if (mine) {
      this.pending = null;
      clearInterval(this.timer);
    }
    if (op === "history" && answer.frames?.length === this.trace.frames.length) answer = { id: answer.id, busy: answer.busy };
    const change = this.extend(answer);
    if (answer.error) this.say("live.error", { text: answer.error }, true);
    else if (op === "add") this.say("live.added");
    else if (op === "history") this.say("live.ready");
    else if (answer.meta) {
      const { page_size: P, num_pages: N, cache_type: cache } = answer.meta;
      this.say("live.reset.done", { P, N, cache });
    } else this.say(!answer.busy ? "live.idle" : op === "pause" ? "live.paused" : "live.stepped");
    for (const listener of this.listeners) listener({ ...change, answer: { ...answer, op } });
    const next = this.pending ? null : this.queue.shift();
    if (next) this.command(next.command, next.send);
  }

  /** Append an answer's frames. `at` is the number of frames before them. @param {any} answer */
  extend(answer) {
    const reset = !!answer.meta;
    if (reset) this.trace = { ...this.trace, meta: answer.meta, vocab: {}, frames: [] };
    const have = this.trace.frames.length;
    const frames = answer.frames ?? [];
    const fresh = frames.slice(Math.max(0, have - (answer.at ?? have)));
    Object.assign(this.trace.vocab, answer.vocab ?? {});
    if (fresh.length) this.trace.frames = this.trace.frames.concat(fresh);
    return { from: have, reset };
  }

  say(key, values = {}, bad = false) {
    this.status = { key, values, bad };
    for (const listener of this.listeners) listener(null);
  }
}
