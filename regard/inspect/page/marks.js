// Words that light up: a word under the pointer, or focused, is marked wherever it stands. Every
// element that shows one has its keys in `data-marks`; pictures listen.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  let [lit, held, watchers] = [[], null, []];

  // The word that each token belongs to, as a key: "s3" is the fourth of the input, "o0.3" of an output.
  const spread = (prefix, groups, count) => {
    const keys = Array.from({ length: count }, (_, n) => `${prefix}${n}`);
    groups?.forEach(([from, to], word) => keys.fill(`${prefix}${word}`, from, to));
    return keys;
  };

  // Keys of a reading's tokens. Runs that say the same share the keys of what they say (`twin`).
  regard.marks = (reading) => {
    if (reading.marks) return reading.marks;
    const aligned = reading.of.length > 0; // a tag belongs to the word that has it
    const source = spread("s", reading.source_words, reading.source.length);
    const said = aligned ? reading.said.map((_, n) => `s${n}`) : spread(`o${reading.twin ?? 0}.`, reading.said_words, reading.said.length);
    const read = reading.read.map((_, place) => (place ? said[place - 1] : ""));
    return (reading.marks = { source, said, read });
  };

  const same = (a, b) => a.length === b.length && a.every((key, n) => key === b[n]);

  function show() {
    document.querySelectorAll(".lit").forEach((element) => element.classList.remove("lit"));
    for (const key of lit) document.querySelectorAll(`[data-marks~="${key}"]`).forEach((element) => element.classList.add("lit"));
  }

  regard.lit = (key) => key !== "" && lit.includes(key);
  regard.held = () => held;

  regard.light = (keys) => {
    const next = keys.filter((key) => key);
    if (same(next, lit)) return;
    lit = next;
    show();
    watchers = watchers.filter(({ element }) => element.isConnected);
    for (const { run } of watchers) run(lit);
  };

  // No word is pointed at: the one that is held stays lit.
  regard.rest = () => regard.light(held ? held.split(" ") : []);

  regard.hold = (keys) => {
    held = keys === held ? null : keys;
    document.querySelectorAll("[data-marks][aria-pressed]").forEach((element) =>
      element.setAttribute("aria-pressed", String(element.dataset.marks === held)));
    regard.rest();
  };

  regard.watch = (element, run) => watchers.push({ element, run });

  const marked = (event) => event.target.closest?.("[data-marks]");
  const over = (event) => {
    if (event.target.closest?.("canvas.map")) return; // which says itself what is pointed at
    const at = marked(event);
    at ? regard.light(at.dataset.marks.split(" ")) : regard.rest();
  };
  document.addEventListener("pointerover", over);
  document.addEventListener("focusin", over);
  document.addEventListener("focusout", () => regard.rest());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && held) regard.hold(held);
  });
  // What is drawn later is lit as well.
  new MutationObserver(() => { if (lit.length) show(); }).observe(document.getElementById("views"), { childList: true, subtree: true });
})();
