// One word in several sentences: how alike its vectors are after each layer.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make, svg } = regard;
  const choice = regard.store({ layer: Infinity });
  const layerOf = (view) => Math.min(choice.value.layer, view.layers.length - 1);

  const redrawn = (build) => {
    const element = make("div");
    const draw = () => regard.controls(element, build);
    draw();
    choice.listen(element, draw);
    return element;
  };

  regard.sensesBar = (readings) => redrawn(() => {
    const view = readings.find((reading) => reading.senses).senses;
    return [make("div", { class: "bar" }, regard.choice("After", view.layers.map(({ layer }, n) => [n, layer]), layerOf(view), (value) => choice.set({ layer: Number(value) })))];
  });

  // The occurrences on the two axes along which they differ most; their numbers are those of the list.
  function map({ points, share, layer }) {
    const [width, height, edge] = [Math.min(560, regard.room()), 340, 40];
    const span = (values) => [Math.min(...values), Math.max(...values) - Math.min(...values) || 1];
    const [[left, wide], [low, high]] = [0, 1].map((axis) => span(points.map((point) => point[axis] ?? 0)));
    const marks = points.map(([x, y = 0], n) => {
      const [across, down] = [edge + ((x - left) / wide) * (width - 2 * edge), height - edge - ((y - low) / high) * (height - 2 * edge)];
      return svg("g", null, svg("circle", { cx: across, cy: down, r: 11, fill: regard.css("accent") }),
        svg("text", { x: across, y: down + 4, "text-anchor": "middle", style: { fill: "var(--on-accent)" }, "font-weight": "600", text: String(n + 1) }));
    });
    return make("figure", { "data-view": "senses-map" },
      make("figcaption", { text: `Map of the occurrences, ${layer} (PCA; ${Math.round(100 * share)} % of the variance)` }),
      svg("svg", { width, height, role: "img", "aria-label": `Map of ${points.length} occurrences` },
        svg("rect", { x: 8, y: 4, width: width - 16, height: height - 8, fill: "none", stroke: regard.css("line") }), ...marks));
  }

  regard.senses = (reading) => redrawn(() => {
    const { word, occurrences, layers } = reading.senses;
    const names = occurrences.map((_, n) => String(n + 1));
    const contexts = make("ol", null, ...occurrences.map(({ context }) => make("li", { text: context })));
    const [over, maps] = [make("div"), make("div", { class: "two" })];
    Promise.all(layers.map(({ similarity }) => regard.matrix(similarity))).then((found) => {
      const lines = names.slice(1).map((name, n) => ({ name: `1 and ${name}`, values: found.map((matrix) => matrix.at(0, n + 1)) }));
      over.append(regard.chart({ title: "How alike the others are to the first occurrence, layer by layer", labels: layers.map(({ layer }) => layer), lines, xName: "layer", yName: "cosine", range: null }));
      const shown = layers[layerOf(reading.senses)];
      maps.append(regard.heatmap(found[layerOf(reading.senses)], { title: `Similarity of the occurrences (cosine), ${shown.layer}`, rows: names, columns: names,
        room: Math.min(regard.room(), 480), xName: "occurrence", yName: "occurrence", valueName: "cosine" }), map(shown));
    });
    return [make("p", { class: "hint", text: `The vectors that stand for “${word}” in each place. The same word begins alike everywhere; what stands around it moves its senses apart.` }), contexts, maps, over];
  });
})();
