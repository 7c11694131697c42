// Variants: which run stands at which place of the grid, and what the runs share.
import assert from "node:assert/strict";
import { test } from "node:test";
import { runs } from "./words.mjs";
import { openGrid } from "../../minisgl_lite/viz/static/codec.js";
import { numberToPlace, placeToNumber } from "../../minisgl_lite/viz/static/variants.js";

test("places are counted with the last axis fastest, and back", () => {
  const sizes = [5, 2, 3];
  assert.equal(placeToNumber(sizes, [0, 1, 2]), 5);
  assert.equal(placeToNumber(sizes, [4, 1, 2]), 29);
  for (let n = 0; n < 30; n++) assert.equal(placeToNumber(sizes, numberToPlace(sizes, n)), n);
});

test("a run of a grid has what all share and what is its own", () => {
  const { meta, vocab } = runs.busy.trace;
  const grid = openGrid({
    axes: [["cache_type", ["radix", "naive"]]], meta, vocabs: [vocab],
    runs: [["ab12", {}, 0, []], ["cd34", { cache_type: "naive" }, 0, []]],
  });
  assert.deepEqual(grid.axes, [{ name: "cache_type", values: ["radix", "naive"] }]);
  assert.equal(grid.trace([0]).meta.cache_type, "radix");
  assert.equal(grid.trace([1]).meta.cache_type, "naive");
  assert.equal(grid.trace([1]).meta.page_size, meta.page_size);
  assert.equal(grid.trace([1]), grid.trace([1]), "unpacked once");
  assert.deepEqual(grid.find("cd3"), [1]);
  assert.equal(grid.find("ef"), null);
  assert.equal(grid.find(""), null, "a link without a digest means no variant");
});
