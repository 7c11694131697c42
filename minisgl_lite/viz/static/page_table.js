// page_table: a row per request, a column per logical position, a slot in each cell.

import { el, setText, button } from "./dom.js";
import { EDGE, createGrid } from "./grid.js";
import { tableGeometry, zoomed } from "./layout.js";
import { hueOf, lookKey, slotTile, stateWords, tokenIn } from "./slots.js";
import { isolate } from "./tokens.js";
import { say, count } from "./words.js";

const LEFT = 62;
const TOP = 16;

/** @param {any} app */
export function tablePanel(app) {
  /** @type {import("./slots.js").View} */
  let view = null;
  /** @type {Map<number, import("./replay.js").Req>} row → its request */
  let owners = new Map();
  let width = 0;
  let cell = 0;
  const note = el("span", { class: "kvv-note" });
  const tools = el("span", { class: "kvv-tools" }, [
    button("−", () => zoom(-1), { label: say("zoom.out", { panel: say("panel.page_table") }) }),
    button("+", () => zoom(1), { label: say("zoom.in", { panel: say("panel.page_table") }) }),
  ]);
  const grid = createGrid({
    label: say("panel.page_table"), tile, key, describe, head,
    headKey: () => [...owners].map(([row, { uid }]) => [row, uid, hueOf(view, uid)]).join(),
    differs: (i) => !!app.other?.cell(place(i).row, place(i).pos),
    beside: (i) => app.other.cellWords(place(i).row, place(i).pos),
    onPoint: (i) => app.point(i < 0 ? "" : grid.describe(i), i < 0 ? -1 : slotAt(i)),
    onPick: (i) => slotAt(i) >= 0 && app.pin(slotAt(i)),
  });

  const place = (i) => ({ row: view.run.rows[Math.floor(i / view.run.cols)], pos: i % view.run.cols });
  const isDummy = (row) => row === view.meta.rows;

  /** The slot of a cell that is in use; -1 where it is not. */
  function slotAt(i) {
    const { row, pos } = place(i);
    return slotIn(row, pos);
  }

  /** @param {number} row @param {number} pos */
  function slotIn(row, pos) {
    if (isDummy(row)) return view.state.N * view.state.P;
    const req = owners.get(row);
    return req && pos < req.alloc_end ? view.state.rows[row][pos] : -1;
  }

  /** @param {number} i @param {import("./paint.js").Tile} t */
  function tile(i, t) {
    const { row, pos } = place(i);
    const c = app.colours();
    const req = owners.get(row);
    const slot = slotAt(i);
    if (isDummy(row)) {
      if (pos === 0) slotTile(t, view, slot, c);
      else Object.assign(t, { edge: c.px.faint, fill: c.px.ground, text: String(slot), ink: c.css.dim });
    } else if (slot >= 0) {
      slotTile(t, view, slot, c);
      if (pos >= req.device_len) {
        t.dot = t.ring = t.bar = 0;
        t.ink = c.css.dim;
      }
    } else {
      Object.assign(t, { edge: c.px.faint, fill: c.px.ground, ink: c.css.dim });
      if (t.readable && pos < view.state.ends[row]) t.text = String(view.state.rows[row][pos]);
    }
    if (req && pos === req.cached_len && pos > 0) t.rule = c.px.ink;
  }

  /** @param {number} i @param {boolean} small */
  function key(i, small) {
    const cols = view.run.cols; // asked of each cell at each step, so without an object for its place
    const row = view.run.rows[Math.floor(i / cols)];
    const pos = i % cols;
    const req = owners.get(row);
    const slot = slotIn(row, pos);
    const rule = !small && req && pos === req.cached_len && pos > 0 ? 1 : 0;
    if (slot < 0) return -2 * (!small && pos < view.state.ends[row] ? 2 + view.state.rows[row][pos] : 1) - rule;
    const unused = req ? pos >= req.device_len : pos > 0; // room, or the dummy's row behind its one slot
    const look = lookKey(view, slot, small);
    return (small ? look : look * 2 ** 20 + slot) * 4 + (unused ? 2 : 0) + rule;
  }

  /** @param {number} i */
  function describe(i) {
    if (!view) return "";
    const { row, pos } = place(i);
    const parts = [say("cell.table", { row, pos })];
    const slot = slotAt(i);
    const req = owners.get(row);
    if (slot < 0) {
      const old = view.state.rows[row]?.[pos];
      parts.push(pos < view.state.ends[row] ? say("cell.table.stale", { slot: old }) : say("cell.table.empty"));
      return parts.join(", ");
    }
    parts.push(say("cell.table.slot", { slot }));
    if (!req) return [...parts, say("slot.dummy")].join(", ");
    parts.push(`r${req.uid}`, say(pos < req.cached_len ? "cell.cached" : pos < req.device_len ? "cell.extend" : "cell.table.room"));
    if (pos < req.device_len) parts.push(stateWords(view, slot));
    const token = req.ids[pos] ?? tokenIn(view, slot);
    if (token >= 0) parts.push(say("cell.token", { token: isolate(view.tokens.whole(token)) }));
    return parts.join(", ");
  }

  /** Row names and the axis of positions. @param {CanvasRenderingContext2D} ctx */
  function head(ctx, { sx, sy, w, h }) {
    const c = app.colours();
    const geo = grid.geometry;
    ctx.fillStyle = c.css.ground;
    ctx.fillRect(0, 0, w, TOP);
    ctx.fillRect(0, 0, LEFT, h);
    ctx.fillStyle = c.css.dim;
    ctx.font = `10px ${c.font}`;
    ctx.textAlign = "center";
    const P = view.state.P;
    const unit = P > 8 && P % 8 === 0 ? 8 : P === 1 && geo.cw < 26 ? 4 : P;
    const step = Math.ceil(26 / Math.max(1, unit * geo.cw)) * unit;
    for (let pos = 0; pos < view.run.cols; pos += step) {
      const x = geo.x(pos) + LEFT - sx + Math.min(geo.cw, 20) / 2;
      if (x > LEFT && x < w) ctx.fillText(String(pos), x, TOP / 2);
    }
    if (geo.ch < 9) return;
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, TOP, LEFT, h);
    ctx.clip();
    const rows = view.run.rows.map((row, r) => ({ row, req: owners.get(row), y: geo.y(r * geo.perLine) + TOP - sy + geo.ch / 2 }));
    const seen = rows.filter(({ y }) => y > TOP - geo.ch && y < h + geo.ch);
    // First all of one font, then all of the other: changing it costs more than writing.
    ctx.textAlign = "left";
    ctx.font = `11px ${c.font}`;
    for (const { row, y } of seen) ctx.fillText(isDummy(row) ? say("slot.dummy") : String(row), 1, y);
    ctx.textAlign = "right";
    ctx.font = `bold 12px ${c.font}`;
    for (const { req, y } of seen) {
      if (!req) continue;
      ctx.fillStyle = c.css[`h${hueOf(view, req.uid)}`];
      ctx.fillText(`r${req.uid}`, LEFT - 6, y);
    }
    ctx.restore();
  }

  function arrange() {
    if (!view || !width) return;
    const { rows, cols } = view.run;
    const room = app.roomy() ? 240 : 190;
    const digits = String((view.state.N + 1) * view.state.P - 1).length;
    const geo = tableGeometry(rows.length, cols, view.state.P, width - LEFT - EDGE, room - TOP - EDGE, { cell, digits });
    const scrolls = geo.w > width - LEFT - EDGE;
    grid.layout(geo, { w: width, h: Math.min(room, geo.h + TOP + EDGE + (scrolls ? 12 : 0)), left: LEFT, top: TOP });
    tools.hidden = !cell && geo.cw >= 20;
  }
  function zoom(by) {
    cell = zoomed(grid.geometry.cw, by);
    arrange();
    grid.paint(app.colours());
  }

  /** Cells in use that hold a slot. */
  function cellsOf(slot) {
    const found = [];
    if (slot < 0 || !view) return found;
    view.run.rows.forEach((row, r) => {
      const req = owners.get(row);
      if (!req) return;
      const pos = view.state.rows[row].subarray(0, req.alloc_end).indexOf(slot);
      if (pos >= 0) found.push(r * view.run.cols + pos);
    });
    return found;
  }

  /** Bring the newest write into sight, if the table is wider than its room. */
  function follow() {
    const geo = grid.geometry;
    const last = view.batch?.tokens.filter((t) => t.uid >= 0).at(-1);
    if (!geo || !last) return;
    const r = view.run.rows.indexOf(last.row);
    if (r >= 0) grid.reveal(r * view.run.cols + last.pos);
  }

  return {
    name: "page_table",
    body: grid.root,
    head: [note, tools],
    layout(w) {
      width = w;
      arrange();
    },
    update(next) {
      const first = !view || view.run !== next.run;
      view = next;
      owners = new Map();
      for (const req of view.state.reqs.values()) if (req.row !== null) owners.set(req.row, req);
      if (first) arrange();
      const unused = view.meta.rows - view.run.rows.filter((row) => !isDummy(row)).length;
      setText(note, say("table.axis") + (unused ? ` · ${count("table.never", unused)}` : ""));
      if (grid.geometry && grid.geometry.w > width - LEFT) follow();
      grid.paint(app.colours());
    },
    link: (slot, pin) =>
      grid.mark([...cellsOf(pin).map((i) => ({ i, cls: "pin" })), ...cellsOf(slot).map((i) => ({ i, cls: "hover" }))]),
    stop: grid.stop,
  };
}
