// Text of tokens, made from their bytes. A byte tokenizer splits characters, so a token may hold only a part of one.
// The result is text to be shown as text: nothing here makes markup.

const strict = new TextDecoder("utf-8", { fatal: true });

/** Longest text of a token in a cell or a sentence, in characters as a reader counts them. */
export const TOKEN_CHARS = 12;

/** Bytes of a hex string. @param {string} hex @returns {Uint8Array} */
export function fromHex(hex) {
  const bytes = new Uint8Array(hex.length >> 1);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(hex.substr(2 * i, 2), 16);
  return bytes;
}

/** How many bytes the UTF-8 character that starts with `first` has; 0 when none starts so. */
function sequenceLength(first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  return first >= 0xf0 && first < 0xf5 ? 4 : 0;
}

/**
 * Cut bytes into whole characters and bytes that are none.
 * @param {Uint8Array} bytes
 * @returns {{text: string, from: number, to: number, whole: boolean}[]}
 */
export function characters(bytes) {
  const out = [];
  for (let i = 0; i < bytes.length; ) {
    const n = sequenceLength(bytes[i]);
    let text = "";
    if (n && i + n <= bytes.length) {
      try {
        text = strict.decode(bytes.subarray(i, i + n));
      } catch {
        text = "";
      }
    }
    // A byte order mark decodes to nothing; it is a character all the same.
    if (!text && n === 3 && bytes[i] === 0xef && bytes[i + 1] === 0xbb && bytes[i + 2] === 0xbf) text = "\ufeff";
    const step = text ? n : 1;
    out.push({ text: text || `⟨${bytes[i].toString(16).toUpperCase().padStart(2, "0")}⟩`, from: i, to: i + step, whole: !!text });
    i += step;
  }
  return out;
}

// Characters that have no shape, or that would change the direction or order of the text around them.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]/gu;
const JOINERS = /[\u200c\u200d]/;

/**
 * Make what has no shape visible. In running text spaces and joiners stay as they are.
 * @param {string} text
 * @param {boolean} [running]
 */
export function visible(text, running = false) {
  const shown = text
    .replace(/\r?\n/g, "↵")
    .replace(/\t/g, "⇥")
    .replace(HIDDEN, (c) =>
      running && JOINERS.test(c) ? c : `⟨${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`,
    );
  if (running) return shown;
  // A mark that combines with nothing gets the circle that Unicode has for it.
  return shown.replace(/ /g, "␣").replace(/^\p{M}/u, (mark) => `◌${mark}`);
}

/** Characters as a reader counts them. @param {string} text @returns {string[]} */
export function graphemes(text) {
  if (typeof Intl !== "undefined" && Intl.Segmenter) {
    return Array.from(new Intl.Segmenter(undefined, { granularity: "grapheme" }).segment(text), (s) => s.segment);
  }
  return Array.from(text);
}

/** @param {string} text @param {number} [most] */
export function cut(text, most = TOKEN_CHARS) {
  if (text.length <= most) return text;
  const parts = graphemes(text);
  return parts.length <= most ? text : `${parts.slice(0, most - 1).join("")}…`;
}

/**
 * Texts of one trace's tokens.
 * @param {Object<string, string>} vocab token id → hex of its bytes
 * @param {number[]} [special] ids of tokens that stand for no text
 */
export function tokenTexts(vocab, special = []) {
  const specials = new Set(special);
  /** @type {Map<number, string>} */
  const known = new Map();
  /** Tokens that are whole characters, as they stand in running text; "" for others. @type {Map<number, string>} */
  const runs = new Map();

  /** The whole visible text of one token. @param {number} id */
  function whole(id) {
    let text = known.get(id);
    if (text === undefined) {
      const hex = vocab[id];
      if (hex === undefined) return `#${id}`; // not remembered: a live run may learn it later
      text = visible(characters(fromHex(hex)).map((c) => c.text).join(""));
      if (specials.has(id)) text = `◆${text}`;
      known.set(id, text);
    }
    return text;
  }

  /** A token's running text, if nothing before or after it can change it; else "". @param {number} id @param {string} hex */
  function alone(id, hex) {
    let text = runs.get(id);
    if (text === undefined) {
      const found = characters(fromHex(hex));
      text = found.length && found.every((c) => c.whole) ? visible(found.map((c) => c.text).join(""), true) : "";
      runs.set(id, text);
    }
    return text;
  }

  /**
   * Running text: pieces of consecutive tokens. Tokens that share a character make one piece.
   * @param {number[]} ids
   * @param {number} [first] position of ids[0]
   * @returns {{from: number, to: number, text: string, special: boolean}[]} half-open ranges of positions
   */
  function running(ids, first = 0) {
    const pieces = [];
    let group = { from: 0, bytes: [] };
    const flush = (to) => {
      if (to === group.from) return;
      const text = characters(Uint8Array.from(group.bytes)).map((c) => c.text).join("");
      pieces.push({ from: first + group.from, to: first + to, text: visible(text, true), special: false });
      group = { from: to, bytes: [] };
    };
    ids.forEach((id, i) => {
      const hex = vocab[id];
      if (hex === undefined || specials.has(id)) {
        flush(i);
        pieces.push({ from: first + i, to: first + i + 1, text: whole(id), special: specials.has(id) });
        group.from = i + 1;
        return;
      }
      const text = alone(id, hex);
      if (text) {
        flush(i);
        pieces.push({ from: first + i, to: first + i + 1, text, special: false });
        group.from = i + 1;
        return;
      }
      // A token starts a new piece unless the bytes before it end inside a character.
      const open = unfinished(group.bytes);
      const bytes = fromHex(hex);
      if (!(open && bytes.length && (bytes[0] & 0xc0) === 0x80)) flush(i);
      group.bytes.push(...bytes);
    });
    flush(ids.length);
    return pieces;
  }

  return { whole, short: (id) => cut(whole(id)), running, isSpecial: (id) => specials.has(id) };
}

/** Whether bytes end inside a UTF-8 character. @param {number[]} bytes */
function unfinished(bytes) {
  for (let back = 1; back <= 3 && back <= bytes.length; back++) {
    const byte = bytes[bytes.length - back];
    if ((byte & 0xc0) === 0x80) continue;
    return sequenceLength(byte) > back;
  }
  return false;
}

/** Isolate a text's direction inside a sentence, as <bdi> does in markup. @param {string} text */
export function isolate(text) {
  return `\u2068${text}\u2069`;
}
