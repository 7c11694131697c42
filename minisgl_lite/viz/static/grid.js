// A grid of cells on one canvas. Only what is in sight is drawn; one cell is real DOM: the active one, which has the
// focus, moves by arrow keys and says in words what the cell is. Marks of linked cells are elements over the canvas.

import { el, setAttr } from "./dom.js";
import { moveInGrid } from "./layout.js";
import { Raster, clearTile, newTile, smallLook, tileTexts } from "./paint.js";
import { say } from "./words.js";

/**
 * @typedef {Object} GridOptions
 * @property {string} label
 * @property {(i: number, tile: import("./paint.js").Tile) => void} tile how cell i looks
 * @property {(i: number, small: boolean) => number|string} key all that decides how cell i looks: with an equal key it is not
 *   drawn again. A small cell has no texts and no patterns; cells with equal keys look alike there
 * @property {() => string} [headKey] the same for the margins
 * @property {(i: number) => string} describe cell i in words
 * @property {(i: number) => boolean} [differs] whether the run beside this one has something else there
 * @property {(i: number) => string} [beside] what it has there, in words
 * @property {(i: number) => void} onPoint hovered or focused; -1: left
 * @property {(i: number) => void} onPick clicked, or Enter
 * @property {(ctx: CanvasRenderingContext2D, box: {sx: number, sy: number, w: number, h: number}) => void} [head] draws the fixed margins
 */

/** Room around the cells, so that the ring around a focused one is seen whole. */
export const EDGE = 4;

