// Text of tokens: whatever bytes a tokenizer makes, what is shown is text, in order, and not longer than its place.
import assert from "node:assert/strict";
import { test } from "node:test";
import { characters, cut, fromHex, isolate, tokenTexts, visible } from "../../minisgl_lite/viz/static/tokens.js";

const hex = (text) => Buffer.from(text, "utf8").toString("hex");
const texts = (...tokens) => tokenTexts(Object.fromEntries(tokens.map((token, id) => [id, token])), []);

test("a space, a newline and a tab are visible", () => {
  const t = texts(hex(" cat"), hex("\n"), hex("a\tb"), hex("\r\n"));
  assert.equal(t.whole(0), "␣cat");
  assert.equal(t.whole(1), "↵");
  assert.equal(t.whole(2), "a⇥b");
  assert.equal(t.whole(3), "↵");
});

test("CJK that is split into bytes: parts in the cells, joined in running text", () => {
  // 日 is e6 97 a5: two tokens here.
  const t = texts(hex("on "), "e6", "97a5", hex("本"));
  assert.equal(t.whole(1), "⟨E6⟩");
  assert.equal(t.whole(2), "⟨97⟩⟨A5⟩");
  assert.deepEqual(t.running([0, 1, 2, 3]), [
    { from: 0, to: 1, text: "on ", special: false },
    { from: 1, to: 3, text: "日", special: false },
    { from: 3, to: 4, text: "本", special: false },
  ]);
});

test("emoji that is split four ways is joined; positions start where they are told to", () => {
  const t = texts("f0", "9f", "8e", "89", hex("!"));
  assert.deepEqual(t.running([0, 1, 2, 3, 4], 20), [
    { from: 20, to: 24, text: "🎉", special: false },
    { from: 24, to: 25, text: "!", special: false },
  ]);
});

test("a character that is never finished shows its bytes, and what follows is whole", () => {
  const t = texts("e6", hex("a"));
  assert.deepEqual(t.running([0, 1]).map((piece) => piece.text), ["⟨E6⟩", "a"]);
  assert.deepEqual(t.running([0]).map((piece) => piece.text), ["⟨E6⟩"]);
});

test("bytes that are no UTF-8 are shown one by one", () => {
  assert.deepEqual(characters(fromHex("ffc041")).map((c) => c.text), ["⟨FF⟩", "⟨C0⟩", "A"]);
  assert.deepEqual(characters(fromHex("eda080")).map((c) => c.text), ["⟨ED⟩", "⟨A0⟩", "⟨80⟩"]); // a lone surrogate
});

test("a combining mark alone stands on a circle; after its letter it stays with it", () => {
  const t = texts(hex("\u0301"), hex("e\u0301"));
  assert.equal(t.whole(0), "◌\u0301");
  assert.equal(t.whole(1), "e\u0301");
});

test("Arabic keeps its letters, marks that turn the direction show themselves", () => {
  assert.equal(visible("مرحبا"), "مرحبا");
  assert.equal(visible("a\u202eb"), "a⟨202E⟩b");
  assert.equal(visible("\u2066x\u2069", true), "⟨2066⟩x⟨2069⟩");
  assert.equal(visible("\u0000\u001b"), "⟨0000⟩⟨001B⟩");
});

test("joiners stay in running text, where they shape letters and emoji", () => {
  assert.equal(visible("👩\u200d💻", true), "👩\u200d💻");
  assert.equal(visible("\u200d"), "⟨200D⟩");
});

test("markup is text like any other", () => {
  const t = texts(hex("<script>alert(1)</script>"), hex("&amp;"));
  assert.equal(t.whole(0), "<script>alert(1)</script>");
  assert.equal(t.whole(1), "&amp;");
  assert.equal(t.short(0), "<script>ale…");
});

test("long tokens are cut to 12 characters as a reader counts them", () => {
  assert.equal(cut("abcdefghijkl"), "abcdefghijkl");
  assert.equal(cut("abcdefghijklm"), "abcdefghijk…");
  const family = "👨‍👩‍👧";
  assert.equal(cut(family.repeat(12)), family.repeat(12));
  assert.equal(cut(family.repeat(13)), `${family.repeat(11)}…`);
});

test("special tokens are marked; unknown ones show their number", () => {
  const t = tokenTexts({ 1: hex("<|im_end|>"), 2: hex("a") }, [1]);
  assert.equal(t.whole(1), "◆<|im_end|>");
  assert.equal(t.whole(77), "#77");
  assert.deepEqual(t.running([2, 1, 77]).map((piece) => [piece.text, piece.special]), [["a", false], ["◆<|im_end|>", true], ["#77", false]]);
});

test("a token that is learnt later is shown then", () => {
  const vocab = {};
  const t = tokenTexts(vocab);
  assert.equal(t.whole(5), "#5");
  vocab[5] = hex("five");
  assert.equal(t.whole(5), "five");
});

test("a token in a sentence keeps its direction to itself", () => {
  assert.equal(isolate("مرحبا"), "\u2068مرحبا\u2069");
});
