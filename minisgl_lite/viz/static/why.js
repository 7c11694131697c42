// Why? What a frame decided, from the state before it: how long a hit is, who is evicted, who waits, who takes a page,
// what a release gives where.
// Each rule is worked out anew and held against what was recorded. Where the two differ, nothing is explained.

import { depthOf } from "./replay.js";
import { agreement, downTo, evictableTokens, hitOf, holdersOf, leastRecent, pagesTaken, pathTokens, stillNeeded, upTo } from "./rules.js";
import { faultText, slotText } from "./sentences.js";
import { isolate } from "./tokens.js";
import { count, number, say } from "./words.js";

/** Nodes that stayed, of which a card says why. */
const STAYED = 4;
/** Requests released in one frame that get a card. */
const RELEASED = 6;

/**
 * @typedef {Object} Card
 * @property {string} question
 * @property {string[]} lines the answer
 */

// ---- how long a hit is ------------------------------------------------------------------------------

/** @param {import("./replay.js").Req} req */
const promptOf = (req) => req.ids.slice(0, req.input_len);

/**
 * @param {any} entry of the frame's `admit`
 * @param {Facts} f
 * @returns {Card|null}
 */
function hitCard(entry, f) {
  const { before, state, meta, tokens } = f;
  const req = state.reqs.get(entry.uid);
  if (before.reqs.get(entry.uid)?.row !== null) {
    return { question: say("why.again.q", { uid: req.uid }), lines: [say("why.again", { from: number(req.cached_len) })] };
  }
  const question = count("why.hit.q", entry.matched, { uid: req.uid });
  if (meta.cache_type === "naive") return entry.matched ? null : { question, lines: [say("why.hit.naive")] };
  const ids = promptOf(req);
  const { same, others } = agreement(before.tree, ids);
  const { hit, why } = hitOf(same, ids.length, meta.page_size);
  if (hit !== entry.matched) return null;
  const P = meta.page_size;
  const name = (id) => `“${isolate(tokens.short(id))}”`;
  const values = {
    same: number(same), hit: number(hit), length: number(ids.length), may: number(ids.length - 1), last: number(ids.length - 1), P,
    end: number(hit + P), rest: number(same - hit), mine: same < ids.length ? name(ids[same]) : "", theirs: others.slice(0, 2).map(name).join(` ${say("why.or")} `),
  };
  const lines = [];
  if (before.tree.size === 1) lines.push(say("why.hit.empty"));
  else if (why === "last" || why === "most") {
    lines.push(why === "most" && same ? count("why.hit.same", same, values) : "", say(`why.hit.${why}`, values));
    lines.push(hit < ids.length - 1 ? say("why.hit.last.pages", values) : "");
  }
  else if (why === "end") lines.push(say("why.hit.end", values));
  else {
    lines.push(same ? count("why.hit.same", same, values) : "", say(others.length ? "why.hit.differs" : "why.hit.ends", values));
    if (why === "border") lines.push(say("why.hit.border", values));
  }
  return { question, lines: [...lines, twin(req, ids, hit, f)].filter(Boolean) };
}

/** Why a request's hit is as long as it is. @param {Facts} f @param {number} uid @returns {string[]} */
export function hitLines(f, uid) {
  const entry = f.frame.admit.find((one) => one.uid === uid);
  return hitCard(entry, f)?.lines ?? [];
}

/** A living request that begins with more of the same tokens, which are not in the tree yet. */
function twin(req, ids, hit, { state, before, frame, meta }) {
  const order = (frame.admit ?? []).map((entry) => entry.uid);
  for (const other of state.reqs.values()) {
    const first = before.reqs.get(other.uid)?.row !== null || order.indexOf(other.uid) < order.indexOf(req.uid);
    if (other.uid === req.uid || other.row === null || !first) continue;
    let n = 0;
    while (n < ids.length && n < other.ids.length && ids[n] === other.ids[n]) n++;
    if (hitOf(n, ids.length, meta.page_size).hit > hit) return say("why.hit.twin", { uid: other.uid, n: number(n) });
  }
  return "";
}

// ---- the budget and the queue -----------------------------------------------------------------------

/** Prompt tokens that each request of the frame takes in. */
const portions = ({ frame, state }) =>
  (frame.admit ?? []).map((entry) => {
    const req = state.reqs.get(entry.uid);
    return { uid: entry.uid, chunk: entry.chunk, from: req.cached_len, n: req.device_len - req.cached_len };
  });

const who = (uids) => (uids.length ? uids.map((uid) => `r${uid}`).join(", ") : say("why.nobody"));

