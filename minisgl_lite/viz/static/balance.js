// Balance: free + tree + in flight is the whole pool, in every frame.

import { el, setAttr, setHidden, setText, button } from "./dom.js";
import { balance } from "./replay.js";
import { say, number } from "./words.js";

/** @param {any} app */
export function balancePanel(app) {
  const parts = ["free", "tree", "own", "lost"].map((name) => el("span", { class: `kvv-part kvv-part-${name}`, title: say(`balance.${name}`) }));
  const bar = el("div", { class: "kvv-balance", "aria-hidden": "true" }, parts);
  const words = el("p", { class: "kvv-sum" });
  const fault = el("p", { class: "kvv-bad", hidden: true });
  return {
    name: "balance",
    body: el("div", {}, [bar, words, fault]),
    head: [],
    layout() {},
    update(view) {
      const b = balance(view.slots, view.state.N * view.state.P);
      parts.forEach((part, i) => {
        const n = [b.free, b.tree, b.own, b.lost][i];
        setAttr(part, "style", `flex-grow:${n}${n ? "" : ";display:none"}`);
        setText(part, number(n));
      });
      const values = Object.fromEntries(Object.entries(b).map(([k, v]) => [k, number(Number(v))]));
      setText(words, say(b.holds ? "balance.ok" : "balance.bad", { ...values, dummy: number(view.state.P) }));
      setAttr(words, "class", b.holds ? "kvv-sum" : "kvv-sum kvv-bad");
      const at = view.run.fault;
      setHidden(fault, at < 0);
      if (at >= 0 && !fault.childElementCount) {
        fault.append(`${say("balance.sanitizer", { turn: view.trace.frames[at].turn })} `, button(say("balance.go"), () => app.go(at)));
      }
    },
    link() {},
  };
}
