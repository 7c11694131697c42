// How a slot looks and what it is in words: one place for pool, table and out_loc, so that they agree.

import { faultsOf } from "./events.js";
import { KIND, KIND_NAMES } from "./replay.js";
import { isolate } from "./tokens.js";
import { say, count } from "./words.js";

/**
 * @typedef {Object} View all that a panel needs to show one frame; made once per frame
 * @property {any} trace
 * @property {any} meta
 * @property {number} index
 * @property {any} frame
 * @property {import("./replay.js").State} state
 * @property {import("./replay.js").Slots} slots
 * @property {import("./replay.js").BatchState|null} batch
 * @property {ReturnType<typeof import("./tokens.js").tokenTexts>} tokens
 * @property {any} run facts about the whole run: see survey in run.js
 * @property {number|null} picked uid of the pinned slot's request
 */

/** The hue of a request: its own, or among many, that of the picked one. @param {View} view @param {number} uid */
export function hueOf(view, uid) {
  if (uid < 0) return 6;
  if (view.run.many) return uid === view.picked ? 0 : 6;
  return view.state.reqs.get(uid)?.hue ?? 6;
}

/** The token that lies in a slot; -1: none is known. @param {View} view @param {number} slot */
export function tokenIn(view, slot) {
  const { slots, state } = view;
  if (slots.node[slot] >= 0) return state.tree.get(slots.node[slot]).key[slots.at[slot]];
  if (slots.kind[slot] !== KIND.own) return -1;
  return state.reqs.get(slots.uid[slot]).ids[slots.pos[slot]] ?? -1;
}

/** The slots that a frame's faults name. @type {WeakMap<any, Set<number>>} */
const faultySlots = new WeakMap();

/** Whether a fault of a frame is about a slot. @param {any} frame @param {number} slot */
function isFaulty(frame, slot) {
  if (!frame?.fault) return false;
  if (!faultySlots.has(frame)) faultySlots.set(frame, new Set(faultsOf(frame).map((fault) => fault.slot)));
  return !!faultySlots.get(frame)?.has(slot);
}

/**
 * How a slot of a kind looks. Colour is never alone: each kind has its own pattern.
 * @param {import("./paint.js").Tile} t
 * @param {import("./theme.js").Colours} c
 * @param {{kind: number, hue?: number, filled?: boolean, holders?: number, next?: boolean, written?: boolean, aimed?: boolean, read?: boolean}} is
 */
export function look(t, c, is) {
  const mine = c.px[`h${is.hue ?? 6}`];
  const solid = is.kind === KIND.own && is.filled;
  t.fill = c.px.ground;
  t.edge = c.px.line;
  t.ink = c.css.ink;
  if (solid) {
    t.fill = t.edge = mine;
    t.ink = c.css.on;
  } else if (is.kind === KIND.own) {
    t.edge = mine;
    t.thick = true;
  } else if (is.kind === KIND.locked) {
    t.fill = c.px[`t${is.hue ?? 6}`];
    t.edge = mine;
    t.badge = "lock";
  } else if (is.kind === KIND.shared) {
    t.fill = c.px.shared;
    t.edge = c.px.ink;
    t.double = true;
    if (t.readable) t.badge = `×${is.holders}`;
  } else if (is.kind === KIND.evictable) {
    t.hatch = c.px.line;
    t.plate = c.css.ground;
  } else if (is.kind === KIND.dummy) {
    t.cross = c.px.line;
    t.plate = c.css.ground;
    t.ink = c.css.dim;
  } else if (is.kind === KIND.lost) {
    t.fill = t.edge = c.px.bad;
    t.ink = c.css.ground;
  } else if (is.next) {
    t.edge = c.px.ink;
    t.thick = true;
  } else t.ink = c.css.dim;
  const mark = solid ? c.px.on : is.kind === KIND.own || is.kind === KIND.locked ? mine : c.px.ink;
  if (is.written) t.dot = mark;
  else if (is.aimed) t.ring = mark;
  if (is.read) t.bar = solid ? c.px.on : c.px.ink;
}