/** @param {Facts} f @returns {Card[]} */
function budgetCards(f) {
  const all = portions(f);
  const used = all.reduce((sum, part) => sum + part.n, 0);
  const budget = f.meta.budget;
  const cards = [];
  const last = all[all.length - 1];
  if (used !== budget || !last) return cards;
  const values = { budget: number(budget), used: number(used - last.n), left: number(last.n), who: who(all.slice(0, -1).map((part) => part.uid)) };
  if (last.chunk) {
    const rest = number(f.state.reqs.get(last.uid).input_len - last.from);
    const key = all.length > 1 ? "why.chunk.shared" : "why.chunk";
    cards.push({ question: say("why.chunk.q", { uid: last.uid, n: number(last.n), rest }), lines: [say(key, { ...values, uid: last.uid, rest })] });
  }
  const waiting = waitingIn(f);
  if (!f.frame.refuse && waiting.length) {
    cards.push({ question: count("why.wait.q", waiting.length, { who: who(waiting) }), lines: [say("why.wait.budget", { ...values, who: who(all.map((part) => part.uid)) })] });
  }
  return cards;
}

/** @param {Facts} f @returns {number[]} */
const waitingIn = (f) => [...f.state.reqs.values()].filter((req) => req.state === "waiting").map((req) => req.uid);

/** @param {Facts} f @returns {Card|null} */
function waitCard(f) {
  const refuse = f.frame.refuse;
  if (!refuse) return null;
  const req = f.state.reqs.get(refuse.uid);
  const question = count("why.wait.q", 1, { who: `r${refuse.uid}` });
  const lines = refuse.why === "rows" ? rowLines(f) : pageLines(refuse, req, f);
  if (!lines.length) return null;
  const behind = waitingIn(f).filter((uid) => uid !== refuse.uid);
  if (behind.length) lines.push(count("why.wait.behind", behind.length, { who: who(behind) }));
  return { question, lines };
}

function rowLines({ state, meta }) {
  const holders = [...state.reqs.values()].filter((req) => req.row !== null).map((req) => req.uid);
  return holders.length === meta.rows ? [count("why.wait.rows", meta.rows, { who: who(holders) })] : [];
}

function pageLines(refuse, req, f) {
  const { state, before, frame, meta } = f;
  const P = meta.page_size;
  const out = req.max_device_len - req.input_len;
  const hit = meta.cache_type === "naive" ? 0 : hitOf(agreement(before.tree, promptOf(req)).same, req.input_len, P).hit;
  const total = upTo(req.input_len + out, P);
  const lines = [];
  if (total - hit === refuse.need) {
    const values = { uid: req.uid, input: number(req.input_len), out: number(out), total: number(total), P, hit: number(hit), need: number(refuse.need) };
    lines.push(say(hit ? "why.wait.need.hit" : "why.wait.need", values));
  } else lines.push(say("why.wait.need.bare", { uid: req.uid, need: number(refuse.need) }));
  const free = state.free.length * P;
  const cached = evictableTokens(state.tree);
  // Compared again once its own hit was locked: what was told is what was left then.
  const locks = pathTokens(state.tree, promptOf(req), hit);
  const again = locks > 0 && refuse.available === free + cached - locks && refuse.need + refuse.reserved <= free + cached;
  const available = again ? free + cached : refuse.available;
  const values = { available: number(available), free: number(free), pages: number(state.free.length), cached: number(cached) };
  lines.push(say(free + cached === available ? "why.wait.available" : "why.wait.available.bare", values));
  if (refuse.reserved) {
    const promised = promises(f);
    const sum = promised.reduce((n, part) => n + part.n, 0);
    const list = promised.filter((part) => part.n).map((part) => `r${part.uid}: ${number(part.n)}`).join(", ");
    lines.push(say(sum === refuse.reserved ? "why.wait.reserved" : "why.wait.reserved.bare", { reserved: number(refuse.reserved), list }));
  }
  const short = refuse.need + refuse.reserved - available;
  const sums = { need: number(refuse.need), reserved: number(refuse.reserved), available: number(available) };
  const more = refuse.reserved ? ".reserved" : "";
  if (short > 0) lines.push(say(`why.wait.short${more}`, { ...sums, short: number(short) }));
  else {
    // It would fit if its own hit were not locked for it first.
    if (refuse.need + refuse.reserved <= available - locks) return [];
    lines.push(say(`why.wait.lock${more}`, { ...sums, locks: number(locks), left: number(available - locks) }));
  }
  return lines;

  /** To whom how many tokens are promised: those that run, and those taken before it in this frame. */
  function promises() {
    const now = new Set((frame.admit ?? []).map((entry) => entry.uid));
    return [...state.reqs.values()].filter((other) => other.row !== null && other.state !== "aborted").map((other) => ({
      uid: other.uid, n: now.has(other.uid) ? upTo(other.max_device_len, P) - upTo(other.cached_len, P) : stillNeeded(other, P),
    }));
  }
}

// ---- who is evicted ---------------------------------------------------------------------------------

