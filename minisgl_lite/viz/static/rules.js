// What the engine's rules give, worked out from a replayed state: how long a hit may be, what a request may still ask for,
// which leaves go, who takes pages. Numbers in, numbers out; why.js and predict.js put them into words.

/** @param {number} n @param {number} P */
export const upTo = (n, P) => Math.ceil(n / P) * P;
export const downTo = (n, P) => Math.floor(n / P) * P;

/**
 * How far a prompt agrees with what is in the tree, token by token, and what stands there where it ends.
 * @param {Map<number, import("./replay.js").Node>} tree
 * @param {number[]} ids
 * @returns {{same: number, others: number[]}} `others`: the tokens that the tree has at position `same`
 */
export function agreement(tree, ids) {
  let same = 0;
  let others = [];
  const found = (at, token) => {
    if (at > same) others = [];
    same = Math.max(same, at);
    if (at === same && token !== undefined && !others.includes(token)) others.push(token);
  };
  const walk = (id, depth) => {
    for (const child of tree.get(id).children) {
      const { key } = tree.get(child);
      let n = 0;
      while (n < key.length && depth + n < ids.length && key[n] === ids[depth + n]) n++;
      if (n === key.length) {
        found(depth + n);
        walk(child, depth + n);
      } else found(depth + n, key[n]);
    }
  };
  walk(0, 0);
  return { same, others };
}

/**
 * How many tokens of a prompt the rules let match: whole pages that agree, never the last token.
 * @param {number} same tokens that agree
 * @param {number} length of the prompt
 * @param {number} P
 * @returns {{hit: number, why: "last"|"end"|"most"|"border"|"token"}} "most": with more that agrees it would be no longer
 */
export function hitOf(same, length, P) {
  const [agree, may] = [downTo(same, P), downTo(length - 1, P)];
  if (agree > may) return { hit: may, why: "last" };
  if (same === length) return { hit: agree, why: "end" };
  if (agree === may) return { hit: may, why: "most" };
  return { hit: agree, why: same > agree ? "border" : "token" };
}

/** What a running request may still ask for, in tokens of whole pages. The last token is never written. */
export function stillNeeded(req, P) {
  return Math.max(0, upTo(req.max_device_len - 1, P) - upTo(req.cached_len, P));
}

/** @param {Map<number, import("./replay.js").Node>} tree */
export function evictableTokens(tree) {
  let sum = 0;
  for (const node of tree.values()) if (node.ref === 0) sum += node.key.length;
  return sum;
}

/** Evictable tokens on the path that a prompt's first `hit` tokens take. */
export function pathTokens(tree, ids, hit) {
  let sum = 0;
  let id = 0;
  for (let depth = 0; depth < hit; ) {
    const next = tree.get(id).children.map((child) => tree.get(child)).find((node) => node.key.every((token, i) => depth + i < hit && token === ids[depth + i]));
    if (!next) break;
    if (next.ref === 0) sum += next.key.length;
    depth += next.key.length;
    id = next.id;
  }
  return sum;
}

/**
 * The leaves that least recent use takes until `size` tokens are gone: what the rule says.
 * @param {Map<number, import("./replay.js").Node>} tree
 * @param {number} size
 * @returns {number[]} node ids in order
 */
export function leastRecent(tree, size) {
  const children = new Map([...tree.values()].map((node) => [node.id, node.children.length]));
  const leaves = [...tree.values()].filter((node) => node.id && node.ref === 0 && !node.children.length);
  const order = [];
  for (let gone = 0; gone < size && leaves.length; ) {
    leaves.sort((a, b) => a.time - b.time || a.id - b.id);
    const node = leaves.shift();
    order.push(node.id);
    gone += node.key.length;
    children.set(node.parent, children.get(node.parent) - 1);
    const parent = tree.get(node.parent);
    if (parent.id && parent.ref === 0 && children.get(parent.id) === 0) leaves.push(parent);
  }
  return order;
}

/** Requests whose handle runs through a node. @param {import("./replay.js").State} state @param {number} id */
export function holdersOf(state, id) {
  const holders = [];
  for (const req of state.reqs.values()) {
    if (req.row === null) continue;
    for (let at = req.node; at !== null && at !== undefined && at !== 0; at = state.tree.get(at)?.parent) if (at === id) holders.push(req.uid);
  }
  return holders;
}

/**
 * For each request of the batch that is being made: the pages it has and needs.
 * @param {any} trace
 * @param {number} index a frame "allocate" or "prepare"
 * @param {import("./replay.js").State} state before or after it: it changes no lengths
 * @returns {{uid: number, from: number, to: number, first: number, last: number, starts: number[]}[]} null: the record differs
 */
export function pagesTaken(trace, index, state) {
  const P = trace.meta.page_size;
  const { turn } = trace.frames[index];
  let at = index;
  while (at + 1 < trace.frames.length && trace.frames[at].phase !== "prepare" && trace.frames[at + 1].turn === turn) at++;
  const info = trace.frames[at].batch_info;
  if (!info) return null;
  let from = at;
  while (from > 0 && trace.frames[from - 1].turn === turn && trace.frames[from].phase !== "allocate") from--;
  const took = new Map((trace.frames[from].phase === "allocate" ? trace.frames[from].alloc : []).map((entry) => [entry[0], entry]));
  const out = [];
  for (const [i, uid] of info.uids.entries()) {
    if (uid < 0) continue;
    const [begin, end] = [info.cached[i], info.cached[i] + info.ext[i]];
    const [first, last] = [Math.ceil(begin / P), Math.ceil(end / P)];
    const entry = took.get(uid);
    if (entry ? entry[1] !== first || entry[2] !== last : last > first) return null;
    out.push({ uid, from: begin, to: end, first, last, starts: entry ? entry[3] : [] });
  }
  return out;
}
