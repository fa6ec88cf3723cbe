// What stands out, in sentences, each with a link to the view that shows it.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const quoted = (piece, marks, longest = 80) => make("q", { "data-marks": marks || null }, make("bdi", { text: regard.plain(piece, longest) }));
  const nats = (value) => `${regard.number(value, Math.abs(value) < 0.1 ? 3 : 2)} ${"nats"}`;
  const most = (items, by) => items.reduce((best, item) => (best === null || by(item) > by(best) ? item : best), null);

  const link = (text, view, choose = () => {}) => make("a", { href: `#${view}`, text, onclick: (event) => {
    event.preventDefault();
    choose();
    regard.open(view, true);
  } });

  // The head that this text can least do without.
  function ablation(reading) {
    const found = reading.ablation;
    const worst = most(found?.heads ?? [], (head) => head.cost);
    if (!worst || !(worst.cost > 0)) return null;
    const name = `head ${worst.kind}.${worst.layer}.${worst.head}`;
    const go = link(name, "attention", () => regard.chooseHead(worst.kind, worst.layer, worst.head));
    if (reading.numbers) return ["Of all ", `${found.heads.length} heads, `, go, ` changes the forecast most when switched off: by ${regard.number(worst.cost, 3)} on average.`];
    return [`Of all ${found.heads.length} heads, `, go, ` costs most when switched off: `, make("strong", { text: nats(worst.cost) }),
      ` (−log p of this output rises from ${regard.number(found.nll, 2)} to ${regard.number(found.nll + worst.cost, 2)}).`];
  }

  function survey(reading) {
    const found = reading.heads;
    const worst = most(found?.heads ?? [], (head) => head.cost);
    if (!worst || !(worst.cost > 0)) return null;
    return [`Over ${found.sentences.toLocaleString("en")} sentences, `, link(`head ${worst.kind}.${worst.layer}.${worst.head}`, "heads"),
      ` costs most when switched off: ${nats(worst.cost)} for each output token.`];
  }

  function unsure(reading) {
    if (!reading.tokens || !(reading.of.length || reading.read.length)) return null;
    const { words, rows } = reading.tokens;
    const own = words.filter((word) => word.from >= reading.given);
    const least = most(own.length ? own : words, (word) => -word.p);
    if (!least) return null;
    const text = rows.slice(least.from, least.to).map((row) => row.piece).join("");
    const open = most(rows.slice(least.from, least.to), (row) => -row.p);
    const [other, p] = open.alternatives[0] ?? [];
    const key = regard.marks(reading).said[least.from];
    const subject = reading.of.length ? [quoted(text, key), " for ", quoted(reading.of[least.from], key)] : [quoted(text, key)];
    return ["The model is ", link("least sure", "tokens"), " of ", ...subject, ` (${regard.percent(least.p)})`,
      ...(other === undefined ? ["."] : [p > open.p ? "; it preferred " : "; the nearest alternative is ", quoted(other), ` (${regard.percent(p)}).`])];
  }

  function chosen(reading) {
    if (!reading.tokens || reading.of.length || reading.read.length) return null;
    const [row] = reading.tokens.rows;
    const [other, p] = row.alternatives[0] ?? [];
    return ["The label is ", quoted(row.piece), `, with a probability of ${regard.percent(row.p)}`, ...(other === undefined ? ["."] : ["; next comes ", quoted(other), ` (${regard.percent(p)}).`])];
  }

  function beam(reading) {
    const ends = (reading.beam ?? []).map((node, n) => ({ ...node, n })).filter((node) => node.fate === "finished" || node.fate === "best");
    const best = ends.find((node) => node.best && node.fate === "best") ?? ends.find((node) => node.best);
    const second = most(ends.filter((node) => node !== best), (node) => node.score);
    if (!best || !second) return null;
    const text = [];
    for (let at = second.n; at >= 0; at = reading.beam[at].parent) text.unshift(reading.beam[at].piece);
    return ["In the ", link("beam search", "beam"), " the runner-up was ", quoted(regard.spelt(text)), `, ${regard.number(best.score - second.score, 3)} behind in score.`];
  }

  function lens(reading) {
    const layers = reading.lens?.layers;
    if (!layers || layers.length < 3) return null;
    const right = layers.map((layer) => layer.best.filter(([best], place) => best[0] === reading.said[place]).length);
    const count = reading.said.length;
    const at = right.findIndex((n) => n >= 0.8 * count);
    if (at < 0 || at === layers.length - 1) return null;
    return ["After ", link(layers[at].layer, "lens"), ` (the last is ${layers.at(-1).layer}), ${right[at]} of ${count} tokens are already those of the output.`];
  }

  // What was read that did most for what was said: known when its numbers are unpacked.
  async function attribution(reading) {
    if (!reading.attribution || reading.numbers) return null;
    const [matrix, marks] = [await regard.matrix(reading.attribution.values), regard.marks(reading)];
    const inputs = [...reading.source, ...reading.read];
    const keys = [...marks.source, ...marks.read];
    let top = null;
    for (let row = 0; row < matrix.rows; row++) {
      for (let column = 0; column < reading.source.length || (column < inputs.length && !reading.source.length); column++) {
        const place = reading.attribution.places[row];
        const self = reading.of.length && keys[column] === marks.said[place];
        if (/^<\w+>$/.test(inputs[column]) || /^<\w+>$/.test(reading.said[place]) || place < reading.given && !reading.source.length || self) continue;
        const value = matrix.at(row, column);
        if (!top || value > top.value) top = { value, column, place };
      }
    }
    if (!top || top.value <= 0) return null;
    const of = reading.of.length ? [" of ", quoted(reading.of[top.place], marks.said[top.place])] : [];
    return [quoted(inputs[top.column], keys[top.column]), " ", link("contributes most", "attribution"), " to ", quoted(reading.said[top.place], marks.said[top.place]), ...of, `: ${nats(top.value)}.`];
  }

  // How far a forecast goes, and how much of what came lies in its interval.
  function forecast(reading) {
    const panel = reading.numbers?.at(-1);
    if (!panel || reading.of.length) return null;
    const [first, last] = [panel.mean[0], panel.mean.at(-1)].map((value) => regard.number(value, 2));
    const come = reading.numbers.flatMap(({ came = [], low, high }) => came.map((value, n) => value >= low[n] && value <= high[n]));
    const inside = come.filter((here) => here).length;
    return [quoted(panel.name), ` is expected to go from ${first} to ${last} in ${panel.mean.length} ${panel.mean.length === 1 ? "step" : "steps"}`,
      come.length ? `; ${inside} of ${come.length} values that came lie in the interval.` : "."];
  }

  function unknown(reading) {
    const there = reading.unknown ?? [];
    if (!there.length) return null;
    const pieces = there.map((n) => (reading.source.length ? reading.source : reading.said)[n]);
    return [`${there.length} ${there.length === 1 ? "token is" : "tokens are"} not in the vocabulary: `, ...pieces.slice(0, 5).flatMap((piece, n) => (n ? [", ", quoted(piece)] : [quoted(piece)])), pieces.length > 5 ? ", …" : "", "."];
  }

  // How the outputs of two or more runs differ.
  regard.compared = (readings, names) => {
    const [first, ...others] = readings.map((reading) => regard.plain(reading.output, 1e6));
    const sentences = others.map((other, n) => {
      if (other === first) return `${names[0]} and ${names[n + 1]} say the same.`;
      const [left, right] = [first, other].map((text) => text.split(/\s+/));
      const alike = left.filter((word, place) => word === right[place]).length;
      return `${names[0]} and ${names[n + 1]} differ: ${alike} of ${Math.max(left.length, right.length)} words are the same at the same place.`;
    });
    return make("p", { class: "compared", text: sentences.join(" ") });
  };

  regard.findings = (reading) => {
    const found = [ablation, survey, chosen, forecast, unsure, beam, lens, unknown].map((each) => each(reading)).filter((each) => each);
    const list = make("ul", null, ...found.map((parts) => make("li", null, ...parts)));
    attribution(reading).then((parts) => { if (parts) list.append(make("li", null, ...parts)); });
    return make("div", { class: "findings" }, make("h3", { text: "What stands out" }), list);
  };
})();
