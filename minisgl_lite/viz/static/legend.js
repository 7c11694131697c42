// The legend: each mark beside its words, drawn by the same painter as the grids. The marks are one picture: a canvas for
// each would be a layer of its own for the browser, at every frame.

import { el } from "./dom.js";
import { Raster, newTile, tileTexts } from "./paint.js";
import { KIND } from "./replay.js";
import { look } from "./slots.js";
import { say } from "./words.js";

const ITEMS = {
  free: { kind: KIND.free },
  next: { kind: KIND.free, next: true },
  reserved: { kind: KIND.own, hue: 0 },
  aimed: { kind: KIND.own, hue: 0, aimed: true },
  written: { kind: KIND.own, hue: 0, filled: true, written: true },
  own: { kind: KIND.own, hue: 0, filled: true },
  read: { kind: KIND.own, hue: 0, filled: true, read: true },
  locked: { kind: KIND.locked, hue: 0 },
  shared: { kind: KIND.shared, holders: 2 },
  evictable: { kind: KIND.evictable },
  dummy: { kind: KIND.dummy },
  differs: { kind: KIND.free },
};
const [W, H] = [22, 16];

/** @param {any} app */
export function createLegend(app) {
  const names = Object.keys(ITEMS);
  const swatches = names.map((_, i) => el("span", { class: "kvv-swatch", style: `background-position:${-i * W}px 0;background-size:${names.length * W}px ${H}px` }));
  const items = names.map((name, i) => el("li", { "data-item": name }, [swatches[i], say(`legend.${name}`)]));
  const root = el("ul", { class: "kvv-legend", "aria-label": say("legend") }, items);

  function paint() {
    const c = app.colours();
    const d = Math.min(3, globalThis.devicePixelRatio || 1);
    const [w, h] = [Math.round(W * d), Math.round(H * d)];
    const canvas = el("canvas", { width: names.length * w, height: h });
    const ctx = canvas.getContext("2d");
    const raster = new Raster(w, h);
    ctx.textBaseline = "middle";
    names.forEach((name, i) => {
      const tile = newTile();
      look(tile, c, ITEMS[name]);
      if (name === "differs") tile.notch = c.px.diff;
      raster.clear(c.px.ground);
      raster.tile(tile, 0, 0, w, h, d);
      ctx.putImageData(raster.image, i * w, 0);
      ctx.setTransform(d, 0, 0, d, i * w, 0);
      tileTexts(ctx, tile, 0, 0, W, H, c.font);
    });
    root.style.setProperty("--kvv-swatches", `url(${canvas.toDataURL()})`);
  }

  return {
    root,
    paint,
    /** Only what can occur in this run is explained. @param {import("./run.js").Run} run @param {any} meta @param {boolean} [two] runs side by side */
    show(run, meta, two = false) {
      for (const item of items) {
        const name = item.dataset.item;
        item.hidden =
          (name === "dummy" && !run.dummy) ||
          (name === "differs" && !two) ||
          (["locked", "shared", "evictable"].includes(name) && meta.cache_type === "naive");
      }
    },
  };
}
