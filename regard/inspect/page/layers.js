// Layer by layer: states and gates over the positions, gradients, and the logit lens.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const choice = regard.store({ layer: null, quantity: null, target: "all" });

  const unique = (list) => [...new Set(list)];
  const named = (layer) => layer.replace(/\.(block|layer)\.(\d+)/, ", layer $2").replaceAll(".", " ");

  regard.states = (reading) => {
    const element = make("div");
    const layers = unique(reading.states.map((s) => s.layer));
    // Gates are what one comes for, where there are any.
    const usual = (reading.states.find((s) => s.quantity.endsWith("gate")) ??
      reading.states.find((s) => /layer|block/.test(s.layer)) ?? reading.states[0]).layer;
    const draw = () => {
      const layer = layers.includes(choice.value.layer) ? choice.value.layer : usual;
      const here = reading.states.filter((s) => s.layer === layer);
      const shown = here.find((s) => s.quantity === choice.value.quantity) ?? here[0];
      const { labels } = shown;
      const gates = here.filter((s) => s.quantity.endsWith("gate"));
      const holder = make("div");
      element.replaceChildren(
        make("p", { class: "hint", text: "What the model holds in its memory at each position: a row for each unit. Gates lie between 0 (shut) and 1 (open)." }),
        make("div", { class: "bar" },
          regard.dropdown("Layer", layers.map((l) => [l, named(l)]), layer, (value) => choice.set({ layer: value })),
          regard.choice("Quantity", here.map((s) => [s.quantity, s.quantity]), shown.quantity, (value) => choice.set({ layer, quantity: value }))),
        ...(gates.length ? [regard.chart({ title: `${named(layer)}: how far each gate is open, mean of all units`, labels,
          lines: gates.map((s) => ({ name: s.quantity, values: s.means })), xName: "position", yName: "mean", range: [0, 1] })] : []),
        holder,
        regard.chart({ title: `${named(layer)}, ${shown.quantity}: length of the vector at each position`, labels,
          lines: [{ name: shown.quantity, values: shown.norms }], xName: "position", yName: "norm", range: [0, Math.max(...shown.norms, 1e-9)] }));
      if (!shown.values) {
        holder.append(make("p", { class: "hint", text: "The text is too long to show every unit; the length of the vectors is below." }));
        return;
      }
      regard.matrix(shown.values).then((matrix) => requestAnimationFrame(() => holder.append(regard.heatmap(regard.transposed(matrix), {
        title: `${named(layer)}: ${shown.quantity}`, rows: null, columns: labels, room: element.clientWidth || 700,
        cell: 40, high: Math.max(3, Math.min(16, 440 / matrix.columns)), xName: "position", yName: "unit", valueName: "value" }))));
    };
    draw();
    choice.listen(element, draw);
    return element;
  };

  regard.gradient = (reading) => {
    const element = make("div");
    const draw = () => {
      const parts = unique(reading.gradient.map((g) => g.layer.split(".")[0]));
      element.replaceChildren(
        make("p", { class: "hint", text: `How much ${reading.numbers ? "the numbers that are said" : "the log-probability"} would change with each position's state: the norm of the gradient. Where it falls towards the beginning, what stands there is hardly learnt from.` }),
        make("div", { class: "bar" }, regard.choice("Of", [["all", "everything that is said"], ["last", "the last token alone"]], choice.value.target, (value) => choice.set({ target: value }))),
        ...parts.map((part) => {
          const layers = reading.gradient.filter((g) => g.layer.startsWith(part));
          return regard.chart({
            title: part === "encoder" ? "Encoder, over the input" : "Decoder, over what it reads",
            labels: layers.reduce((a, b) => (b.labels.length > a.labels.length ? b : a)).labels,
            log: true, xName: "position", yName: "norm of the gradient",
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
    const head = make("tr", null, make("th", { scope: "col", text: "to say" }),
      ...layers.map((layer) => make("th", { scope: "col", text: layer.layer })));
    const body = reading.said.map((piece, place) => make("tr", null, make("th", { scope: "row" }, regard.piece(piece)),
      ...layers.map((layer) => {
        const [best, ...rest] = layer.best[place];
        const { ground, ink } = regard.colour("weight", best[1]);
        const right = best[0] === piece;
        return make("td", { style: { background: ground, color: ink, fontWeight: right ? "700" : "400" },
          title: rest.map(([other, p]) => `${regard.label(other)} ${regard.number(p, 2)}`).join(", ") },
          make("bdi", { text: regard.label(best[0], 12) }), ` ${regard.number(best[1], 2)}`);
      })));
    return make("div", { "data-view": "lens" },
      make("p", { class: "hint", text: "What the model would say if it ended after each layer: its best guess and that guess's probability. Bold: what is said in the end. The last column is the model itself." }),
      regard.legend("weight", 1, "probability of the best guess"),
      regard.region("Logit lens", make("table", null, make("thead", null, head), make("tbody", null, ...body))));
  };
})();
