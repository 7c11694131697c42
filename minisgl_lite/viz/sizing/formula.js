// How many tokens, and how many requests, a device holds. The twin of formula.py.

export const GIB = 2 ** 30;

const WHOLE_NUMBERS = [
  "layers", "kv_heads", "head_dim", "itemsize", "ranks", "page_size", "input_len", "output_len", "rows",
];

const divCeil = (/** @type {number} */ a, /** @type {number} */ b) => Math.floor((a + b - 1) / b);

/**
 * What is left of one device's memory when a rank's share of the weights lies in it.
 * @param {number} memoryGib @param {number} billions @param {number} itemsize @param {number} ranks
 */
export function freeBytes(memoryGib, billions, itemsize, ranks) {
  return Math.floor(memoryGib * GIB) - Math.floor((billions * 1e9 * itemsize) / ranks);
}

/**
 * The sizes of one rank's cache, and how many equal requests it admits at once; see formula.py.
 * @param {Record<string, number>} given
 * @returns {Record<string, number>}
 * @throws {RangeError} what is not allowed, in one line
 */
export function sizes(given) {
  for (const name of WHOLE_NUMBERS) {
    if (!(given[name] >= 1)) throw new RangeError(`${name} ${given[name]} is not allowed: 1 or more.`);
  }
  const { layers, kv_heads, head_dim, itemsize, ranks, page_size, free, memory_ratio, input_len, output_len, rows } = given;
  if (!(memory_ratio > 0 && memory_ratio <= 1)) {
    throw new RangeError(`memory_ratio ${memory_ratio} is not allowed: above 0, at most 1.`);
  }
  const heads = divCeil(kv_heads, ranks); // some are replicated, or filled up with empty ones
  const bytes_per_token = 2 * layers * heads * head_dim * itemsize;
  const bytes_per_page = bytes_per_token * page_size;
  const num_pages = Math.floor(Math.floor(free * memory_ratio) / bytes_per_page) - 1; // one is the dummy page
  if (num_pages < 1) throw new RangeError(`${free} bytes of free memory hold no page of ${bytes_per_page}.`);

  const written = input_len + output_len - 1; // the last token is sampled and never written
  const pages_per_request = divCeil(written, page_size);
  const need = divCeil(input_len + output_len, page_size);
  return {
    heads,
    bytes_per_token,
    bytes_per_page,
    num_pages,
    tokens: num_pages * page_size,
    pages_per_request,
    waste: pages_per_request * page_size - written,
    admitted: Math.min(admitted(num_pages, need, pages_per_request, output_len), rows),
  };
}

/** The last to come asks for `need` pages; each that runs has, or was promised, `pages`. */
function admitted(numPages, need, pages, outputLen) {
  if (outputLen === 1) return Math.floor(numPages / need);
  return numPages >= need ? 1 + Math.floor((numPages - need) / pages) : 0;
}
