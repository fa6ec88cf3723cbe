// What was said: how sure the model was of each word and token, and what else it might have said;
// for tags, which of them like to follow which.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const percent = (p) => (p > 0 && p < 0.0005 ? "< 0.1 %" : `${(100 * p).toFixed(1)} %`);

  // What a thing that is said is called.
  const what = (reading) => (reading.of.length ? "tag" : reading.read.length ? "token" : "label");

  function words(reading) {
    const { words, rows } = reading.tokens;
    return make("ol", { class: "words", "aria-label": "Words and their probabilities" }, ...words.map((word) => {
      const text = rows.slice(word.from, word.to).map((row) => row.piece).join("").replace(/^▁/, "") || "▁";
      const own = word.from < reading.given;
      const { ground, ink } = regard.colour("weight", word.p);
      return make("li", { style: { background: ground, color: ink } },
        reading.of.length ? make("small", null, make("bdi", { text: regard.label(reading.of[word.from], 24) })) : null,
        regard.piece(text), make("small", { text: percent(word.p) + (own ? " (given)" : "") }));
    }));
  }

  function tokenTable(reading) {
    const head = ["#", ...(reading.of.length ? ["word"] : []), what(reading), "probability", "", "rank", "entropy (nats)", "nearest alternatives"];
    const body = reading.tokens.rows.map((row, n) => make("tr", null,
      make("td", { class: "number", text: n }),
      reading.of.length ? make("td", null, regard.piece(reading.of[n])) : null,
      make("th", { scope: "row" }, regard.piece(row.piece), n < reading.given ? " (given)" : null),
      make("td", { class: "number", text: percent(row.p) }),
      make("td", null, regard.meter(row.p)),
      make("td", { class: "number", text: row.rank }),
      make("td", { class: "number", text: regard.number(row.entropy, 2) }),
      make("td", null, make("span", { class: "alternatives" }, ...row.alternatives.map(([piece, p]) =>
        make("span", null, regard.piece(piece), ` ${percent(p)}`))))));
    return regard.region("Tokens and alternatives", make("table", null,
      make("thead", null, make("tr", null, ...head.map((text, n) =>
        text ? make("th", { scope: "col", text }) : make("td", { "aria-hidden": "true" })))),
      make("tbody", null, ...body)));
  }

  // Every label of every place, where there are not too many of them.
  function chances(reading) {
    const { names, chances: reference } = reading.tokens;
    const element = make("div", null, make("h3", { text: `Every ${what(reading)}` }));
    regard.matrix(reference).then((matrix) => requestAnimationFrame(() => element.append(regard.heatmap(matrix, {
      title: `Probability of every ${what(reading)}`, rows: reading.of.length ? reading.of : reading.said, columns: names,
      room: element.clientWidth || 700, xName: what(reading), yName: reading.of.length ? "word" : "said", valueName: "probability" }))));
    return element;
  }

  regard.transitions = (reading) => {
    const { before, after, values } = reading.transitions;
    const element = make("div", null, make("p", { class: "hint",
      text: "How well a tag (across) likes to stand after another (down), whatever the words are. Orange: gladly; blue: hardly." }));
    regard.matrix(values).then((matrix) => requestAnimationFrame(() => element.append(regard.heatmap(matrix, {
      title: "Transitions from tag to tag", rows: before, columns: after, room: element.clientWidth || 700,
      xName: "tag", yName: "the tag before", valueName: "score" }))));
    return element;
  };

  regard.output = (reading) => {
    const said = reading.tokens.rows.length;
    const name = what(reading);
    return make("div", null,
      make("p", null, "Input: ", regard.make("bdi", { text: regard.label(reading.text, 2000) })),
      make("p", null, "Output: ", make("strong", null, regard.make("bdi", { text: regard.label(reading.output, 2000) }))),
      make("h3", { text: `How sure of each ${name === "token" ? "word" : name}` }),
      name === "token" ? make("p", { class: "hint", text: "The probability of a word is the product of those of its tokens, given all that came before." }) : null,
      words(reading), regard.legend("weight", 1, "probability"),
      make("h3", { text: `How sure of each ${name}, and its alternatives` }),
      make("p", { class: "hint", text: `${name === "token" ? `All ${said} together: log p = ${regard.number(reading.tokens.total, 3)}. ` : ""}Rank 1: nothing else was more likely.` }),
      tokenTable(reading), reading.tokens.chances ? chances(reading) : null);
  };
})();
