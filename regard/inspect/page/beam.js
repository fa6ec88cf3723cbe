// The tree of a beam search: a column for each step, best candidate on top.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make, svg } = regard;
  const FATES = {
    best: "on the way to the result", finished: "finished, but with a lower score",
    followed: "followed further", dropped: "dropped at once",
  };
  const choice = regard.store({ dropped: true });
  const WIDE = 146, HIGH = 26, TOP = 34;

  const fate = (node) => (node.best ? "best" : node.fate);

  function place(nodes) {
    const columns = new Map();
    nodes.forEach((node, n) => {
      const column = columns.get(node.step) ?? columns.set(node.step, []).get(node.step);
      column.push(n);
    });
    const places = new Map();
    for (const [step, column] of columns) {
      column.sort((a, b) => nodes[b].total - nodes[a].total);
      column.forEach((n, row) => places.set(n, { x: 8 + step * WIDE, y: TOP + row * (HIGH + 6) }));
    }
    return places;
  }

  function explain(nodes, n) {
    const node = nodes[n];
    const path = [];
    for (let at = n; at >= 0; at = nodes[at].parent) path.unshift(nodes[at].piece);
    return [
      make("strong", null, make("bdi", { text: path.map((p) => regard.label(p)).join(" ") })),
      make("span", { text: `: log p of the last token ${regard.number(node.log_prob)}, of all ${regard.number(node.total)}, score ${regard.number(node.score)}. ${node.why}.` }),
    ];
  }

  function tree(all, readout) {
    const shown = all.map((node, n) => n).filter((n) => choice.value.dropped || all[n].fate !== "dropped");
    const places = place(all.map((node, n) => (shown.includes(n) ? node : null)).map((node) => node ?? { step: -1, total: 0 }));
    const steps = Math.max(...all.map((node) => node.step)) + 1;
    const deepest = Math.max(...shown.map((n) => places.get(n).y));
    const edges = shown.filter((n) => all[n].parent >= 0).map((n) => {
      const [from, to] = [places.get(all[n].parent), places.get(n)];
      const [x1, y1, x2, y2] = [from.x + WIDE - 26, from.y + HIGH / 2, to.x, to.y + HIGH / 2];
      return svg("path", { d: `M${x1} ${y1} C${x1 + 14} ${y1} ${x2 - 14} ${y2} ${x2} ${y2}`, fill: "none",
        stroke: regard.css(fate(all[n])), "stroke-width": all[n].best ? 3 : 1.2, "stroke-opacity": all[n].fate === "dropped" ? 0.45 : 1 });
    });
    const boxes = shown.map((n) => {
      const { x, y } = places.get(n);
      const node = all[n];
      const tell = () => readout.replaceChildren(...explain(all, n));
      return svg("g", { class: "node", tabindex: "0", role: "button", transform: `translate(${x} ${y})`,
        "aria-label": `step ${node.step}, ${regard.label(node.piece)}, ${FATES[fate(node)]}, score ${regard.number(node.score)}`,
        onfocus: tell, onclick: tell, onpointerenter: tell },
        svg("rect", { width: WIDE - 26, height: HIGH, rx: 4, fill: regard.css("panel"), stroke: regard.css(fate(node)),
          "stroke-width": node.best ? 2.5 : 1.2, "stroke-dasharray": node.fate === "dropped" ? "3 3" : null }),
        svg("text", { x: 5, y: 17, text: regard.label(node.piece, 10) }),
        svg("text", { x: WIDE - 31, y: 17, "text-anchor": "end", class: "faint", text: node.score.toFixed(2) }));
    });
    const heads = Array.from({ length: steps }, (_, n) => svg("text", { x: 8 + n * WIDE, y: 20, class: "faint", text: `step ${n}` }));
    return svg("svg", { width: 8 + steps * WIDE, height: deepest + HIGH + 10, role: "group", "aria-label": "Beam search tree" }, ...edges, ...heads, ...boxes);
  }

  regard.beam = (reading) => {
    const readout = make("p", { class: "readout", "aria-live": "polite", text: "Point at a candidate, or reach it by the tab key, to read why it won or lost." });
    const holder = make("div", { class: "scroll wide", tabindex: "0", role: "region", "aria-label": "Beam search tree, scrollable" });
    const draw = () => holder.replaceChildren(tree(reading.beam, readout));
    const toggle = make("input", { type: "checkbox", onchange: () => choice.set({ dropped: toggle.checked }) });
    toggle.checked = choice.value.dropped;
    const element = make("div", { "data-view": "beam" },
      make("p", { class: "hint", text: "Every hypothesis that was considered. A box is a candidate: its token, and its score Σ log p / nᵅ so far; the best of each step stands on top." }),
      make("div", { class: "bar" }, make("label", null, toggle, "show candidates that were dropped at once"),
        make("span", { class: "legend" }, ...Object.entries(FATES).map(([name, text]) => make("span", { class: "group" },
          make("span", { class: "dot", style: { background: `var(--${name})` }, "aria-hidden": "true" }), text)))),
      holder, readout);
    draw();
    choice.listen(element, (value) => { toggle.checked = value.dropped; draw(); });
    return element;
  };
})();