/** A node by its tokens and slots, as the tree's panel shows it. */
const nodeName = (node, tokens) => {
  const parts = node.key.slice(0, 6).map((id) => tokens.short(id)).join("");
  return say("why.node", { text: isolate(node.key.length > 6 ? `${parts}…` : parts), slots: slotText(node.value, 2) });
};

/**
 * Why a node of the tree is not evicted while those in `gone` are.
 * @param {import("./replay.js").State} before
 * @param {import("./replay.js").Node} node
 * @param {Set<number>} gone
 * @param {number} last time of the last one that goes
 * @param {{short: (id: number) => string}} tokens
 */
export function stayWords(before, node, gone, last, tokens) {
  const values = { node: nodeName(node, tokens), time: node.time };
  if (node.ref) return say("why.stay.locked", { ...values, who: who(holdersOf(before, node.id)), n: node.ref });
  if (node.children.some((child) => !gone.has(child))) return say("why.stay.inner", values);
  return say(node.children.length && node.time <= last ? "why.stay.enough" : "why.stay.later", values);
}

/**
 * Why a node is evicted.
 * @param {import("./replay.js").State} before
 * @param {number[]} gone nodes that go, in order
 * @param {number} id
 * @param {{short: (id: number) => string}} tokens
 */
export function goneWords(before, gone, id, tokens) {
  const node = before.tree.get(id);
  const key = node.children.length ? "why.evict.parent" : id === gone[0] ? "why.evict.leaf" : "why.evict.then";
  return say(key, { node: nodeName(node, tokens), time: node.time });
}

/** @param {Facts} f @returns {Card|null} */
function evictCard(f) {
  const { before, frame, trace, index, meta, tokens } = f;
  const P = meta.page_size;
  const gone = (frame.tree ?? []).filter((op) => op[0] === "del").map((op) => op[1]);
  const next = trace.frames[index + 1];
  const need = next?.phase === "allocate" && next.turn === frame.turn ? (next.free?.take ?? 0) : 0;
  const missing = need - before.free.length;
  if (missing <= 0 || !gone.length) return null;
  const rule = leastRecent(before.tree, missing * P);
  if (rule.join() !== gone.join()) return null;
  const put = frame.free?.put ?? [];
  const lines = [say("why.evict.need", { need: number(need), free: number(before.free.length), missing: number(missing) })];
  for (const id of gone.slice(0, STAYED)) lines.push(goneWords(before, gone, id, tokens));
  if (gone.length > STAYED) lines.push(say("more", { n: number(gone.length - STAYED) }));
  if (put.length > missing) lines.push(say("why.evict.whole", { got: number(put.length), missing: number(missing) }));
  const set = new Set(gone);
  const last = before.tree.get(gone[gone.length - 1]).time;
  const stayed = [...before.tree.values()].filter((node) => node.id && !set.has(node.id)).sort((a, b) => a.time - b.time || a.id - b.id);
  lines.push(...stayed.slice(0, STAYED).map((node) => stayWords(before, node, set, last, tokens)));
  if (stayed.length > STAYED) lines.push(count("why.stay.more", stayed.length - STAYED));
  return { question: count("why.evict.q", gone.length), lines };
}

// ---- who takes a page -------------------------------------------------------------------------------

/** In words why one request takes so many pages. @param {{uid: number, from: number, to: number, first: number, last: number, starts: number[]}} r @param {number} P */
export function takeWords(r, P) {
  const n = r.last - r.first;
  const values = {
    uid: r.uid, from: r.from, last: r.to - 1, to: r.to, P, page: r.first, pages: number(r.last), has: number(r.first), starts: r.starts.slice(0, 6).join(", "),
    begin: downTo(r.from, P), end: downTo(r.from, P) + P,
  };
  if (n === 0) return say(r.to - r.from === 1 ? "why.room.one" : "why.room.many", { ...values, page: Math.floor(r.from / P) });
  if (P === 1) return count("why.take.slot", n, values);
  if (r.to - r.from === 1) return say("why.take.begins", values);
  return count("why.take", n, values);
}

/** @param {Facts} f @returns {Card|null} */
function takeCard(f) {
  if (f.frame.phase === "prepare" && f.state.took) return null; // told one sub-step earlier
  const all = pagesTaken(f.trace, f.index, f.state);
  if (!all?.length) return null;
  const taken = all.reduce((sum, r) => sum + r.last - r.first, 0);
  const shown = [...all].sort((a, b) => b.last - b.first - (a.last - a.first)).slice(0, 6);
  const lines = shown.map((r) => takeWords(r, f.meta.page_size));
  if (all.length > shown.length) lines.push(count("sentence.more", all.length - shown.length));
  return { question: taken ? count("why.take.q", taken) : say("why.room.q"), lines };
}

// ---- what the sanitizer found -----------------------------------------------------------------------

