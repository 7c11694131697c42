// Facts about a whole run, which fix the view's geometry: frames never jump when numbers grow.

import { eventList, turnEnds } from "./events.js";
import { HUES, fromRuns, isOpen } from "./replay.js";

/**
 * @typedef {Object} Run
 * @property {number[]} rows table rows that are ever used, ascending; the dummy's last where it is used
 * @property {boolean} dummy whether batches are padded
 * @property {number} cols positions that are ever used, rounded up to whole pages
 * @property {number} reqs requests in all
 * @property {boolean} many more requests at once than there are hues
 * @property {number} longest largest max_device_len
 * @property {number[]} ends last frame of each turn
 * @property {number[]} subs sub-steps in each frame's turn
 * @property {{index: number, kind: string, uid: number|null}[]} events
 * @property {number[]} free free pages after each frame
 * @property {Int32Array} stored by slot: first frame in which K/V is written there; -1: none
 * @property {number} fault first frame in which the sanitizer found a fault; -1: none
 */

/**
 * @param {any} trace
 * @returns {Run}
 */
export function survey(trace) {
  const { meta, frames } = trace;
  const P = meta.page_size;
  const rows = new Set();
  const state = new Map();
  let [dummy, cols, longest, most, reqs, open] = [false, 0, 1, 0, 0, 0];
  let free = meta.num_pages;
  const freeAt = [];
  const stored = new Int32Array((meta.num_pages + 1) * P).fill(-1);
  /** Slots of batches that are not written yet. @type {Map<number, number[][]>} */
  const aims = new Map();
  frames.forEach((frame, index) => {
    if (frame.batch_info) aims.set(frame.batch, frame.batch_info.out_loc);
    if (frame.stored) {
      for (const slot of fromRuns(aims.get(frame.batch) ?? [])) if (stored[slot] < 0) stored[slot] = index;
      aims.delete(frame.batch);
    }
    for (const [row, position, runs] of frame.table ?? []) {
      rows.add(row);
      cols = Math.max(cols, position + runs.reduce((sum, [, n]) => sum + n, 0));
    }
    if (frame.batch_info?.uids.includes(-1)) dummy = true;
    for (const uid in frame.reqs) {
      const changed = frame.reqs[uid];
      if (changed.state === "waiting" || !state.has(uid)) reqs++;
      if (changed.state) {
        open += Number(isOpen(changed)) - Number(state.has(uid) && isOpen({ state: state.get(uid) }));
        state.set(uid, changed.state);
      }
      if (changed.max_device_len) longest = Math.max(longest, changed.max_device_len);
    }
    most = Math.max(most, open);
    free += (frame.free?.put?.length ?? 0) - (frame.free?.take ?? 0);
    freeAt.push(free);
  });
  // A few rows are always shown: an empty table would not look like one.
  for (let row = meta.rows - 1; row >= 0 && rows.size < Math.min(4, meta.rows); row--) rows.add(row);
  const shown = [...rows].sort((a, b) => a - b);
  if (dummy) shown.push(meta.rows);
  cols = Math.min(meta.width, Math.ceil(Math.max(cols, Math.min(longest - 1, 64), 16) / P) * P);
  const ends = turnEnds(frames);
  return {
    rows: shown, dummy, cols, reqs, longest, many: most > HUES, ends, events: eventList(frames), free: freeAt,
    subs: subSteps(frames, ends), stored, fault: frames.findIndex((frame) => frame.fault),
  };
}

/** How many sub-steps each frame's turn has. @param {any[]} frames @param {number[]} ends */
export function subSteps(frames, ends) {
  const subs = new Array(frames.length);
  let from = 0;
  for (const end of ends) {
    subs.fill(end - from + 1, from, end + 1);
    from = end + 1;
  }
  return subs;
}
