// Blanks of a text: where they stand, and the words that the model would put there, the likeliest first.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make, percent } = regard;

  // The text as it is read; a blank shows its best word.
  function sentence(reading) {
    const marks = regard.marks(reading);
    const places = new Map(reading.blanks.map(({ place }, n) => [place, n]));
    const pieces = reading.source.map((piece, place) => {
      const n = places.get(place);
      if (n === undefined) return regard.piece(piece);
      return make("mark", { class: "blank", "data-marks": marks.said[n] }, make("bdi", { text: regard.plain(reading.said[n]) }), make("sub", { text: String(n + 1) }));
    });
    return make("p", { class: "prose blanks" }, ...pieces.flatMap((each) => [each, " "]));
  }

  function ranked(reading, { words }, n) {
    const said = reading.said[n];
    return make("section", { class: "blank", "aria-label": `Blank ${n + 1}` }, make("h3", { text: `Blank ${n + 1}` }),
      make("ol", { class: "chances", "aria-label": `Words for blank ${n + 1}` }, ...words.map(([word, p]) => make("li", { class: word === said ? "said" : null },
        make("bdi", { text: regard.plain(word, 40) }),
        make("span", { class: "chance", "aria-hidden": "true" }, make("span", { style: { width: `${(100 * p).toFixed(2)}%` } })),
        make("span", { class: "figure", text: percent(p) })))));
  }

  regard.blanks = (reading) => make("div", { "data-view": "blanks" },
    make("p", { class: "hint", text: "What the model would put in each blank, by all that stands around it; each blank by itself." }),
    sentence(reading), make("div", { class: "panels blanks" }, ...reading.blanks.map((blank, n) => ranked(reading, blank, n))));
})();
