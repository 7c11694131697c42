// Geometry of the grids: where each cell lies and which cell lies under a point. Numbers in, numbers out.

/**
 * @typedef {Object} Geometry
 * @property {number} n cells
 * @property {number} w width of the content
 * @property {number} h height of the content
 * @property {number} cw cell width
 * @property {number} ch cell height
 * @property {number} lines
 * @property {number} perLine cells in a full line
 * @property {(i: number) => number} x left edge of cell i
 * @property {(i: number) => number} y top edge of cell i
 * @property {(x: number, y: number) => number} at cell under a point, else -1
 */

/**
 * Cells in lines, groups of P with a gap between groups.
 * @param {number} n cells
 * @param {number} P cells of a group
 * @param {number} perLine cells of a line; a multiple of P, or less than P
 * @param {number} cw
 * @param {number} ch
 * @param {number} gap between groups
 * @param {number} lineGap between lines
 * @returns {Geometry}
 */
export function lineGeometry(n, P, perLine, cw, ch, gap, lineGap) {
  const lines = Math.max(1, Math.ceil(n / perLine));
  const grouped = perLine >= P ? gap : 0;
  const groupW = P * cw + grouped;
  const x = (i) => {
    const c = i % perLine;
    return Math.floor(c / P) * groupW + (c % P) * cw;
  };
  const y = (i) => Math.floor(i / perLine) * (ch + lineGap);
  const full = Math.min(n, perLine) || 1;
  return {
    n, cw, ch, lines, perLine, x, y,
    w: x(full - 1) + cw,
    h: lines * (ch + lineGap) - lineGap,
    at(px, py) {
      const line = Math.floor(py / (ch + lineGap));
      if (px < 0 || py < 0 || line >= lines || py - line * (ch + lineGap) >= ch) return -1;
      const group = Math.floor(px / groupW);
      const k = Math.floor((px - group * groupW) / cw);
      const c = group * P + k;
      const i = line * perLine + c;
      return k < P && c < perLine && i < n ? i : -1;
    },
  };
}

/**
 * The pool: pages side by side, cells as large as the room allows; the lines hold a power of two of pages if they can,
 * so that addresses are easy to read.
 * @param {number} n slots
 * @param {number} P page size
 * @param {number} width
 * @param {number} height
 * @param {{cell?: number, most?: number, wide?: number}} [wish] a forced cell height; the largest; width to height
 */
export function poolGeometry(n, P, width, height, wish = {}) {
  const most = wish.most ?? 36;
  const wide = wish.wide ?? 1.2;
  const sizes = wish.cell ? [wish.cell] : [];
  if (!wish.cell) for (let ch = most; ch >= 3; ch--) sizes.push(ch);
  /** @type {Geometry|null} */
  let any = null;
  let last = null;
  for (const ch of sizes) {
    const cw = ch >= 14 ? Math.round(ch * wide) : ch;
    const gap = P === 1 ? 0 : ch >= 14 ? 8 : ch >= 7 ? 4 : 2;
    const lineGap = ch >= 14 ? 4 : ch >= 7 ? 2 : 1;
    const most = Math.floor((width + gap) / (P * cw + gap));
    // A page is broken over lines only where it would be too small to see otherwise.
    if (most < 1 && !wish.cell && P * 6 <= width) continue;
    const all = Math.ceil(n / P);
    const make = (perLine) => lineGeometry(n, P, Math.max(1, perLine), cw, ch, gap, lineGap);
    const fits = (geo) => geo.w <= width && geo.h <= height;
    const need = 6 + 5 * String(n - 1).length; // room for the largest number
    last = most < 1 ? make(Math.floor(width / cw)) : make(Math.min(most, all) * P);
    const even = most < 1 || most >= all ? last : make(2 ** Math.floor(Math.log2(most)) * P);
    // A little size is given up for even lines, not much.
    if (any && (ch < 0.85 * any.ch || (cw < need && any.cw >= need))) return any;
    if (fits(even)) return even;
    if (!any && fits(last)) any = last;
  }
  return any ?? last;
}

/**
 * page_table: a line per row, a column per position, pages with a gap between them.
 * @param {number} rows
 * @param {number} cols
 * @param {number} P
 * @param {number} width of the cells' area
 * @param {number} height
 * @param {{cell?: number, digits?: number}} [wish]
 */
export function tableGeometry(rows, cols, P, width, height, wish = {}) {
  const readable = Math.max(18, 4 + 6 * (wish.digits ?? 2));
  const gap = P > 1 ? 5 : 0;
  const gaps = P > 1 ? Math.ceil(cols / P) * gap : 0;
  const fit = Math.floor((width - gaps) / cols);
  let cw = wish.cell || (fit >= readable ? Math.min(fit, 40) : rows > 12 ? Math.max(5, fit) : readable);
  const few = cw >= 14;
  if (!few) cw = Math.max(3, cw);
  const ch = few ? 20 : Math.max(4, Math.min(16, Math.floor(height / rows) - 1));
  return lineGeometry(rows * cols, P, cols, cw, ch, few ? gap : P > 1 ? 1 : 0, few ? 2 : 1);
}

/**
 * Entries in reading order: the queue, out_loc.
 * @param {number} n
 * @param {number} width
 * @param {number} cw
 * @param {number} ch
 */
export function flowGeometry(n, width, cw, ch) {
  const gap = cw >= 14 ? 2 : 1;
  return lineGeometry(n, 1, Math.max(1, Math.floor((width + gap) / (cw + gap))), cw, ch, gap, gap);
}

/**
 * Where a key moves inside a grid.
 * @param {string} key
 * @param {number} i
 * @param {Geometry} geo
 * @returns {number} the new cell, or -1 when the key is none of the grid's
 */
export function moveInGrid(key, i, geo) {
  const lineStart = i - (i % geo.perLine);
  const lineEnd = Math.min(geo.n, lineStart + geo.perLine) - 1;
  switch (key) {
    case "ArrowRight": return Math.min(geo.n - 1, i + 1);
    case "ArrowLeft": return Math.max(0, i - 1);
    case "ArrowDown": return i + geo.perLine < geo.n ? i + geo.perLine : i;
    case "ArrowUp": return i >= geo.perLine ? i - geo.perLine : i;
    case "Home": return lineStart;
    case "End": return lineEnd;
    case "PageDown": return Math.min(geo.n - 1, i + 8 * geo.perLine);
    case "PageUp": return Math.max(i % geo.perLine, i - 8 * geo.perLine);
    default: return -1;
  }
}

/**
 * The next cell size a reader can choose.
 * @param {number} cell present cell height
 * @param {number} by +1 larger, -1 smaller
 */
export function zoomed(cell, by) {
  const sizes = [4, 6, 9, 14, 20, 28, 38];
  if (by > 0) return sizes.find((size) => size > cell) ?? sizes[sizes.length - 1];
  return [...sizes].reverse().find((size) => size < cell) ?? sizes[0];
}
