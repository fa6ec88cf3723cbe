// What was said: how sure the model was of each word and token, and what else it might have said;
// for tags, which of them like to follow which.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make, percent } = regard;

  // What a thing that is said is called.
  const what = (reading) => reading.what || (reading.of.length ? "tag" : reading.read.length ? "token" : "label");

  function words(reading) {
    const { words, rows } = reading.tokens;
    const marks = regard.marks(reading);
    return make("ol", { class: "words", "aria-label": "Words and their probabilities" }, ...words.map((word) => {
      const text = rows.slice(word.from, word.to).map((row) => row.piece).join("");
      const { ground, ink } = regard.colour("weight", word.p);
      return make("li", { style: { background: ground, color: ink }, "data-marks": marks.said[word.from] },
        reading.of.length ? make("bdi", { text: regard.plain(reading.of[word.from], 24) }) : make("bdi", { text: regard.plain(text) }),
        reading.of.length ? make("small", null, make("bdi", { text: regard.plain(text) })) : null,
        make("small", { text: percent(word.p) + (word.from < reading.given ? " (given)" : "") }));
    }));
  }

  // Every label as a bar, the likeliest first.
  function bars(reading) {
    const { names, chances, rows } = reading.tokens;
    const element = make("ol", { class: "chances", "aria-label": "Probability of each label" });
    const fill = (found) => {
      const most = Math.max(...found.map(([, p]) => p), 1e-9);
      element.replaceChildren(...found.sort((a, b) => b[1] - a[1]).map(([name, p]) => {
        const said = reading.said.includes(name);
        return make("li", { class: said ? "said" : null, "data-marks": said ? regard.marks(reading).said[reading.said.indexOf(name)] : null },
          make("bdi", { text: regard.plain(name, 60) }), make("span", { class: "chance", "aria-hidden": "true" }, make("span", { style: { width: `${((100 * p) / Math.max(most, 1)).toFixed(2)}%` } })),
          make("span", { class: "figure", text: percent(p) }));
      }));
    };
    if (!chances) fill([[rows[0].piece, rows[0].p], ...rows[0].alternatives]);
    else regard.matrix(chances).then((matrix) => {
      // Weights travel as one byte; what was said is known exactly.
      const exact = new Map([...rows[0].alternatives, ...rows.map((row) => [row.piece, row.p])]);
      fill(names.map((name, n) => [name, exact.get(name) ?? matrix.at(0, n)]));
    });
    return element;
  }

  function tokenTable(reading) {
    const of = reading.of.length > 0;
    const marks = regard.marks(reading);
    const head = ["#", ...(of ? ["word"] : []), what(reading), "probability", "", "rank", "entropy (nats)", "nearest alternatives"];
    const number = (text) => ({ attributes: { class: "number" }, children: [text] });
    const rows = reading.tokens.rows.map((row, n) => ({ marks: marks.said[n], cells: [
      number(String(n)), ...(of ? [regard.piece(reading.of[n])] : []),
      { children: [regard.piece(row.piece), n < reading.given ? " (given)" : ""] }, number(percent(row.p)),
      { attributes: { class: "metered" }, children: [regard.meter(row.p)] }, number(String(row.rank)), number(regard.number(row.entropy, 2)),
      make("span", { class: "alternatives" }, ...row.alternatives.map(([piece, p]) => make("span", null, regard.piece(piece), ` ${percent(p)}`)))] }));
    return regard.table("Tokens and alternatives", head, rows, { key: 1, need: 720 });
  }

  // Every label of every place, where there are not too many of them.
  function chances(reading) {
    const { names, chances: reference } = reading.tokens;
    const element = make("div", null, make("h3", { text: `Every ${what(reading)}` }));
    regard.matrix(reference).then((matrix) => element.append(regard.heatmap(matrix, {
      title: `Probability of every ${what(reading)}`, rows: reading.of, columns: names, rowMarks: regard.marks(reading).said,
      xName: what(reading), yName: "word", valueName: "probability" })));
    return element;
  }

  regard.transitions = (reading) => {
    const { before, after, values } = reading.transitions;
    const element = make("div", null, make("p", { class: "hint",
      text: "How well a tag (across) fits after another (down), whatever the words are. Orange: well; blue: badly." }));
    regard.matrix(values).then((matrix) => element.append(regard.heatmap(matrix, {
      title: "Transitions from tag to tag", rows: before, columns: after, xName: "tag", yName: "the tag before", valueName: "score" })));
    return element;
  };

  regard.similarities = (reading) => {
    const { rows, columns, values } = reading.similarities;
    const element = make("div", null, make("p", { class: "hint",
      text: "How much alike what is read (down: the input, then some of the validation part) and what may belong to it (across) are: the cosine of their vectors. From the second row on, what belongs together stands on the diagonal." }));
    regard.matrix(values).then((matrix) => element.append(regard.heatmap(matrix, {
      title: "Similarities", rows, columns, xName: "target", yName: "source", valueName: "cosine" })));
    return element;
  };

  function sure(reading) {
    const name = what(reading);
    if (name === "label") return [make("h3", { text: "How likely each label is" }), bars(reading)];
    const spans = regard.entities(reading);
    return [
      spans ? make("h3", { text: `${spans.length} ${spans.length === 1 ? "entity" : "entities"}` }) : null,
      spans ? make("div", { class: "prose" }, regard.tagged(reading)) : null,
      make("h3", { text: `How sure of each ${name === "token" ? "word" : name}` }),
      name === "token" ? make("p", { class: "hint", text: "The probability of a word is the product of those of its tokens, given all that came before." }) : null,
      words(reading), regard.legend("weight", 1, "probability")];
  }

  regard.output = (reading) => {
    const name = what(reading);
    const all = name === "token" ? `All ${reading.tokens.rows.length} together: log p = ${regard.number(reading.tokens.total, 3)}. ` : "";
    // Bars of every label say all that a table would.
    if (name === "label" && reading.tokens.chances) return make("div", null, regard.findings(reading), ...sure(reading));
    return make("div", null, regard.findings(reading), ...sure(reading),
      make("h3", { text: `How sure of each ${name}, and its alternatives` }),
      make("p", { class: "hint", text: `${all}Rank 1: nothing else was more likely.` }),
      tokenTable(reading), reading.tokens.chances && name === "tag" ? chances(reading) : null);
  };
})();
