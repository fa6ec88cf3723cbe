// Attention: a picture for every head of every layer; one of them large, as colours or as lines.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const TITLES = {
    encoder: "Encoder: the input looks at itself",
    decoder: "Decoder: the output looks at what came before",
    cross: "Cross: the output looks at the input",
  };
  const choice = regard.store({ kind: null, layer: 0, head: 0, mode: "map" });

  function grid(view, element) {
    const heads = Math.max(...view.layers.map((layer) => layer.shape[0]));
    const size = heads > 8 || view.layers.length > 8 ? 44 : 72;
    const table = make("div", { class: "grid", style: { gridTemplateColumns: `auto repeat(${heads + 1}, auto)` } });
    table.append(make("span"), ...Array.from({ length: heads }, (_, n) => make("span", { class: "name", text: `head ${n}` })),
      make("span", { class: "name", text: "mean" }));
    const waiting = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        waiting.unobserve(entry.target);
        fill(Number(entry.target.dataset.layer));
      }
    });
    const buttons = view.layers.map((reference, layer) => {
      const row = [...Array(reference.shape[0]).keys(), -1].map((head) => make("button", {
        type: "button", "data-head": `${layer}.${head}`,
        "aria-label": head < 0 ? `layer ${layer}, mean of all heads` : `layer ${layer}, head ${head}`,
        onclick: () => choice.set({ layer, head }),
      }, make("span", { style: { display: "block", width: `${size}px`, height: "24px" } })));
      const name = make("span", { class: "name", text: `layer ${layer}`, "data-layer": layer });
      table.append(name, ...row.slice(0, -1), ...Array.from({ length: heads - reference.shape[0] }, () => make("span")), row.at(-1));
      waiting.observe(name);
      return row;
    });
    async function fill(layer) {
      if (!table.isConnected) return;
      const reference = view.layers[layer];
      for (const [n, button] of buttons[layer].entries()) {
        const matrix = n < reference.shape[0] ? await regard.matrix(reference, n) : await regard.mean(reference);
        button.replaceChildren(regard.thumbnail(matrix, size));
        await new Promise(requestAnimationFrame); // the page stays alive while many are drawn
      }
    }
    const mark = () => buttons.flat().forEach((button) =>
      button.setAttribute("aria-pressed", String(button.dataset.head === `${choice.value.layer}.${choice.value.head}`)));
    mark();
    choice.listen(element, mark);
    return regard.region("Attention heads", table);
  }

  async function detail(view, reading, holder) {
    const { layer, head, mode } = choice.value;
    const reference = view.layers[layer];
    const matrix = head < 0 ? await regard.mean(reference) : await regard.matrix(reference, head);
    const which = head < 0 ? "mean of all heads" : `head ${head}`;
    // A row of cross-attention stands between two tokens: the one just read, the one to be said.
    const between = view.rows === "said" && reading.read.length;
    const rows = between ? reading.said.map((piece, n) => `${reading.read[n]} → ${piece}`) : reading[view.rows];
    const options = {
      title: `${TITLES[view.kind]} (layer ${layer}, ${which}; each row sums to 1)`,
      rows, columns: reading[view.columns], room: holder.clientWidth || 600,
      xName: "is looked at", yName: between ? "read → to say" : "looks", valueName: "weight",
    };
    holder.replaceChildren(mode === "map" ? regard.heatmap(matrix, options) : regard.lines(matrix, options));
  }

  regard.attention = (reading) => {
    const element = make("div");
    const kinds = reading.attention.map((view) => view.kind);
    if (!kinds.includes(choice.value.kind)) choice.value.kind = kinds.includes("cross") ? "cross" : kinds[0];
    const area = make("div", { class: "two" });

    function draw() {
      const view = reading.attention.find((v) => v.kind === choice.value.kind) ?? reading.attention[0];
      choice.value.layer = Math.min(choice.value.layer, view.layers.length - 1);
      choice.value.head = Math.min(choice.value.head, view.layers[choice.value.layer].shape[0] - 1);
      const holder = make("div");
      area.replaceChildren(make("div", { class: "small" }, make("h3", { text: "All heads" }), grid(view, area)), holder);
      requestAnimationFrame(() => detail(view, reading, holder));
      area.holder = holder;
      area.kind = view.kind;
    }
    const kind = regard.choice("Attention", kinds.map((k) => [k, k]), choice.value.kind, (value) => choice.set({ kind: value }));
    const mode = regard.choice("Show as", [["map", "heat map"], ["lines", "lines"]], choice.value.mode, (value) => choice.set({ mode: value }));
    element.append(make("p", { class: "hint", text: "Each small picture is a head: its rows look, its columns are looked at. Choose one to see it large." }),
      make("div", { class: "bar" }, kind, mode), area);
    draw();
    choice.listen(element, (value) => {
      kind.mark(value.kind);
      mode.mark(value.mode);
      if (area.kind !== value.kind) draw();
      else detail(reading.attention.find((v) => v.kind === area.kind), reading, area.holder);
    });
    return element;
  };

  regard.alignment = (reading) => {
    const { source, said, weights } = reading.alignment;
    const element = make("div", null, make("p", { class: "hint",
      text: "Which words of the input each word of the output looked at: the mean of all heads of all layers." }));
    const [lines, table] = [make("div", { class: "small" }), make("div")];
    element.append(make("div", { class: "two" }, lines, table));
    regard.matrix(weights).then((matrix) => requestAnimationFrame(() => {
      const common = { rows: said, columns: source };
      lines.append(regard.lines(matrix, { ...common, title: "From output words to input words", yName: "output", xName: "input" }));
      table.append(regard.heatmap(matrix, { ...common, title: "The same as a table", yName: "output word", xName: "input word",
        valueName: "weight", room: Math.min(640, table.clientWidth || 640) }));
    }));
    return element;
  };
})();
