// The host's theme, light or dark, and its colours as numbers for the canvases.

/** Whether the page is dark, by what each host says. @returns {boolean} */
export function hostIsDark(doc = document) {
  const html = doc.documentElement;
  const body = doc.body;
  const book = html.dataset.theme; // the book
  if (book === "dark" || book === "light") return book === "dark";
  const lab = body?.dataset.jpThemeLight; // JupyterLab and Notebook 7
  if (lab === "true" || lab === "false") return lab === "false";
  const classes = body?.classList; // VS Code
  if (classes?.contains("vscode-dark") || classes?.contains("vscode-high-contrast")) return true;
  if (classes?.contains("vscode-light") || classes?.contains("vscode-high-contrast-light")) return false;
  const colab = html.getAttribute("theme");
  if (colab === "dark" || colab === "light") return colab === "dark";
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** "#1d4ed8" → the number that an ImageData holds for it on a little-endian machine. @param {string} hex */
export function toPixel(hex) {
  const n = parseInt(hex.slice(1), 16);
  return ((255 << 24) | ((n & 255) << 16) | (n & 0xff00) | (n >> 16)) >>> 0;
}

/** A colour between two. @param {string} a @param {string} b @param {number} t 0: a, 1: b */
export function mix(a, b, t) {
  const [x, y] = [parseInt(a.slice(1), 16), parseInt(b.slice(1), 16)];
  const part = (shift) => Math.round(((x >> shift) & 255) * (1 - t) + ((y >> shift) & 255) * t);
  return `#${((part(16) << 16) | (part(8) << 8) | part(0)).toString(16).padStart(6, "0")}`;
}

const COLOUR_NAMES = ["ground", "ink", "dim", "line", "faint", "on", "bad", "diff", "h0", "h1", "h2", "h3", "h4", "h5", "h6"];

/**
 * Colours of the root's theme: `css` by name, `px` as pixels, and each hue's tint.
 * @param {HTMLElement} root
 */
export function readColours(root) {
  const style = getComputedStyle(root);
  /** @type {Object<string, string>} */
  const css = {};
  for (const name of COLOUR_NAMES) css[name] = style.getPropertyValue(`--kvv-${name}`).trim() || "#777777";
  for (let h = 0; h <= 6; h++) css[`t${h}`] = mix(css.ground, css[`h${h}`], 0.22);
  css.shared = mix(css.ground, css.ink, 0.14);
  /** @type {Object<string, number>} */
  const px = {};
  for (const name in css) px[name] = toPixel(css[name]);
  return { css, px, font: style.getPropertyValue("--kvv-mono").trim() || "monospace" };
}

/** @typedef {ReturnType<typeof readColours>} Colours */

/**
 * Follow the host's theme.
 * @param {HTMLElement} root gets data-kvv-theme
 * @param {() => void} changed
 * @returns {() => void} stops following
 */
export function followTheme(root, changed) {
  const set = () => {
    const theme = hostIsDark() ? "dark" : "light";
    if (root.dataset.kvvTheme === theme) return;
    root.dataset.kvvTheme = theme;
    changed();
  };
  const observer = new MutationObserver(set);
  const watched = { attributes: true, attributeFilter: ["data-theme", "data-mode", "theme", "class", "data-jp-theme-light"] };
  observer.observe(document.documentElement, watched);
  if (document.body) observer.observe(document.body, watched);
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", set);
  set();
  return () => {
    observer.disconnect();
    media.removeEventListener("change", set);
  };
}
