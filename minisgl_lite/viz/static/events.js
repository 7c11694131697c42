// Names of frames (`first-decode:r1`), as minisgl_lite/trace/events.py resolves them, and the events worth a stop.

const EVENT_NAME = /^([a-z-]+)(?::r(\d+))?(?::(\d+))?(?:#([1-9]\d*))?$/;
export const PHASES = ["receive", "abort", "admit", "evict", "allocate", "prepare", "forward", "sample", "release"];

/** The requests that take part in a frame. @param {any} frame @returns {number[]} */
export function uidsOf(frame) {
  return [
    ...Object.keys(frame.reqs ?? {}).map(Number),
    ...(frame.batch_info?.uids ?? []),
    ...(frame.alloc ?? []).map((entry) => entry[0]),
    ...(frame.tokens ?? []).map((entry) => entry[0]),
    ...(frame.admit ?? []).map((entry) => entry.uid),
    ...(frame.release ?? []).map((entry) => entry.uid),
  ];
}

const anyReq = (frame, uid, state) =>
  Object.entries(frame.reqs ?? {}).some(([u, r]) => (uid === null || Number(u) === uid) && r.state === state);
/** All that the sanitizer found in a frame, the first one first. @param {any} frame @returns {any[]} */
export function faultsOf(frame) {
  return frame?.fault ? [frame.fault, ...(frame.more_faults ?? [])] : [];
}

const fits = (uid, u) => uid === null || uid === u;

/** @type {Object<string, (frame: any, uid: number|null) => boolean>} */
const SPECIAL = {
  "first-decode": (f, uid) => f.batch_info?.phase === "decode" && (uid === null || f.batch_info.uids.includes(uid)),
  hit: (f, uid) => (f.admit ?? []).some((e) => fits(uid, e.uid) && e.matched),
  chunk: (f, uid) => (f.admit ?? []).some((e) => fits(uid, e.uid) && e.chunk),
  refuse: (f, uid) => !!f.refuse && fits(uid, f.refuse.uid),
  reject: (f, uid) => anyReq(f, uid, "rejected"),
  finish: (f, uid) => (f.tokens ?? []).some(([u, , , finished]) => finished && fits(uid, u)),
  fault: (f, uid) => faultsOf(f).some((fault) => fits(uid, fault.uid)),
  split: (f) => (f.tree ?? []).some((op) => op[0] === "split"),
};

/**
 * The index of the first frame that fits a name (`#2`: the second); -1 when there is none.
 * @param {any[]} frames
 * @param {string} name
 */
export function findEvent(frames, name) {
  const match = EVENT_NAME.exec(name);
  if (!match) return -1;
  const [, kind, uidText, numberText, nthText] = match;
  const uid = uidText === undefined ? null : Number(uidText);
  const n = numberText === undefined ? null : Number(numberText);
  const nth = Number(nthText ?? 1);
  const found = [];
  const all = (test) => frames.forEach((frame, i) => test(frame) && found.push(i));
  if (kind === "start") return frames.length ? 0 : -1;
  if (kind === "end") return frames.length - 1;
  if (kind === "turn" && n !== null) all((f) => f.turn === n);
  else if (kind === "token" && uid !== null && n !== null) {
    frames.forEach((f, i) => (f.tokens ?? []).forEach((entry) => entry[0] === uid && entry[2] && found.push(i)));
    return nth === 1 ? (found[n] ?? -1) : -1;
  } else if (Object.hasOwn(SPECIAL, kind)) all((f) => SPECIAL[kind](f, uid));
  else if (PHASES.includes(kind)) all((f) => f.phase === kind && (uid === null || uidsOf(f).includes(uid)));
  return found[nth - 1] ?? -1;
}

/**
 * A name for a frame, the most telling of those that `findEvent` leads back to it; "" where there is no frame.
 * @param {any[]} frames
 * @param {number} index
 */
export function eventName(frames, index) {
  const frame = frames[index];
  if (!frame) return "";
  const uids = [...new Set(uidsOf(frame))].filter((uid) => uid >= 0);
  const names = [];
  for (const kind of ["fault", "split"]) if (SPECIAL[kind](frame, null)) names.push([kind, SPECIAL[kind], null]);
  for (const kind of ["first-decode", "hit", "chunk", "refuse", "reject", "finish"])
    for (const uid of uids) if (SPECIAL[kind](frame, uid)) names.push([kind, SPECIAL[kind], uid]);
  const same = (f, uid) => f.phase === frame.phase && (uid === null || uidsOf(f).includes(uid));
  for (const uid of [...uids, null]) names.push([frame.phase, same, uid]);
  let best = { nth: Infinity, name: "" };
  for (const [kind, test, uid] of names) {
    let nth = 0;
    for (let i = 0; i <= index; i++) nth += test(frames[i], uid) ? 1 : 0;
    if (nth < best.nth) best = { nth, name: kind + (uid === null ? "" : `:r${uid}`) };
  }
  return best.nth === 1 ? best.name : `${best.name}#${best.nth}`;
}

/** Kinds of events that ‹ event › stops at, most important first: a frame shows one. */
export const EVENT_KINDS = ["fault", "evict", "split", "refuse", "reject", "abort", "hit", "finish", "chunk", "admit"];

/**
 * Frames worth a stop.
 * @param {any[]} frames
 * @param {number} [from] first frame to look at
 * @returns {{index: number, kind: string, uid: number|null}[]}
 */
export function eventList(frames, from = 0) {
  const events = [];
  for (let index = from; index < frames.length; index++) {
    const frame = frames[index];
    const kind = EVENT_KINDS.find((name) => (SPECIAL[name] ? SPECIAL[name](frame, null) : frame.phase === name));
    if (!kind) continue;
    const who = [...new Set(uidsOf(frame).filter((uid) => uid >= 0 && (!SPECIAL[kind] || SPECIAL[kind](frame, uid))))];
    events.push({ index, kind, uid: frame.refuse?.uid ?? (who.length === 1 ? who[0] : null) });
  }
  return events;
}

/** The last frame of each turn, in order. @param {any[]} frames @returns {number[]} */
export function turnEnds(frames) {
  const ends = [];
  frames.forEach((frame, i) => {
    if (i + 1 === frames.length || frames[i + 1].turn !== frame.turn) ends.push(i);
  });
  return ends;
}
