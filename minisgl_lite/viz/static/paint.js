// Cells as pixels. A cell's state shows by its pattern as well as by its colour; both are written straight into an
// ImageData, which is many times faster than a fillRect for each.

/**
 * @typedef {Object} Tile how a cell looks; colours are pixels, 0 is none
 * @property {number} fill
 * @property {number} edge outline
 * @property {boolean} thick a thicker outline
 * @property {boolean} double a second outline inside
 * @property {number} hatch
 * @property {number} cross
 * @property {number} dot
 * @property {number} ring
 * @property {number} bar a bar along the lower edge
 * @property {number} rule a rule along the left edge: a border between ranges
 * @property {number} notch a filled corner, upper left: the other run's cell differs
 * @property {string} text
 * @property {string} sub a second line
 * @property {string} top a line above, in tall cells
 * @property {string} badge upper right corner: "lock" is drawn, else text
 * @property {string} ink css colour of the texts
 * @property {string} plate css colour behind the text, where a pattern would disturb it
 * @property {boolean} readable whether texts will be drawn; where not, none need be made
 */

/** @returns {Tile} */
export function newTile() {
  return {
    fill: 0, edge: 0, thick: false, double: false, hatch: 0, cross: 0, dot: 0, ring: 0, bar: 0, rule: 0, notch: 0,
    text: "", sub: "", top: "", badge: "", ink: "", plate: "", readable: true,
  };
}

/** @param {Tile} t */
export function clearTile(t) {
  t.fill = t.edge = t.hatch = t.cross = t.dot = t.ring = t.bar = t.rule = t.notch = 0;
  t.thick = t.double = false;
  t.text = t.sub = t.top = t.badge = t.ink = t.plate = "";
}

/** @typedef {{edge: number, fill: number, dot: number, notch: number}} SmallLook what a cell below 8 CSS pixels shows; colours, 0 is none */

/** Below 8 CSS pixels patterns would be noise: there the state shows by lightness, with totals beside it. @param {Tile} t @returns {SmallLook} */
export function smallLook(t) {
  return { edge: t.edge, fill: t.fill || t.edge, dot: t.dot || t.ring, notch: t.notch };
}

/** A picture in memory with clipped drawing. */
export class Raster {
  /** @param {number} w @param {number} h device pixels */
  constructor(w, h) {
    this.w = w;
    this.h = h;
    this.image = new ImageData(w, h);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.clip = { x: 0, y: 0 };
    this.ground = 0;
  }

  /** Begin anew on a ground. @param {number} colour */
  clear(colour) {
    this.ground = colour;
    this.pixels.fill(colour);
  }

  /** @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {number} colour */
  rect(x0, y0, x1, y1, colour) {
    x0 = Math.max(this.clip.x, x0);
    y0 = Math.max(this.clip.y, y0);
    x1 = Math.min(this.w, x1);
    y1 = Math.min(this.h, y1);
    if (x0 >= x1) return;
    const { pixels, w } = this;
    if (x1 - x0 > 24) {
      for (let y = y0; y < y1; y++) pixels.fill(colour, y * w + x0, y * w + x1);
      return;
    }
    for (let y = y0; y < y1; y++) {
      const end = y * w + x1;
      for (let i = y * w + x0; i < end; i++) pixels[i] = colour; // a call for each short row costs more
    }
  }

  point(x, y, colour) {
    if (x >= this.clip.x && y >= this.clip.y && x < this.w && y < this.h) this.pixels[y * this.w + x] = colour;
  }

  /** A cell below 8 CSS pixels. @param {SmallLook} look @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {number} d as in `tile` */
  small(look, x0, y0, x1, y1, d) {
    const b = look.edge ? Math.max(1, Math.round(d)) : 0;
    if (b) this.rect(x0, y0, x1, y1, look.edge);
    if (look.fill) this.rect(x0 + b, y0 + b, x1 - b, y1 - b, look.fill);
    const [w, h] = [x1 - x0, y1 - y0];
    if (look.dot) this.rect(x0 + (w >> 1), y0 + (h >> 1), x1, y1, look.dot);
    if (look.notch) this.rect(x0, y0, x0 + ((w + 1) >> 1), y0 + ((h + 1) >> 1), look.notch);
  }

  /** @param {Tile} t @param {number} x @param {number} y @param {number} w @param {number} h @param {number} d device pixels per CSS pixel */
  tile(t, x, y, w, h, d) {
    const x1 = x + w;
    const y1 = y + h;
    const big = Math.min(w, h) >= 12 * d;
    const one = Math.max(1, Math.round(d));
    const edge = t.thick && big ? 2 * one : one;
    if (t.edge) this.rect(x, y, x1, y1, t.edge);
    const b = t.edge ? edge : 0;
    if (t.edge || t.fill) this.rect(x + b, y + b, x1 - b, y1 - b, t.fill || t.edge);
    if (t.double) {
      this.rect(x + 2 * b, y + 2 * b, x1 - 2 * b, y1 - 2 * b, t.edge);
      this.rect(x + 3 * b, y + 3 * b, x1 - 3 * b, y1 - 3 * b, t.fill);
    }
    if (t.hatch) this.stripes(x + b, y + b, x1 - b, y1 - b, t.hatch, Math.round((big ? 7 : 4) * d), one);
    if (t.cross) this.crossed(x + b, y + b, x1 - b, y1 - b, t.cross, one);
    if (t.bar) this.rect(x + b, y1 - b - 2 * one, x1 - b, y1 - b, t.bar);
    if (t.rule) this.rect(x - one, y - one, x + one, y1 + one, t.rule);
    if (t.notch) this.corner(x, y, Math.round((big ? 8 : 5) * d), t.notch, this.ground, big ? 2 * one : one);
    const dot = t.dot || t.ring;
    if (dot && !big) this.rect(x + (w >> 1), y + (h >> 1), x1 - b - one, y1 - b - one, dot);
  }