/** @param {GridOptions} options */
export function createGrid(options) {
  const canvas = el("canvas", { "aria-hidden": "true" });
  const makeCell = () => el("div", { role: "gridcell", class: "kvv-cell", tabindex: "-1" });
  // Two, so that moving moves the focus too: a name that changes in place is not always spoken.
  const cells = [makeCell(), makeCell()];
  cells[1].hidden = true;
  const row = el("div", { role: "row", class: "kvv-cells" }, cells);
  const marks = el("div", { class: "kvv-marks", "aria-hidden": "true" });
  const size = el("div", { class: "kvv-size", role: "presentation" }, [canvas, marks, row]);
  const root = el("div", { class: "kvv-grid", role: "grid", "aria-label": options.label }, [size]);
  const ctx = canvas.getContext("2d", { alpha: false });
  const tile = newTile();

  /** @type {import("./layout.js").Geometry} */
  let geo = null;
  let box = { w: 0, h: 0, left: 0, top: 0 };
  let colours = null;
  /** @type {Raster|null} */
  let raster = null;
  let active = 0;
  let current = 0; // which of the two cells has the focus
  /** What is marked, and how that was last drawn. @type {{i: number, cls: string}[]} */
  let marked = [];
  let markKey = "";
  let scroll = { x: 0, y: 0 }; // as last heard of: asking the element would make the browser lay out at once
  let bar = { room: 0, size: 0 }; // how thick a scroll bar is, found out once per width
  /** What is on the canvas: the cells' keys, and what else the picture depends on. */
  let drawn = { keys: [], colours: null, rest: "" };
  let columns = []; // the left edge of each
  /** Looks of small cells by key. @type {Map<number|string, import("./paint.js").SmallLook>} */
  const looks = new Map();

  /**
   * Set geometry and size. The grid's height is fixed: what does not fit scrolls.
   * @param {import("./layout.js").Geometry} next
   * @param {{w: number, h: number, left?: number, top?: number}} room
   */
  function layout(next, room) {
    geo = next;
    box = { left: EDGE, top: EDGE, ...room };
    root.style.height = `${box.h}px`;
    size.style.width = `${geo.w + box.left + EDGE}px`;
    size.style.height = `${geo.h + box.top + EDGE}px`;
    takeBars(geo.w + box.left + EDGE, geo.h + box.top + EDGE);
    canvas.style.width = `${box.w}px`;
    canvas.style.height = `${box.h}px`;
    for (const [name, value] of [["aria-rowcount", geo.lines], ["aria-colcount", Math.min(geo.n, geo.perLine)]]) {
      if (geo.n) setAttr(root, name, value);
      else root.removeAttribute(name);
    }
    if (active >= geo.n) active = Math.max(0, geo.n - 1);
    drawn.colours = null;
    columns = Array.from({ length: Math.min(geo.n, geo.perLine) }, (_, c) => geo.x(c));
    place(); // in words with the next painting: a panel that was closed still holds an older frame
    markKey = "moved";
    mark(marked);
    marks.classList.toggle("kvv-tiny", geo.cw < 24);
  }

  /** A scroll bar takes its room from the canvas. @param {number} w @param {number} h of the content */
  function takeBars(w, h) {
    if ((w > box.w || h > box.h) && bar.room !== box.w) {
      canvas.style.width = canvas.style.height = "0";
      const [wide, high] = [box.w - root.clientWidth, box.h - root.clientHeight];
      if (root.clientWidth) bar = { room: box.w, size: Math.max(0, w > box.w && h <= box.h ? high : wide) };
    }
    const across = w > box.w - (h > box.h ? bar.size : 0);
    if (h > box.h - (across ? bar.size : 0)) box.w -= bar.size;
    if (across) box.h -= bar.size;
    scroll = { x: Math.max(0, Math.min(scroll.x, w - box.w)), y: Math.max(0, Math.min(scroll.y, h - box.h)) };
  }

  /** @param {number} i @param {boolean} small */
  function keyOf(i, small) {
    const key = options.key(i, small);
    return options.differs?.(i) ? `≠${key}` : key;
  }

  /** Whether cell i looks another way than when it was last asked. @param {number} i */
  function changes(i) {
    const key = keyOf(i, false);
    if (drawn.keys[i] === key) return false;
    drawn.keys[i] = key;
    return true;
  }

  /** How cell i looks, on `tile`. @param {number} i @param {boolean} readable */
  function take(i, readable) {
    clearTile(tile);
    tile.readable = readable;
    options.tile(i, tile);
    if (options.differs?.(i)) tile.notch = colours.px.diff;
    return tile;
  }

  /** @param {import("./theme.js").Colours} next */
  function paint(next) {
    if (!geo || box.w <= 0 || box.h <= 0) return;
    if (colours !== next) looks.clear();
    colours = next;
    const d = Math.min(3, globalThis.devicePixelRatio || 1);
    const [w, h] = [Math.round(box.w * d), Math.round(box.h * d)];
    const rest = [w, h, scroll.x, scroll.y, geo.ch > 8 ? options.headKey?.() : ""].join();
    let whole = drawn.colours !== colours || drawn.rest !== rest;
    Object.assign(drawn, { colours, rest });
    const small = geo.cw <= 8 || geo.ch <= 8;
    if (!small) {
      visit((i) => (whole = changes(i) || whole));
      if (!whole) return describe();
    }
    if (!raster || raster.w !== w || raster.h !== h) raster = new Raster(w, h);
    if (canvas.width !== w) canvas.width = w;
    if (canvas.height !== h) canvas.height = h;
    if (whole) raster.clear(colours.px.ground);
    raster.clip = { x: Math.round(box.left * d), y: Math.round(box.top * d) };
    if (small) paintSmall(whole, d);
    else paintLarge(d);
    if (whole) {
      ctx.setTransform(d, 0, 0, d, 0, 0);
      ctx.textBaseline = "middle";
      options.head?.(ctx, { sx: scroll.x, sy: scroll.y, w: box.w, h: box.h });
    }
    describe();
  }

  /** Small cells have few looks, each found once; one is drawn when its look has changed. @param {boolean} whole @param {number} d */
  function paintSmall(whole, d) {
    const [ox, oy] = [box.left - scroll.x, box.top - scroll.y];
    const { keys } = drawn;
    const [gapX, gapY] = [geo.cw >= 4 ? 1 : 0, geo.ch >= 4 && geo.cw >= 4 ? 1 : 0];
    let [x0, y0, x1, y1] = [raster.w, raster.h, 0, 0];
    visit((i, x, y) => {
      const key = keyOf(i, true);
      if (!whole && keys[i] === key) return;
      keys[i] = key;
      let look = looks.get(key);
      if (!look) looks.set(key, (look = smallLook(take(i, false))));
      const [px, py] = [Math.round((x + ox) * d), Math.round((y + oy) * d)];
      const [qx, qy] = [Math.round((x + ox + geo.cw - gapX) * d), Math.round((y + oy + geo.ch - gapY) * d)];
      raster.small(look, px, py, qx, qy, d);
      x0 = Math.min(x0, px);
      y0 = Math.min(y0, py);
      x1 = Math.max(x1, qx);
      y1 = Math.max(y1, qy);
    });
    if (whole) return ctx.putImageData(raster.image, 0, 0);
    [x0, y0] = [Math.max(x0, raster.clip.x), Math.max(y0, raster.clip.y)];
    [x1, y1] = [Math.min(x1, raster.w), Math.min(y1, raster.h)];
    if (x1 > x0 && y1 > y0) ctx.putImageData(raster.image, 0, 0, x0, y0, x1 - x0, y1 - y0);
  }

  /** @param {number} d */
  function paintLarge(d) {
    const texts = [];
    const [ox, oy] = [box.left - scroll.x, box.top - scroll.y];
    const readable = geo.cw >= 13 && geo.ch >= 9;
    visit((i, x, y) => {
      const t = take(i, readable);
      const [px, py] = [Math.round((x + ox) * d), Math.round((y + oy) * d)];
      raster.tile(t, px, py, Math.round((x + ox + geo.cw - 1) * d) - px, Math.round((y + oy + geo.ch - 1) * d) - py, d);
      if (readable && (t.text || t.sub || t.badge || t.dot || t.ring)) texts.push({ ...t, x: x + ox, y: y + oy });
    });
    ctx.putImageData(raster.image, 0, 0);
    ctx.setTransform(d, 0, 0, d, 0, 0);
    ctx.textBaseline = "middle";
    ctx.save();
    ctx.beginPath();
    ctx.rect(box.left, box.top, box.w - box.left, box.h - box.top);
    ctx.clip();
    for (const t of texts) tileTexts(ctx, t, t.x, t.y, geo.cw - 1, geo.ch - 1, colours.font);
    ctx.restore();
  }

  /** Cells in sight. @param {(i: number, x: number, y: number) => void} fn */
  function visit(fn) {
    const [x0, y0] = [scroll.x, scroll.y];
    const [x1, y1] = [x0 + box.w - box.left, y0 + box.h - box.top];
    const pitch = geo.lines > 1 ? geo.y(geo.perLine) : geo.ch;
    const first = Math.max(0, Math.floor(y0 / pitch));
    const last = Math.min(geo.lines - 1, Math.floor(y1 / pitch));
    let [from, to] = [0, columns.length];
    while (from < to && columns[from] + geo.cw < x0) from++;
    while (to > from && columns[to - 1] > x1) to--;
    for (let line = first; line <= last; line++) {
      const start = line * geo.perLine;
      const y = geo.y(start);
      const end = Math.min(to, geo.n - start);
      for (let c = from; c < end; c++) fn(start + c, columns[c], y);
    }
  }

  /** Put the active element over the active cell. */
  function place() {
    const cell = cells[current];
    // A grid without cells is none.
    setAttr(root, "role", geo.n ? "grid" : "group");
    cell.hidden = row.hidden = geo.n === 0;
    if (geo.n === 0) return;
    frame(cell, active);
    setAttr(cell, "tabindex", "0");
    setAttr(row, "aria-rowindex", Math.floor(active / geo.perLine) + 1);
    setAttr(cell, "aria-colindex", (active % geo.perLine) + 1);
  }

  function describe() {
    if (geo?.n) setAttr(cells[current], "aria-label", words(active));
  }

  /** Cell i in words, with what is special about it beside another run. @param {number} i */
  function words(i) {
    const own = options.describe(i);
    if (!own || !options.differs?.(i)) return own;
    return `${own}, ${say("compare.cell")}${options.beside ? `: ${options.beside(i)}` : ""}`;
  }

  function frame(node, i) {
    node.style.transform = `translate(${geo.x(i) + box.left}px, ${geo.y(i) + box.top}px)`;
    node.style.width = `${geo.cw}px`;
    node.style.height = `${geo.ch}px`;
  }

  /** Make cell i the active one. @param {number} i @param {boolean} [focus] */
  function activate(i, focus = false) {
    if (!geo?.n) return;
    active = Math.max(0, Math.min(geo.n - 1, i));
    if (focus) {
      const old = cells[current];
      current = 1 - current;
      cells[current].hidden = false;
      place();
      describe();
      reveal(active);
      cells[current].focus({ preventScroll: true });
      setAttr(old, "tabindex", "-1");
      old.hidden = true;
    } else {
      place();
      describe();
    }
  }

  /** Scroll so that cell i is in sight. @param {number} i */
  function reveal(i) {
    if (!geo?.n || i < 0 || i >= geo.n) return;
    const [x, y] = [geo.x(i), geo.y(i)];
    const [w, h] = [box.w - box.left, box.h - box.top];
    const to = { ...scroll };
    if (x < scroll.x) to.x = Math.max(0, x - 8);
    else if (x + geo.cw > scroll.x + w) to.x = Math.min(geo.w + EDGE - w, x + geo.cw - w + 8);
    if (y < scroll.y) to.y = Math.max(0, y - 4);
    else if (y + geo.ch > scroll.y + h) to.y = Math.min(geo.h + EDGE - h, y + geo.ch - h + 4);
    if (to.x === scroll.x && to.y === scroll.y) return;
    scroll = to;
    queueMicrotask(() => root.scrollTo(to.x, to.y)); // when all is drawn: it makes the browser lay out
  }

  /** Mark linked cells. @param {{i: number, cls: string}[]} list */
  function mark(list) {
    marked = list;
    const shown = geo?.n ? list.filter((m) => m.i >= 0 && m.i < geo.n).slice(0, 64) : [];
    const key = shown.map((m) => m.cls + m.i).join();
    if (key === markKey) return;
    markKey = key;
    while (marks.childElementCount > shown.length) marks.lastChild.remove();
    while (marks.childElementCount < shown.length) marks.append(el("div"));
    shown.forEach((m, k) => {
      marks.children[k].className = `kvv-mark kvv-mark-${m.cls}`;
      frame(marks.children[k], m.i);
    });
  }

  const cellAt = (event) => {
    const rect = root.getBoundingClientRect();
    const [x, y] = [event.clientX - rect.left - root.clientLeft - box.left, event.clientY - rect.top - root.clientTop - box.top];
    return geo && x >= 0 && y >= 0 ? geo.at(x + root.scrollLeft, y + root.scrollTop) : -1;
  };
  root.addEventListener("pointermove", (event) => options.onPoint(cellAt(event)));
  root.addEventListener("pointerleave", () => options.onPoint(-1));
  root.addEventListener("click", (event) => {
    const i = cellAt(event);
    if (i < 0) return;
    activate(i, true);
    options.onPick(i);
  });
  root.addEventListener("focusin", () => options.onPoint(active));
  root.addEventListener("focusout", () => options.onPoint(-1));
  root.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !geo) return;
    if (event.key === "Enter" || event.key === " ") options.onPick(active);
    else {
      const next = moveInGrid(event.key, active, geo);
      if (next < 0) return;
      activate(next, true);
    }
    event.preventDefault();
    event.stopPropagation();
  });
  let asked = 0;
  root.addEventListener("scroll", () => {
    const now = { x: root.scrollLeft, y: root.scrollTop };
    if (now.x === scroll.x && now.y === scroll.y) return; // we did it, and have drawn it
    scroll = now;
    if (!asked) {
      asked = requestAnimationFrame(() => {
        asked = 0;
        if (colours) paint(colours);
      });
    }
  });

  return {
    root, layout, paint, mark, reveal, activate,
    describe: words,
    get geometry() {
      return geo;
    },
    stop: () => cancelAnimationFrame(asked),
  };
}
