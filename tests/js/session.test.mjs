// A live run's session: one command at a time, answers once, silence is told.
import assert from "node:assert/strict";
import { test } from "node:test";
import { runs } from "./words.mjs";
import { BUSY_MS, DEAD_MS, LiveSession } from "../../minisgl_lite/viz/static/session.js";

// A clock that goes when it is told to.
let now = 0;
const timers = new Map();
Date.now = () => now;
globalThis.setInterval = (fn, every) => {
  timers.set(timers.size + 1, { fn, every, next: now + every });
  return timers.size;
};
globalThis.clearInterval = (id) => timers.delete(id);
function tick(ms) {
  for (const end = now + ms; now < end; now += 100) {
    for (const timer of timers.values()) {
      if (now < timer.next) continue;
      timer.next += timer.every;
      timer.fn();
    }
  }
}

const { trace } = runs.busy;
const fresh = () => new LiveSession({ ...trace, vocab: {}, frames: [] });
const frames = (from, to) => trace.frames.slice(from, to);

test("a command is sent with an id, its answer's frames are appended", () => {
  const session = fresh();
  const sent = [];
  session.command({ op: "step" }, (message) => sent.push(message));
  assert.equal(sent[0].op, "step");
  session.receive({ id: sent[0].id, frames: frames(0, 4), vocab: { 1: "61" }, at: 0, busy: true });
  assert.equal(session.trace.frames.length, 4);
  assert.equal(session.trace.vocab[1], "61");
  assert.equal(session.busy, false);
});

test("a command that comes during a turn waits for its answer", () => {
  const session = fresh();
  const sent = [];
  const send = (message) => sent.push(message);
  session.command({ op: "run" }, send);
  session.command({ op: "abort", uid: 1 }, send);
  assert.deepEqual(sent.map((m) => m.op), ["run"]);
  assert.equal(session.status.key, "live.queued");
  session.receive({ id: sent[0].id, frames: [], at: 0, busy: true });
  assert.deepEqual(sent.map((m) => m.op), ["run", "abort"]);
});

test("an answer that reaches two views counts once; frames that are known are not doubled", () => {
  const session = fresh();
  const sent = [];
  session.command({ op: "step" }, (message) => sent.push(message));
  const answer = { id: sent[0].id, frames: frames(0, 4), at: 0, busy: true };
  session.receive(answer);
  session.receive(answer);
  assert.equal(session.trace.frames.length, 4);
  session.receive({ id: "another view's", frames: frames(2, 6), at: 2, busy: true });
  assert.deepEqual(session.trace.frames, frames(0, 6));
});

test("reset begins anew; history that is known changes nothing", () => {
  const session = fresh();
  const sent = [];
  const send = (message) => sent.push(message);
  session.command({ op: "step" }, send);
  session.receive({ id: sent[0].id, frames: frames(0, 4), at: 0, busy: false });
  session.command({ op: "history" }, send);
  const before = session.trace;
  session.receive({ id: sent[1].id, meta: trace.meta, vocab: {}, frames: frames(0, 4), at: 0 });
  assert.equal(session.trace, before);
  session.command({ op: "reset" }, send);
  session.receive({ id: sent[2].id, meta: { ...trace.meta, page_size: 4 }, vocab: {}, frames: [], at: 0 });
  assert.equal(session.trace.meta.page_size, 4);
  assert.equal(session.trace.frames.length, 0);
});

test("an error is told and keeps what was recorded", () => {
  const session = fresh();
  const sent = [];
  session.command({ op: "add", prompt: "" }, (message) => sent.push(message));
  session.receive({ id: sent[0].id, frames: [], error: "ValueError: the prompt is empty" });
  assert.deepEqual(session.status, { key: "live.error", values: { text: "ValueError: the prompt is empty" }, bad: true });
});

test("a kernel that does not answer is called busy, then perhaps stopped; a late answer is taken", () => {
  const session = fresh();
  const sent = [];
  session.command({ op: "step" }, (message) => sent.push(message));
  tick(BUSY_MS + 1000);
  assert.equal(session.status.key, "live.busy");
  tick(DEAD_MS);
  assert.equal(session.status.key, "live.dead");
  assert.equal(session.status.bad, true);
  session.receive({ id: sent[0].id, frames: frames(0, 2), at: 0, busy: true });
  assert.equal(session.trace.frames.length, 2);
  assert.equal(session.status.bad, false);
});

test("a message that cannot be sent is told", () => {
  const session = fresh();
  session.command({ op: "step" }, () => {
    throw new Error("comm is closed");
  });
  assert.equal(session.status.key, "live.gone");
  assert.equal(session.busy, false);
});