/** Faults beyond the first that a card tells; of others it tells the number. */
const FAULTS_TOLD = 5;

/** @param {any} frame @returns {Card} */
function faultCard({ fault, more_faults: more = [] }) {
  const about = say(`why.fault.${fault.kind}`);
  const known = !about.startsWith("["); // a trace from outside may name another kind
  return { question: say("why.fault.q"), lines: [
    `${faultText(fault)}.`, ...(known ? [about] : []),
    ...more.slice(0, FAULTS_TOLD).map((other) => `${faultText(other)}.`),
    ...(more.length > FAULTS_TOLD ? [say("why.fault.rest", { n: more.length - FAULTS_TOLD })] : []),
  ] };
}

// ---- what a release does with whose slots -----------------------------------------------------------

/** @param {any} release an entry of the frame's `release` @param {Facts} f @returns {Card|null} */
function releaseCard({ uid, finished, ranges }, { meta }) {
  const P = meta.page_size;
  const lines = ranges.filter(([, from, to]) => to > from).map(([kind, from, to]) => {
    const naive = meta.cache_type === "naive";
    // More than the rule would free: ranges go to the end of their page.
    if (kind === "tail" && !naive && to - from > (P > 1 ? P : 0)) return "";
    const key = kind === "tail" && naive ? "naive" : kind;
    return say(`why.release.${key}`, { uid, from: number(from), to: number(to), P });
  }).filter(Boolean);
  return lines.length ? { question: say(finished ? "why.release.q.end" : "why.release.q.live", { uid }), lines } : null;
}

// ---- what becomes of a slot -------------------------------------------------------------------------

/**
 * Why the pinned slot is what it is, and what would make it free.
 * @param {import("./slots.js").View} view
 * @param {number} slot
 * @returns {Card|null}
 */
export function slotCard(view, slot) {
  const { state, slots } = view;
  const P = state.P;
  if (slot < 0 || slot >= state.N * P) return null;
  const question = say("why.slot.q", { slot });
  const id = slots.node[slot];
  if (id >= 0) {
    const node = state.tree.get(id);
    const values = { node: nodeName(node, view.tokens), from: depthOf(state.tree, node), to: depthOf(state.tree, node) + node.key.length, time: node.time };
    const lines = [say("why.slot.tree", values)];
    if (node.ref) return { question, lines: [...lines, count("why.slot.locked", node.ref, { who: who(holdersOf(state, id)) })] };
    const order = leastRecent(state.tree, Infinity);
    const at = order.indexOf(id);
    if (at < 0) return null;
    lines.push(at ? count("why.slot.later", at, values) : say("why.slot.next", values));
    if (node.children.length) lines.push(say("why.slot.inner"));
    return { question, lines };
  }
  const start = slot - (slot % P);
  const place = state.free.indexOf(start);
  if (place >= 0) return { question, lines: [place ? count("why.slot.free", place, { start }) : say("why.slot.head", { start })] };
  const req = state.reqs.get(slots.uid[slot]);
  if (!req || req.row === null) return null;
  const page = Math.floor(slots.pos[slot] / P);
  const whole = (page + 1) * P <= req.cached_len;
  return { question, lines: [say("why.slot.own", { uid: req.uid, page, start }), say(view.meta.cache_type === "naive" ? "why.slot.naive" : whole ? "why.slot.whole" : "why.slot.tail", { uid: req.uid })] };
}

// ---- all of it --------------------------------------------------------------------------------------

/**
 * @typedef {Object} Facts
 * @property {any} trace
 * @property {any} meta
 * @property {number} index
 * @property {any} frame
 * @property {import("./replay.js").State} before the state before the frame
 * @property {import("./replay.js").State} state the state after it
 * @property {{short: (id: number) => string}} tokens
 */

/** Whether there may be something to explain in a frame. @param {any} frame */
export function asksWhy(frame) {
  return !!frame && !!(frame.fault || frame.admit?.length || frame.refuse || frame.phase === "evict" || (frame.phase === "allocate" && frame.alloc?.length) || (frame.phase === "release" && frame.release?.length));
}

/**
 * What was decided in a frame, and why.
 * @param {Facts} f
 * @returns {Card[]}
 */
export function whyCards(f) {
  if (!f.frame) return [];
  const make = {
    admit: () => [...(f.frame.admit ?? []).map((entry) => hitCard(entry, f)), ...budgetCards(f), waitCard(f)],
    evict: () => [evictCard(f)],
    allocate: () => [takeCard(f)],
    prepare: () => [takeCard(f)],
    release: () => (f.frame.release ?? []).slice(0, RELEASED).map((one) => releaseCard(one, f)),
  }[f.frame.phase];
  return [f.frame.fault ? faultCard(f.frame) : null, ...(make ? make() : [])].filter((card) => card !== null);
}
