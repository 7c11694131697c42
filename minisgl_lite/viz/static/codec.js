// The trace as text in a page: base64 of zlib's deflate of JSON; or a grid of traces that share what they can.

import { problem } from "./replay.js";
import { unpack } from "./unpack.js";
import { numberToPlace, placeToNumber } from "./variants.js";
import { say } from "./words.js";

const GRID = { format: "minisgl-lite-variants", version: 1 };
const TRACE = { format: "minisgl-lite-trace", version: 2 };

/** @param {string} text @returns {Promise<any>} */
async function inflate(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

/**
 * @param {string} text
 * @returns {Promise<{trace: any, grid: import("./variants.js").Grid|null}>} of a grid, its first trace
 * @throws {Error} with a sentence for the reader
 */
export async function decodeTrace(text) {
  try {
    const data = await inflate(text);
    if (data?.format !== GRID.format) return { trace: checked(unpack(data)), grid: null };
    if (data.version !== GRID.version) throw new Told(say("error.version", { version: data.version }));
    const grid = openGrid(data);
    return { trace: grid.trace(grid.axes.map(() => 0)), grid };
  } catch (error) {
    throw error instanceof Told ? error : new Error(say("error.decode", { text: error.message }));
  }
}

/** An error whose words are for the reader. */
class Told extends Error {}

function checked(data) {
  const wrong = problem(data);
  if (wrong) throw new Told(say(wrong, { version: data?.version ?? "?" }));
  return data;
}

/** A grid whose runs are unpacked when they are asked for. @param {any} data @returns {import("./variants.js").Grid} */
export function openGrid({ axes, meta, vocabs, runs }) {
  const sizes = axes.map(([, values]) => values.length);
  const open = new Map();
  return {
    axes: axes.map(([name, values]) => ({ name, values })),
    trace(place) {
      const number = placeToNumber(sizes, place);
      if (!open.has(number)) {
        const [digest, own, vocab, packed] = runs[number];
        open.set(number, checked(unpack({ ...TRACE, digest, meta: { ...meta, ...own }, vocab: vocabs[vocab], packed })));
      }
      return open.get(number);
    },
    find(digest) {
      const number = runs.findIndex(([own]) => digest && own.startsWith(digest));
      return number < 0 ? null : numberToPlace(sizes, number);
    },
  };
}
