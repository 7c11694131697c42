// The page's arithmetic is Python's, answer for answer.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { freeBytes, sizes } from "../../minisgl_lite/viz/sizing/formula.js";

const grid = JSON.parse(readFileSync(new URL("./sizes.json", import.meta.url), "utf8"));

test("sizes are equal over the grid, errors included", () => {
  assert.ok(grid.sizes.length > 200);
  for (const [question, expected] of grid.sizes) {
    const asked = JSON.stringify(question);
    if (typeof expected === "string") assert.throws(() => sizes(question), new RangeError(expected), asked);
    else assert.deepEqual(sizes(question), expected, asked);
  }
});

test("what the weights leave is equal, too", () => {
  for (const [question, expected] of grid.free) assert.equal(freeBytes(...question), expected, question);
});

test("an empty field is refused", () => {
  assert.throws(() => sizes({ ...grid.sizes[0][0], layers: NaN }), RangeError);
});
