// The menu "More": the step's table, copying, saving, speed.

import { button, copyText, el } from "./dom.js";
import { say } from "./words.js";

/**
 * @param {{tableButton: HTMLElement, sentence: () => string, announce: (words: string) => void, traces: () => any[],
 *   setSpeed: (speed: number) => void, more?: HTMLElement[]}} how
 */
export function createMenu({ tableButton, sentence, announce, traces, setSpeed, more = [] }) {
  const speeds = el("select", { class: "kvv-select", on: { change: () => setSpeed(Number(speeds.value)) } },
    [0.5, 1, 2, 4].map((n) => el("option", { value: n, text: `${n}×`, selected: n === 1 })));
  const copied = button(say("control.copy"), async () => {
    announce(say((await copyText(copied, sentence())) ? "control.copied" : "control.uncopied"));
  }, { cls: "kvv-small" });
  const details = el("details", { class: "kvv-menu" }, [
    el("summary", { class: "kvv-btn kvv-small", text: say("control.menu") }),
    el("div", { class: "kvv-menubox" }, [
      tableButton, copied, button(say("control.export"), save, { cls: "kvv-small" }), ...more,
      el("label", {}, [`${say("control.speed")} `, speeds]),
      el("p", { class: "kvv-note", text: say("control.keys") }),
      el("p", { class: "kvv-note", text: say("title.version", { version: traces()[0].meta.package ?? "?" }) }),
    ]),
  ]);
  /** Offer the traces as files. */
  function save() {
    traces().forEach((trace, i, all) => {
      const url = URL.createObjectURL(new Blob([JSON.stringify(trace)], { type: "application/json" }));
      el("a", { href: url, download: all.length > 1 ? `trace-${i + 1}.json` : "trace.json" }).click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
    });
  }
  details.querySelector(".kvv-menubox").addEventListener("click", (event) => {
    if (event.target.closest("button")) details.open = false;
  });
  details.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !details.open) return;
    details.open = false;
    details.querySelector("summary").focus();
    event.stopPropagation();
  });
  return details;
}