/**
 * All that decides how a slot looks, but its number and token. Below 2 ** 22.
 * @param {View} view
 * @param {number} slot
 * @param {boolean} [small] without what a small cell does not show
 */
export function lookKey(view, slot, small = false) {
  const { slots } = view;
  const bits = (slots.filled[slot] ? 1 : 0) | (slots.written[slot] ? 2 : 0) | (slots.aimed[slot] ? 4 : 0) | (!small && slots.read[slot] ? 8 : 0)
    | (slot - (slot % view.state.P) === view.state.free[0] ? 16 : 0) | (slots.owners[slot] > 1 || isFaulty(view.frame, slot) ? 32 : 0);
  return bits | (slots.kind[slot] << 6) | (hueOf(view, slots.uid[slot]) << 9) | (small ? 0 : Math.min(slots.holders[slot], 1023) << 12);
}

/**
 * @param {import("./paint.js").Tile} t
 * @param {View} view
 * @param {number} slot
 * @param {import("./theme.js").Colours} c
 * @param {boolean} [withToken] write the token's text below the number
 */
export function slotTile(t, view, slot, c, withToken = false) {
  const { slots } = view;
  look(t, c, {
    kind: slots.kind[slot], hue: hueOf(view, slots.uid[slot]), filled: !!slots.filled[slot], holders: slots.holders[slot],
    next: slot - (slot % view.state.P) === view.state.free[0], written: !!slots.written[slot], aimed: !!slots.aimed[slot], read: !!slots.read[slot],
  });
  if (t.readable) t.text = String(slot);
  if (slots.owners[slot] > 1 || isFaulty(view.frame, slot)) {
    t.edge = t.cross = c.px.bad;
    t.thick = true;
  }
  if (withToken && t.readable) {
    const token = tokenIn(view, slot);
    if (token >= 0) t.sub = view.tokens.short(token);
  }
}

/** Whether K/V was written to a slot in this run: being freed does not take it away. @param {View} view @param {number} slot */
function holdsOld({ run, index }, slot) {
  return run.stored[slot] >= 0 && run.stored[slot] <= index;
}

/** A slot's state in words. @param {View} view @param {number} slot @returns {string} */
export function stateWords(view, slot) {
  const { slots } = view;
  const kind = slots.kind[slot];
  const words = [];
  if (slots.written[slot]) words.push(say(slots.written[slot] === 2 ? "slot.written" : "slot.written.step"));
  else if (slots.aimed[slot]) words.push(say("slot.aimed"));
  if (slots.owners[slot] > 1) words.push(say("slot.double"));
  if (isFaulty(view.frame, slot)) words.push(say("slot.fault"));
  if (kind === KIND.free) words.push(say(holdsOld(view, slot) ? "slot.free.old" : "slot.free"));
  else if (kind !== KIND.own) words.push(say(`slot.${KIND_NAMES[kind]}`));
  else if (!words.length) words.push(say(slots.filled[slot] ? "slot.own" : "slot.reserved"));
  if (kind === KIND.shared || kind === KIND.locked) words.push(count("cell.holders", slots.holders[slot]));
  if (slots.read[slot]) words.push(say("slot.read"));
  return words.join(", ");
}

/** "slot 1833, page 458, r7, position 212, written now". @param {View} view @param {number} slot */
export function slotWords(view, slot) {
  const { slots, state } = view;
  const parts = [say("cell.slot", { slot, page: Math.floor(slot / state.P) })];
  const [kind, uid, pos] = [slots.kind[slot], slots.uid[slot], slots.pos[slot]];
  if (kind === KIND.own) parts.push(say("cell.owner", { uid, pos }));
  else if (pos >= 0) parts.push(say("cell.position", { pos }));
  parts.push(stateWords(view, slot));
  const token = tokenIn(view, slot);
  if (token >= 0) parts.push(say("cell.token", { token: isolate(view.tokens.whole(token)) }));
  return parts.join(", ");
}
