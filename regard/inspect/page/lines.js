// Two columns of names and a line from each place that looks to each that is looked at.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const TOP = 30;

  function layout(rows, columns, room) {
    const [, ruler] = regard.canvas(1, 1);
    const step = Math.max(rows.length, columns.length) > 120 ? 15 : 22;
    const shown = [rows, columns].map((labels) => labels.map((label) => regard.label(label)));
    const [left, right] = shown.map((labels) => Math.min(regard.widest(ruler, labels) + 12, Math.max(90, 0.36 * room)));
    const gap = Math.max(70, Math.min(420, room - left - right - 8));
    return { step, shown: shown.map((labels, side) => labels.map((label) => regard.fitted(ruler, label, [left, right][side] - 10))),
      left, gap, width: left + gap + right + 4, height: TOP + Math.max(rows.length, columns.length) * step + 6 };
  }

  regard.lines = (matrix, { title, rows, columns, rowMarks = [], columnMarks = [], xName, yName, room = regard.room() }) => {
    const place = layout(rows, columns, room);
    const readout = make("p", { class: "readout", "aria-live": "polite", text: "Point at a name, or move by the arrow keys, to see its lines alone." });
    const [canvas, pen] = regard.canvas(place.width, place.height, { class: "map", role: "application", tabindex: "0", "aria-label": `${title}. Arrow keys choose a position that looks.` });
    let chosen = -1;

    const strokes = () => {
      const some = [rowMarks.some(regard.lit), columnMarks.some(regard.lit)];
      const shown = (row, column) => (chosen >= 0 ? row === chosen
        : !(some[0] || some[1]) || regard.lit(rowMarks[row] ?? "") || regard.lit(columnMarks[column] ?? ""));
      pen.strokeStyle = regard.css("accent");
      rows.forEach((_, row) => columns.forEach((_, column) => {
        const weight = matrix.at(row, column);
        if (weight < 0.02 || !shown(row, column)) return;
        pen.globalAlpha = Math.min(1, 0.08 + weight);
        pen.lineWidth = 0.5 + 4 * weight;
        pen.beginPath();
        pen.moveTo(place.left + 4, TOP + (row + 0.5) * place.step);
        pen.lineTo(place.left + place.gap - 6, TOP + (column + 0.5) * place.step);
        pen.stroke();
      }));
      pen.globalAlpha = 1;
    };

    function put(labels, x, align, marks) {
      labels.forEach((label, n) => {
        const y = TOP + (n + 0.5) * place.step;
        const wide = pen.measureText(label).width;
        if (regard.lit(marks[n] ?? "") || (align === "right" && n === chosen)) {
          pen.fillStyle = regard.css("mark");
          pen.fillRect(align === "right" ? x - wide - 3 : x - 3, y - 9, wide + 6, 18);
        }
        pen.fillStyle = regard.css("ink");
        pen.textAlign = align;
        pen.fillText(label, x, y);
      });
    }

    function draw() {
      pen.clearRect(0, 0, place.width, place.height);
      pen.fillStyle = regard.css("faint");
      pen.textAlign = "right";
      pen.fillText(regard.fitted(pen, yName, place.left - 2), place.left - 2, 10);
      pen.textAlign = "left";
      pen.fillText(xName, place.left + place.gap, 10);
      strokes();
      put(place.shown[0], place.left - 2, "right", rowMarks);
      put(place.shown[1], place.left + place.gap, "left", columnMarks);
    }

    function show(row) {
      chosen = row;
      const best = columns.map((label, n) => [matrix.at(row, n), label]).sort((a, b) => b[0] - a[0]).slice(0, 5);
      readout.textContent = `“${regard.plain(rows[row])}” looks at ${best.map(([w, l]) => `“${regard.plain(l)}” ${regard.number(w, 2)}`).join(", ")}`;
      regard.light([rowMarks[row]]);
      draw();
    }

    const point = (event) => {
      const n = Math.floor((event.offsetY - TOP) / place.step);
      const right = event.offsetX > place.left + place.gap / 2;
      if (!right && n >= 0 && n < rows.length) return show(n);
      chosen = -1;
      right && columnMarks[n] ? regard.light([columnMarks[n]]) : regard.rest();
      draw();
    };
    canvas.addEventListener("pointermove", point);
    canvas.addEventListener("pointerdown", point);
    canvas.addEventListener("pointerleave", () => { chosen = -1; regard.rest(); draw(); });
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!move) return;
      event.preventDefault();
      show(Math.min(rows.length - 1, Math.max(0, chosen + move)));
    });
    draw();
    regard.watch(canvas, draw);
    return make("figure", { "data-view": "lines" }, make("figcaption", { text: title }), canvas,
      make("p", { class: "hint", text: "The stronger a line, the larger the weight; weights below 0.02 have none." }), readout);
  };
})();
