// Attention: a picture for every head of every layer; one of them large, as colours or as lines. Of two
// runs, the difference as well.
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
  regard.chooseHead = (kind, layer, head) => choice.set({ kind, layer, head });

  const kinds = (readings) => [...new Set(readings.flatMap((reading) => reading.attention?.map((view) => view.kind) ?? []))];
  const viewOf = (reading) => reading.attention?.find((view) => view.kind === choice.value.kind);
  const layersOf = (readings) => readings.flatMap((reading) => viewOf(reading)?.layers ?? []);

  // The choice, made to fit what there is.
  function settle(readings) {
    const there = kinds(readings);
    if (!there.includes(choice.value.kind)) choice.value.kind = there.includes("cross") ? "cross" : there[0];
    const most = Math.max(...readings.map((reading) => viewOf(reading)?.layers.length ?? 0));
    choice.value.layer = Math.min(choice.value.layer, most - 1);
    choice.value.head = Math.min(choice.value.head, Math.max(...layersOf(readings).map((layer) => layer.shape[0])) - 1);
  }

  const range = (count) => Array.from({ length: count }, (_, n) => [n, String(n)]);

  regard.attentionBar = (readings) => {
    const bar = make("div", { class: "bar" });
    const draw = () => {
      settle(readings);
      const { kind, layer, head, mode } = choice.value;
      const layers = Math.max(...readings.map((reading) => viewOf(reading)?.layers.length ?? 0));
      const heads = Math.max(...layersOf(readings).map((each) => each.shape[0]));
      regard.controls(bar, () => [
        regard.choice("Attention", kinds(readings).map((k) => [k, k]), kind, (value) => choice.set({ kind: value })),
        regard.dropdown("Layer", range(layers), layer, (value) => choice.set({ layer: Number(value) })),
        regard.dropdown("Head", [...range(heads), [-1, "mean"]], head, (value) => choice.set({ head: Number(value) })),
        regard.choice("Show as", [["map", "heat map"], ["lines", "lines"]], mode, (value) => choice.set({ mode: value }))]);
    };
    draw();
    choice.listen(bar, draw);
    return bar;
  };

  function grid(view, element, room) {
    const heads = Math.max(...view.layers.map((layer) => layer.shape[0]));
    const narrow = regard.room() < 480; // the layer's name stands above its heads
    const size = Math.max(22, Math.min(heads > 8 || view.layers.length > 8 ? 44 : 72, Math.floor((room - (narrow ? 0 : 60)) / Math.min(heads + 1, 9)) - 14));
    const table = make("div", { class: "grid", role: "group", "aria-label": "Attention heads" });
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
      }, make("span", { style: { display: "block", width: `${size}px`, height: "24px" } }),
      make("span", { class: "name", "aria-hidden": "true", text: head < 0 ? "mean" : head })));
      const name = make("span", { class: "name", text: `layer ${layer}`, "data-layer": layer });
      table.append(make("div", { class: narrow ? "heads narrow" : "heads" }, name, ...row));
      waiting.observe(name);
      return row;
    });
    async function fill(layer) {
      if (!table.isConnected) return;
      const reference = view.layers[layer];
      for (const [n, button] of buttons[layer].entries()) {
        const matrix = n < reference.shape[0] ? await regard.matrix(reference, n) : await regard.mean(reference);
        button.firstChild.replaceWith(regard.thumbnail(matrix, size));
        await new Promise(requestAnimationFrame); // the page stays alive while many are drawn
      }
    }
    const mark = () => buttons.flat().forEach((button) =>
      button.setAttribute("aria-pressed", String(button.dataset.head === `${choice.value.layer}.${choice.value.head}`)));
    mark();
    choice.listen(element, mark);
    return table;
  }

  // The weights that are chosen, in one reading; null where it has no such head.
  async function chosen(reading) {
    const view = viewOf(reading);
    const reference = view?.layers[choice.value.layer];
    if (!reference || choice.value.head >= reference.shape[0]) return null;
    return choice.value.head < 0 ? regard.mean(reference) : regard.matrix(reference, choice.value.head);
  }

  const which = () => `layer ${choice.value.layer}, ${choice.value.head < 0 ? "mean of all heads" : `head ${choice.value.head}`}`;

  function options(reading, room) {
    const view = viewOf(reading);
    const marks = regard.marks(reading);
    // A row of cross-attention stands between two tokens: the one just read, the one to be said.
    const between = view.rows === "said" && reading.read.length > 0;
    const rows = between && room > 560 ? reading.said.map((piece, n) => `${regard.plain(reading.read[n], 18)} → ${regard.plain(piece, 18)}`) : reading[view.rows];
    return { rows, columns: reading[view.columns], rowMarks: marks[view.rows], columnMarks: marks[view.columns], room,
      xName: "is looked at", yName: between ? (room > 560 ? "read → to say" : "to say") : "looks", valueName: "weight" };
  }

  async function detail(reading, holder, room) {
    const matrix = await chosen(reading);
    if (!matrix) return holder.replaceChildren(make("p", { class: "hint", text: `This run has no ${which()}.` }));
    const title = `${TITLES[choice.value.kind]} (${which()}; each row sums to 1)`;
    const draw = choice.value.mode === "map" ? regard.heatmap : regard.lines;
    holder.replaceChildren(draw(matrix, { ...options(reading, room), title }));
  }

  regard.attention = (reading) => {
    const room = regard.room();
    const area = make("div", { class: "two" });
    let shown = null;
    function draw() {
      const view = viewOf(reading);
      shown = choice.value.kind;
      if (!view) return area.replaceChildren(make("p", { class: "hint", text: "This run has no such attention." }));
      const heads = Math.max(...view.layers.map((layer) => layer.shape[0]));
      const side = Math.min(room, 60 + (heads + 1) * 92);
      // Beside the small pictures, if the large one has room there without being folded.
      const beside = room - side - 24 >= Math.max(520, 170 + 14 * reading[view.columns].length);
      const holder = make("div", { style: { flex: beside ? "1 1 0" : "1 1 100%" } });
      area.replaceChildren(make("div", { class: "small", style: { width: beside ? `${side}px` : "100%" } }, make("h3", { text: "All heads" }), grid(view, area, side)), holder);
      area.show = () => detail(reading, holder, beside ? room - side - 24 : room);
      area.show();
    }
    draw();
    choice.listen(area, () => (shown === choice.value.kind ? area.show?.() : draw()));
    return make("div", null, make("p", { class: "hint", text: "Each small picture is a head: its rows look, its columns are looked at. Choose one to see it large." }), area);
  };

  // What two runs do otherwise: a map of the first minus the other.
  const apart = (element, a, b, names, map, about) => {
    if (a.rows !== b.rows || a.columns !== b.columns) {
      element.replaceChildren(make("p", { class: "hint", text: `There is no map of the difference: ${names[0]} has ${a.rows} × ${a.columns} weights, ${names[1]} ${b.rows} × ${b.columns}. The same output for both (--target) makes them alike.` }));
      return;
    }
    element.replaceChildren(regard.heatmap(regard.difference(a, b), { ...map, title: `${about}: ${names[0]} minus ${names[1]}. Orange: more in ${names[0]}; blue: more in ${names[1]}`, valueName: "difference" }));
  };

  const joined = (a, b) => a.map((piece, n) => (piece === b[n] ? piece : `${regard.plain(piece)} | ${regard.plain(b[n])}`));

  regard.attentionDifference = ([first, other], names, room) => {
    const element = make("div");
    const draw = async () => {
      const found = await Promise.all([chosen(first), chosen(other)]);
      if (found.includes(null)) return element.replaceChildren(make("p", { class: "hint", text: `Only one of the runs has ${which()}: there is no difference to show.` }));
      const [left, right] = [options(first, room), options(other, room)];
      const alike = left.rows.length === right.rows.length && left.columns.length === right.columns.length;
      apart(element, ...found, names, alike ? { ...left, rows: joined(left.rows, right.rows), columns: joined(left.columns, right.columns) } : left, `Difference, ${choice.value.kind}, ${which()}`);
    };
    draw();
    choice.listen(element, draw);
    return element;
  };

  const wordKeys = (reading) => {
    const marks = regard.marks(reading);
    return [reading.said_words, reading.source_words].map((groups, side) => groups?.map(([from]) => (side ? marks.source : marks.said)[from]));
  };

  regard.alignmentDifference = ([first, other], names, room) => {
    const element = make("div");
    const [a, b] = [first.alignment, other.alignment];
    const [rowMarks, columnMarks] = wordKeys(first);
    Promise.all([regard.matrix(a.weights), regard.matrix(b.weights)]).then((found) => {
      const alike = a.said.length === b.said.length && a.source.length === b.source.length;
      apart(element, ...found, names, { rows: alike ? joined(a.said, b.said) : a.said, columns: alike ? joined(a.source, b.source) : a.source,
        rowMarks, columnMarks, xName: "input word", yName: "output word", room }, "Difference of the alignments");
    });
    return element;
  };

  regard.alignment = (reading) => {
    const { source, said, weights } = reading.alignment;
    const room = regard.room();
    const [rowMarks, columnMarks] = wordKeys(reading);
    const element = make("div", null, make("p", { class: "hint",
      text: "Which words of the input each word of the output looked at: the mean of all heads of all layers." }));
    const [lines, table] = [make("div", { class: "small" }), make("div")];
    element.append(make("div", { class: "two" }, lines, table));
    regard.matrix(weights).then((matrix) => {
      const common = { rows: said, columns: source, rowMarks, columnMarks };
      const beside = room >= 900;
      lines.append(regard.lines(matrix, { ...common, title: "From output words to input words", yName: "output", xName: "input", room: beside ? 440 : room }));
      table.append(regard.heatmap(matrix, { ...common, title: "The same as a table", yName: "output word", xName: "input word",
        valueName: "weight", room: beside ? room - 440 - 24 : room }));
    });
    return element;
  };
})();
