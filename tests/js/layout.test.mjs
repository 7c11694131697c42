// Geometry: cells lie where a pointer finds them, in their order, inside their room.
import assert from "node:assert/strict";
import { test } from "node:test";
import { flowGeometry, lineGeometry, moveInGrid, poolGeometry, tableGeometry, zoomed } from "../../minisgl_lite/viz/static/layout.js";

/** Each cell's middle is found as that cell, and no two overlap. */
function consistent(geo, label) {
  const seen = new Set();
  for (let i = 0; i < geo.n; i++) {
    const [x, y] = [geo.x(i), geo.y(i)];
    assert.equal(geo.at(x + geo.cw / 2, y + geo.ch / 2), i, `${label}: cell ${i}`);
    assert.ok(x + geo.cw <= geo.w + 1e-9 && y + geo.ch <= geo.h + 1e-9, `${label}: cell ${i} is outside`);
    seen.add(`${x},${y}`);
  }
  assert.equal(seen.size, geo.n, label);
}

test("the pool fits its room for every size and page size", () => {
  for (const n of [16, 32, 128, 512, 4096]) {
    for (const P of [1, 2, 4, 16]) {
      for (const width of [320, 680, 1100]) {
        const geo = poolGeometry(n, P, width, 150);
        consistent(geo, `${n} slots, P=${P}, ${width} px`);
        if (n < 4096 || width > 320) assert.ok(geo.w <= width && geo.h <= 150, `${n}/${P}/${width}: ${geo.w}×${geo.h}`);
      }
    }
  }
});

test("65,536 slots get the smallest cells and may scroll", () => {
  const geo = poolGeometry(65536, 16, 680, 150);
  assert.equal(geo.ch, 3);
  assert.ok(geo.w <= 680);
  assert.equal(geo.at(geo.x(65535) + 1, geo.y(65535) + 1), 65535);
});

test("lines hold a power of two of pages when little is lost by it", () => {
  assert.equal(poolGeometry(32, 4, 680, 114).perLine, 16);
  assert.equal(poolGeometry(16, 16, 680, 114).perLine, 16);
  for (const n of [64, 256, 1024]) assert.equal(Math.log2(poolGeometry(n, 4, 680, 150).perLine) % 1, 0, `${n} slots`);
});

test("a page that is wider than the room is broken over lines", () => {
  const geo = poolGeometry(512, 256, 320, 60, { cell: 6 });
  consistent(geo, "wide pages");
  assert.ok(geo.w <= 320);
});

test("pages are apart: between two of them no cell is found", () => {
  const geo = lineGeometry(8, 4, 8, 10, 10, 6, 2);
  assert.equal(geo.x(4) - geo.x(3), 16);
  assert.equal(geo.at(43, 5), -1);
  assert.equal(geo.at(-1, 5), -1);
  assert.equal(geo.at(5, 500), -1);
});

test("the table: few rows are readable, many are an overview", () => {
  const few = tableGeometry(4, 24, 4, 616, 170, { digits: 2 });
  consistent(few, "few");
  assert.ok(few.cw >= 18 && few.w <= 616);
  const many = tableGeometry(64, 512, 16, 616, 170, { digits: 4 });
  consistent(many, "many");
  assert.ok(many.cw >= 3 && many.ch >= 4);
});

test("a run with long rows keeps readable cells and scrolls", () => {
  const geo = tableGeometry(4, 200, 4, 616, 170, { digits: 3 });
  assert.ok(geo.cw >= 18);
  assert.ok(geo.w > 616);
});

test("the queue flows in reading order", () => {
  const geo = flowGeometry(10, 100, 24, 20);
  consistent(geo, "flow");
  assert.equal(geo.perLine, 3);
  consistent(flowGeometry(0, 100, 24, 20), "empty");
});

test("keys move inside the grid and stop at its edges", () => {
  const geo = flowGeometry(10, 100, 24, 20); // three to a line
  const moves = { ArrowRight: 5, ArrowLeft: 3, ArrowDown: 7, ArrowUp: 1, Home: 3, End: 5, PageDown: 9, PageUp: 1, a: -1 };
  for (const [key, to] of Object.entries(moves)) assert.equal(moveInGrid(key, 4, geo), to, key);
  assert.equal(moveInGrid("ArrowRight", 9, geo), 9);
  assert.equal(moveInGrid("ArrowDown", 9, geo), 9);
  assert.equal(moveInGrid("ArrowLeft", 0, geo), 0);
});

test("zooming goes up and down and has ends", () => {
  assert.equal(zoomed(9, 1), 14);
  assert.equal(zoomed(9, -1), 6);
  assert.equal(zoomed(100, 1), 38);
  assert.equal(zoomed(1, -1), 4);
});
