// The replay in the page says the same as Python's, for each frame, in any order.
import assert from "node:assert/strict";
import { test } from "node:test";
import { runs } from "./words.mjs";
import {
  KIND_NAMES, Replay, apply, balance, currentBatch, fromRuns, problem, slotRoom, slotStates, snapshot, startState, toRuns,
} from "../../minisgl_lite/viz/static/replay.js";

const LETTERS = { lost: "?", free: ".", own: "o", locked: "l", shared: "s", evictable: "e", dummy: "x" };
const all = (values, wanted) => [...values.keys()].filter((i) => wanted(values[i]));

/** What the fixture holds for a frame. */
function explain(state) {
  const slots = slotStates(state, slotRoom((state.N + 1) * state.P));
  return {
    slots: Array.from(slots.kind, (kind) => LETTERS[KIND_NAMES[kind]]).join(""),
    holders: Array.from(slots.holders),
    written: all(slots.written, (w) => w === 2),
    reading: all(slots.read, (r) => r === 1),
    free: state.free,
    balance: balance(slots, state.N * state.P).holds,
  };
}

for (const [name, { trace, states }] of Object.entries(runs)) {
  test(`${name}: every frame forward equals Python's replay`, () => {
    const replay = new Replay(trace);
    states.forEach((expected, i) => assert.deepEqual(explain(replay.at(i)), expected, `frame ${i}`));
  });

  test(`${name}: jumps in any order, with keyframes as close as can be, equal it too`, () => {
    const replay = new Replay(trace, 3);
    let seed = 7;
    for (let k = 0; k < 200; k++) {
      seed = (seed * 1103515245 + 12345) & 0x7fffffff;
      const i = seed % states.length;
      assert.deepEqual(explain(replay.at(i)), states[i], `frame ${i}`);
    }
  });
}

test("keyframes made ahead change nothing, and shorten the way", () => {
  const { trace, states } = runs.busy;
  const replay = new Replay(trace, 5);
  replay.at(3);
  while (replay.ahead(0.01));
  assert.ok(replay.keys.length >= Math.floor((states.length - 5) / 5));
  for (const i of [states.length - 1, 0, 33, 12]) assert.deepEqual(explain(replay.at(i)), states[i], `frame ${i}`);
});

test("before the first frame all pages are free, in order", () => {
  const state = new Replay(runs.busy.trace).at(-1);
  assert.deepEqual(state.free, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
  assert.equal(state.reqs.size, 0);
});

test("a frame that is not there is refused", () => {
  const replay = new Replay(runs.busy.trace);
  assert.throws(() => replay.at(runs.busy.trace.frames.length), RangeError);
  assert.throws(() => replay.at(-2), RangeError);
});

test("a snapshot does not change with later frames", () => {
  const { trace } = runs.busy;
  const state = startState(trace.meta);
  for (const frame of trace.frames.slice(0, 12)) apply(state, frame);
  const kept = snapshot(state);
  const before = JSON.stringify(explain(kept));
  for (const frame of trace.frames.slice(12)) apply(state, frame);
  assert.equal(JSON.stringify(explain(kept)), before);
});

test("frames can be appended: a live run goes on from the last state", () => {
  const { trace, states } = runs.busy;
  const growing = { ...trace, frames: trace.frames.slice(0, 5) };
  const replay = new Replay(growing);
  assert.deepEqual(explain(replay.at(4)), states[4]);
  growing.frames = trace.frames;
  assert.deepEqual(explain(replay.at(states.length - 1)), states.at(-1));
});

test("slots written earlier in the step stay marked until the turn ends", () => {
  const { trace } = runs.busy;
  const replay = new Replay(trace);
  const at = trace.frames.findIndex((frame) => frame.stored);
  assert.ok(trace.frames[at + 1].turn === trace.frames[at].turn);
  const slots = slotStates(replay.at(at + 1), slotRoom(22));
  assert.deepEqual(all(slots.written, (w) => w === 1), currentBatch(replay.at(at + 1)).slots);
});

test("what is prepared and not written is aimed at, and the taken page is not filled", () => {
  const { trace } = runs.busy;
  const at = trace.frames.findIndex((frame) => frame.phase === "prepare");
  const state = new Replay(trace).at(at);
  const slots = slotStates(state, slotRoom(22));
  assert.deepEqual(all(slots.aimed, (a) => a === 1), currentBatch(state).slots);
  assert.ok(currentBatch(state).slots.every((slot) => slots.filled[slot] === 0));
});

test("a slot that two own, and one that nobody owns, break the balance", () => {
  const state = snapshot(new Replay(runs.busy.trace).at(3));
  state.free = state.free.slice(1).concat(0);
  const slots = slotStates(state, slotRoom(22));
  const sum = balance(slots, 20);
  assert.equal(sum.holds, false);
  assert.equal(sum.double, 2);
  assert.equal(sum.lost, 2);
});

test("hues: running requests never share one, while there are enough", () => {
  const replay = new Replay(runs.busy.trace);
  for (let i = 0; i < runs.busy.states.length; i++) {
    const hues = [...replay.at(i).reqs.values()].filter((req) => req.row !== null).map((req) => req.hue);
    assert.equal(new Set(hues).size, hues.length, `frame ${i}`);
  }
});

test("runs pack and unpack slots in their order", () => {
  assert.deepEqual(toRuns([8, 9, 10, 3, 4, 0]), [[8, 3], [3, 2], [0, 1]]);
  assert.deepEqual(fromRuns([[8, 3], [3, 2], [0, 1]]), [8, 9, 10, 3, 4, 0]);
  assert.deepEqual(toRuns([]), []);
});

test("what is no trace, another version or incomplete is named", () => {
  const { trace } = runs.busy;
  assert.equal(problem(trace), null);
  assert.equal(problem({}), "error.format");
  assert.equal(problem(null), "error.format");
  assert.equal(problem({ ...trace, version: 1 }), "error.version");
  assert.equal(problem({ ...trace, frames: undefined }), "error.incomplete");
});
