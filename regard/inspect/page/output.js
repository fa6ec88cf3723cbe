// What was said: how sure the model was of each word and symbol, and what else it might have said.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const percent = (p) => (p > 0 && p < 0.0005 ? "< 0.1 %" : `${(100 * p).toFixed(1)} %`);

  function words(reading) {
    const { words, rows } = reading.tokens;
    return make("ol", { class: "words", "aria-label": "Words and their probabilities" }, ...words.map((word) => {
      const text = rows.slice(word.from, word.to).map((row) => row.piece).join("").replace(/^▁/, "") || "▁";
      const own = word.from < reading.given;
      const { ground, ink } = regard.colour("weight", word.p);
      return make("li", { style: { background: ground, color: ink } },
        regard.piece(text), make("small", { text: percent(word.p) + (own ? " (given)" : "") }));
    }));
  }

  function symbols(reading) {
    const head = ["#", "symbol", "probability", "", "rank", "entropy (nats)", "nearest rivals"];
    const body = reading.tokens.rows.map((row, n) => make("tr", null,
      make("td", { class: "number", text: n }),
      make("th", { scope: "row" }, regard.piece(row.piece), n < reading.given ? " (given)" : null),
      make("td", { class: "number", text: percent(row.p) }),
      make("td", null, regard.meter(row.p)),
      make("td", { class: "number", text: row.rank }),
      make("td", { class: "number", text: regard.number(row.entropy, 2) }),
      make("td", null, make("span", { class: "rivals" }, ...row.rivals.map(([piece, p]) =>
        make("span", null, regard.piece(piece), ` ${percent(p)}`))))));
    return regard.region("Symbols and rivals", make("table", null,
      make("thead", null, make("tr", null, ...head.map((text, n) =>
        text ? make("th", { scope: "col", text }) : make("td", { "aria-hidden": n === 3 ? "true" : null })))),
      make("tbody", null, ...body)));
  }

  regard.output = (reading) => {
    const said = reading.tokens.rows.length;
    return make("div", null,
      make("p", null, "Input: ", regard.make("bdi", { text: regard.label(reading.text, 2000) })),
      make("p", null, "Output: ", make("strong", null, regard.make("bdi", { text: regard.label(reading.output, 2000) }))),
      make("h3", { text: "How sure of each word" }),
      make("p", { class: "hint", text: "The probability of a word is the product of those of its symbols, given all that came before." }),
      words(reading), regard.legend("weight", 1, "probability"),
      make("h3", { text: "How sure of each symbol, and its rivals" }),
      make("p", { class: "hint", text: `All ${said} together: log p = ${regard.number(reading.tokens.total, 3)}. Rank 1: nothing else was more likely.` }),
      symbols(reading));
  };
})();
