// The tree of a beam search: a row for each step, best candidate first, from top to bottom.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make, svg } = regard;
  const FATES = {
    best: "on the way to the result", finished: "finished, but with a lower score",
    followed: "followed further", dropped: "dropped at once",
  };
  const choice = regard.store({ dropped: null });
  const [HIGH, GAP, EDGE] = [38, 8, 30];

  const fate = (node) => (node.best ? "best" : node.fate);
  const everything = (reading) => choice.value.dropped ?? Math.max(...reading.beam.map((node) => node.step)) < 16;

  // Where the candidates stand: a step takes as many lines as the width asks for.
  function place(nodes, shown, room) {
    const [places, steps] = [new Map(), []];
    for (const n of shown) (steps[nodes[n].step] ??= []).push(n);
    const most = Math.max(...steps.map((row) => row?.length ?? 0));
    const left = 46;
    const wide = Math.max(64, Math.min(150, (room - left) / Math.min(most, Math.max(1, Math.floor((room - left) / 64)))));
    const per = Math.max(1, Math.floor((room - left) / wide + 1e-6));
    let top = 4;
    const heads = steps.map((row = [], step) => {
      row.sort((a, b) => nodes[b].total - nodes[a].total);
      row.forEach((n, i) => places.set(n, { x: left + (i % per) * wide, y: top + Math.floor(i / per) * (HIGH + GAP) }));
      const at = top;
      top += Math.ceil(row.length / per) * (HIGH + GAP) - GAP + EDGE;
      return { step, y: at };
    });
    return { places, heads, box: wide - GAP, height: top - EDGE + 8 };
  }

  function explain(nodes, n) {
    const node = nodes[n];
    const path = [];
    for (let at = n; at >= 0; at = nodes[at].parent) path.unshift(nodes[at].piece);
    return [
      make("strong", null, make("bdi", { text: regard.plain(regard.spelt(path), 400) })),
      make("span", { text: `: log p of the last token ${regard.number(node.log_prob)}, of all ${regard.number(node.total)}, score ${regard.number(node.score)}. ${node.why}.` }),
    ];
  }

  function tree(reading, readout) {
    const all = reading.beam;
    const room = regard.room();
    const shown = all.map((_, n) => n).filter((n) => everything(reading) || all[n].fate !== "dropped");
    const { places, heads, box, height } = place(all, shown, room);
    const marks = regard.marks(reading).said;
    const first = marks.length - Math.max(...all.filter((node) => node.best).map((node) => node.step + 1), 0);
    const edges = shown.filter((n) => all[n].parent >= 0).map((n) => {
      const [from, to] = [places.get(all[n].parent), places.get(n)];
      const [x1, y1, x2, y2] = [from.x + box / 2, from.y + HIGH, to.x + box / 2, to.y];
      return svg("path", { d: `M${x1} ${y1} C${x1} ${y1 + 18} ${x2} ${y2 - 18} ${x2} ${y2}`, fill: "none",
        stroke: regard.css(fate(all[n])), "stroke-width": all[n].best ? 3 : 1.2, "stroke-opacity": all[n].fate === "dropped" ? 0.45 : 1 });
    });
    const boxes = shown.map((n) => {
      const { x, y } = places.get(n);
      const node = all[n];
      const tell = () => readout.replaceChildren(...explain(all, n));
      return svg("g", { class: "node", tabindex: "0", role: "button", transform: `translate(${x} ${y})`, "data-marks": node.best ? marks[first + node.step] || null : null,
        "aria-label": `step ${node.step}, ${regard.plain(node.piece)}, ${FATES[fate(node)]}, score ${regard.number(node.score)}`,
        onfocus: tell, onclick: tell, onpointerenter: tell },
        svg("rect", { width: box, height: HIGH, rx: 4, fill: regard.css("panel"), stroke: regard.css(fate(node)),
          "stroke-width": node.best ? 2.5 : 1.2, "stroke-dasharray": node.fate === "dropped" ? "3 3" : null }),
        svg("text", { x: 5, y: 16, text: regard.label(node.piece, Math.max(5, Math.floor((box - 8) / 7.4))) }),
        svg("text", { x: 5, y: 31, class: "faint", text: node.score.toFixed(2) }));
    });
    const names = heads.map(({ step, y }) => svg("text", { x: 2, y: y + 16, class: "faint", text: step }));
    return svg("svg", { width: room, height, role: "group", "aria-label": "Beam search tree" }, svg("g", null, ...edges), ...names, ...boxes);
  }

  regard.beamBar = (readings) => {
    const toggle = make("input", { type: "checkbox", onchange: () => choice.set({ dropped: toggle.checked }) });
    toggle.checked = everything(readings.find((reading) => reading.beam));
    return make("div", { class: "bar" }, make("label", null, toggle, "show candidates that were dropped at once"),
      make("span", { class: "legend" }, ...Object.entries(FATES).map(([name, text]) => make("span", { class: "group" },
        make("span", { class: "dot", style: { background: `var(--${name})` }, "aria-hidden": "true" }), text))));
  };

  regard.beam = (reading) => {
    const readout = make("p", { class: "readout below", "aria-live": "polite", text: "Point at a candidate, or reach it by the tab key, to read why it won or lost." });
    const holder = make("div");
    const draw = () => holder.replaceChildren(tree(reading, readout));
    const element = make("div", { "data-view": "beam" },
      make("p", { class: "hint", text: "Every hypothesis that was considered, step by step from top to bottom. A box is a candidate: its token, and its score Σ log p / nᵅ so far; the best of each step stands first." }),
      holder, readout);
    draw();
    choice.listen(element, draw);
    return element;
  };
})();
