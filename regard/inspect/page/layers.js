// Layer by layer: states and gates over the positions, gradients, and the logit lens.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const choice = regard.store({ layer: null, quantity: null, target: "all" });

  const unique = (list) => [...new Set(list)];
  const named = (layer) => layer.replace(/\.(block|layer)\.(\d+)/, ", layer $2").replaceAll(".", " ");

  // The keys of words at a view's positions; none where the positions are not the tokens themselves.
  const keysOf = (reading, layer, count) => {
    const keys = regard.marks(reading)[layer.startsWith("encoder") ? "source" : "read"];
    return keys.length === count ? keys : undefined;
  };

  // Gates are what one comes for, where there are any.
  const usual = (states) => (states.find((s) => s.quantity.endsWith("gate")) ??
    states.find((s) => /layer|block/.test(s.layer)) ?? states[0]).layer;

  function stateOf(states) {
    const layer = states.some((s) => s.layer === choice.value.layer) ? choice.value.layer : usual(states);
    const here = states.filter((s) => s.layer === layer);
    return { layer, here, shown: here.find((s) => s.quantity === choice.value.quantity) ?? here[0] };
  }

  regard.statesBar = (readings) => {
    const bar = make("div", { class: "bar" });
    const draw = () => {
      const states = readings.flatMap((reading) => reading.states ?? []);
      const { layer, here, shown } = stateOf(states);
      regard.controls(bar, () => [
        regard.dropdown("Layer", unique(states.map((s) => s.layer)).map((l) => [l, named(l)]), layer, (value) => choice.set({ layer: value })),
        regard.choice("Quantity", unique(here.map((s) => s.quantity)).map((q) => [q, q]), shown.quantity, (value) => choice.set({ layer, quantity: value }))]);
    };
    draw();
    choice.listen(bar, draw);
    return bar;
  };

  regard.states = (reading) => {
    const element = make("div");
    const draw = () => {
      const { layer, here, shown } = stateOf(reading.states);
      const { labels } = shown;
      const marks = keysOf(reading, layer, labels.length);
      const gates = here.filter((s) => s.quantity.endsWith("gate"));
      const holder = make("div");
      element.replaceChildren(
        make("p", { class: "hint", text: "What the model holds in its memory at each position: a row for each unit. Gates lie between 0 (shut) and 1 (open)." }),
        ...(gates.length ? [regard.chart({ title: `${named(layer)}: how far each gate is open, mean of all units`, labels, marks,
          lines: gates.map((s) => ({ name: s.quantity, values: s.means })), xName: "position", yName: "mean", range: [0, 1] })] : []),
        holder,
        regard.chart({ title: `${named(layer)}, ${shown.quantity}: length of the vector at each position`, labels, marks,
          lines: [{ name: shown.quantity, values: shown.norms }], xName: "position", yName: "norm", range: [0, Math.max(...shown.norms, 1e-9)] }));
      if (!shown.values) {
        holder.append(make("p", { class: "hint", text: "The text is too long to show every unit; the length of the vectors is below." }));
        return;
      }
      regard.matrix(shown.values).then((matrix) => holder.append(regard.heatmap(regard.transposed(matrix), {
        title: `${named(layer)}: ${shown.quantity}`, rows: null, columns: labels, columnMarks: marks,
        cell: 110, high: Math.max(3, Math.min(16, 440 / matrix.columns)), xName: "position", yName: "unit", valueName: "value" })));
    };
    draw();
    choice.listen(element, draw);
    return element;
  };

  regard.gradientBar = () => make("div", { class: "bar" },
    regard.choice("Of", [["all", "everything that is said"], ["last", "the last token alone"]], choice.value.target, (value) => choice.set({ target: value })));

  regard.gradient = (reading) => {
    const element = make("div");
    const draw = () => {
      const parts = unique(reading.gradient.map((g) => g.layer.split(".")[0]));
      element.replaceChildren(
        make("p", { class: "hint", text: `How much ${reading.numbers ? "the numbers that are said" : "the log-probability"} would change with each position's state: the norm of the gradient. Where it falls towards the beginning, what stands there is hardly learnt from.` }),
        ...parts.map((part) => {
          const layers = reading.gradient.filter((g) => g.layer.startsWith(part));
          const { labels, layer } = layers.reduce((a, b) => (b.labels.length > a.labels.length ? b : a));
          return regard.chart({
            title: part === "encoder" ? "Encoder, over the input" : "Decoder, over what it reads",
            labels, marks: keysOf(reading, layer, labels.length), log: true, xName: "position", yName: "norm of the gradient",
            lines: layers.map((g) => ({ name: named(g.layer), values: g[choice.value.target] })) });
        }));
    };
    draw();
    choice.listen(element, draw);
    return element;
  };

  const forecasts = (reading) => make("div", { "data-view": "lens" },
    make("p", { class: "hint", text: "The numbers that the model would say if it ended after each layer. The last is the model itself." }),
    regard.chart({ title: "What would be said after each layer", labels: reading.of.length ? reading.of : reading.said,
      lines: reading.lens.numbers.map(({ layer, values }) => ({ name: layer, values })), xName: reading.of.length ? "word" : "step", yName: "value" }));

  regard.lens = (reading) => {
    if (reading.lens.numbers) return forecasts(reading);
    const { layers } = reading.lens;
    const marks = regard.marks(reading);
    const rows = reading.said.map((piece, place) => ({ marks: marks.said[place], cells: [regard.piece(piece), ...layers.map((layer) => {
      const [best, ...rest] = layer.best[place];
      const { ground, ink } = regard.colour("weight", best[1]);
      return { attributes: { class: "guess", style: { background: ground, color: ink, fontWeight: best[0] === piece ? "700" : "400" },
        title: rest.map(([other, p]) => `${regard.plain(other)} ${regard.number(p, 2)}`).join(", ") },
      children: [regard.piece(best[0]), ` ${regard.number(best[1], 2)}`] };
    })] }));
    return make("div", { "data-view": "lens" },
      make("p", { class: "hint", text: "What the model would say if it ended after each layer: its best guess and that guess's probability. Bold: what is said in the end. The last column is the model itself." }),
      regard.legend("weight", 1, "probability of the best guess"),
      regard.table("Logit lens", ["to say", ...layers.map((layer) => layer.layer)], rows, { need: 92 * (layers.length + 1) }));
  };
})();
