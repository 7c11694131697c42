// The trace as text in a page: base64 of zlib's deflate of JSON.

import { problem } from "./replay.js";
import { unpack } from "./unpack.js";
import { say } from "./words.js";

/**
 * @param {string} text
 * @returns {Promise<any>} the trace
 * @throws {Error} with a sentence for the reader
 */
export async function decodeTrace(text) {
  let data;
  try {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    data = unpack(JSON.parse(await new Response(stream).text()));
  } catch (error) {
    throw new Error(say("error.decode", { text: error.message }));
  }
  const wrong = problem(data);
  if (wrong) throw new Error(say(wrong, { version: data?.version ?? "?" }));
  return data;
}
