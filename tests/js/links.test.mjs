// Names of frames and links to them: each leads back to where it was made.
import assert from "node:assert/strict";
import { test } from "node:test";
import { runs } from "./words.mjs";
import { eventName, findEvent } from "../../minisgl_lite/viz/static/events.js";
import { linkHash, readHash, sameRun } from "../../minisgl_lite/viz/static/links.js";

for (const [name, { trace }] of Object.entries(runs)) {
  test(`${name}: each frame has a name that leads back to it`, () => {
    trace.frames.forEach((frame, i) => assert.equal(findEvent(trace.frames, eventName(trace.frames, i)), i));
  });
}

test("a frame's name tells what happens there", () => {
  const { frames } = runs.busy.trace;
  for (const event of ["split", "first-decode:r1", "admit:r1", "evict", "prepare:r2"]) {
    const index = findEvent(frames, event);
    assert.ok(index >= 0, event);
    assert.doesNotMatch(eventName(frames, index), /#/, event);
  }
  assert.equal(eventName(frames, findEvent(frames, "split")), "split");
  assert.equal(eventName(frames, -1), "");
});

test("a link is read as it was made", () => {
  const link = { view: "two words & more", event: "allocate:r1#2", pin: 8, run: "0123456789abcdef" };
  assert.equal(linkHash(link), "#view=two%20words%20%26%20more&event=allocate:r1%232&pin=8&run=0123456789ab");
  assert.deepEqual(readHash(linkHash(link)), { ...link, run: "0123456789ab" });
  const bare = { view: "2", event: "", pin: -1, run: "" };
  assert.equal(linkHash(bare), "#view=2");
  assert.deepEqual(readHash("#view=2"), bare);
});

test("an address that leads elsewhere is no link", () => {
  for (const hash of ["", "#", "#the-picture", "#view=", "#event=start"]) assert.equal(readHash(hash), null, hash);
  assert.equal(readHash("#view=a&pin=x").pin, -1);
});

test("a link knows its run", () => {
  const link = readHash("#view=a&run=0123456789ab");
  assert.ok(sameRun(link, "0123456789abcdef"));
  assert.ok(!sameRun(link, "1123456789abcdef"));
  assert.ok(sameRun(readHash("#view=a"), "1123456789abcdef"));
});