  /** A filled corner with a seam, so that it is seen on any cell. */
  corner(x, y, size, colour, seam, thick) {
    for (let i = 0; i < size + thick; i++) {
      const end = x + size - i;
      if (i < size) this.rect(x, y + i, end, y + i + 1, colour);
      this.rect(Math.max(x, end), y + i, end + thick, y + i + 1, seam);
    }
  }

  stripes(x0, y0, x1, y1, colour, period, thick) {
    for (let y = y0; y < y1; y++) {
      for (let x = x0; x < x1; x++) if ((x + y) % period < thick) this.point(x, y, colour);
    }
  }

  crossed(x0, y0, x1, y1, colour, thick) {
    const n = y1 - y0;
    for (let i = 0; i < n; i++) {
      const dx = Math.round(((x1 - x0 - 1) * i) / Math.max(1, n - 1));
      for (let k = 0; k < thick; k++) {
        this.point(Math.min(x1 - 1, x0 + dx + k), y0 + i, colour);
        this.point(Math.max(x0, x1 - 1 - dx - k), y0 + i, colour);
      }
    }
  }
}

/**
 * A tile's texts, in CSS pixels, over the raster.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Tile} t
 * @param {number} x @param {number} y @param {number} w @param {number} h
 * @param {string} font family
 */
export function tileTexts(ctx, t, x, y, w, h, font) {
  const two = t.sub !== "" && h >= 30 && w >= 24;
  if (t.text) {
    const size = Math.min(two ? 10 : 12, Math.floor((w - (two ? 12 : 4)) / (0.62 * t.text.length)));
    if (size >= 8 && h >= size + 2) {
      setFont(ctx, `${size}px ${font}`);
      // What stands in a corner of a low cell takes its room from the number.
      const aside = two || w < 30 ? ((t.dot || t.ring) && w < 30 ? 3 : 0) : t.badge && h < 28 ? 5 : 0;
      const tx = two ? x + 4 : x + w / 2 - aside;
      const ty = t.top ? y + 26 : two ? y + 9 : y + h / 2 + 0.5;
      const plate = t.plate || (t.cross ? toCss(t.fill) : "");
      if (plate) {
        const half = (t.text.length * size * 0.62) / 2 + 1;
        ctx.fillStyle = plate;
        ctx.fillRect(two ? tx - 1 : tx - half, ty - size / 2 - 1, 2 * half, size + 2);
      }
      ctx.fillStyle = t.ink;
      ctx.textAlign = two ? "left" : "center";
      ctx.fillText(t.text, tx, ty);
    }
  }
  if (two) line(ctx, t, t.sub, x + 4, y + h - 10, w - (t.dot || t.ring ? 14 : 6), font);
  if (two && t.top) line(ctx, t, t.top, x + 4, y + 11, w - 6, font);
  // In a small cell the number has the room; tint and border still tell a locked cell from others.
  if (t.badge && h >= 15 && (w >= 30 || !t.text)) badge(ctx, t, x + w, y, font);
  if (!t.dot && !t.ring) return;
  const [r, from] = w < 30 ? [2, 4.5] : [3, 6.5];
  spot(ctx, t, x + w - from, y + h - from - (t.bar ? 3 : 0), r);
}

/** A disc for what is written, a ring for what will be. */
function spot(ctx, t, x, y, r) {
  const colour = toCss(t.dot || t.ring);
  ctx.beginPath();
  ctx.arc(x, y, t.dot ? r : r - 0.3, 0, 7);
  ctx.fillStyle = ctx.strokeStyle = colour;
  ctx.lineWidth = 1.3;
  if (t.dot) ctx.fill();
  else ctx.stroke();
}

/** A pixel as a css colour. @param {number} pixel */
function toCss(pixel) {
  return `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;
}

/** A line of text cut to its room. */
function line(ctx, t, whole, x, y, room, font) {
  setFont(ctx, `11.5px ${font}`);
  ctx.textAlign = "left";
  const most = Math.max(1, Math.floor(room / 6.95));
  const chars = Array.from(whole);
  const text = chars.length <= most ? whole : `${chars.slice(0, most - 1).join("")}…`;
  if (t.plate) {
    ctx.fillStyle = t.plate;
    ctx.fillRect(x - 1, y - 7, Math.min(room + 2, ctx.measureText(text).width + 2), 14);
  }
  ctx.fillStyle = t.ink;
  ctx.fillText(text, x, y);
}

function badge(ctx, t, right, y, font) {
  ctx.fillStyle = t.ink;
  ctx.strokeStyle = t.ink;
  if (t.badge === "lock") {
    ctx.fillRect(right - 9, y + 6.5, 6, 4.5);
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.arc(right - 6, y + 6.5, 2, Math.PI, 0);
    ctx.stroke();
    return;
  }
  setFont(ctx, `bold 9px ${font}`);
  ctx.textAlign = "right";
  ctx.fillText(t.badge, right - 4, y + 8.5);
}

function setFont(ctx, font) {
  if (ctx.font !== font) ctx.font = font;
}
