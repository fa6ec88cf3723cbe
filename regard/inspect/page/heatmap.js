// A matrix as colours, with named rows and columns; pointer and arrow keys read out single cells.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;

  // The matrix at one pixel a cell, to be enlarged without smoothing.
  function pixels(matrix) {
    const canvas = make("canvas", { width: matrix.columns, height: matrix.rows });
    const pen = canvas.getContext("2d");
    const image = pen.createImageData(matrix.columns, matrix.rows);
    const palette = regard.palette(matrix.scale);
    const colours = new Uint32Array(256); // of each byte, as four bytes: red, green, blue, opaque
    const parts = new Uint8Array(colours.buffer);
    for (let byte = 0; byte <= matrix.top; byte++) {
      const n = 3 * Math.round((255 * byte) / matrix.top);
      parts.set([palette[n], palette[n + 1], palette[n + 2], 255], 4 * byte);
    }
    const cells = new Uint32Array(image.data.buffer);
    for (let cell = 0; cell < cells.length; cell++) cells[cell] = colours[matrix.bytes[matrix.start + cell]];
    pen.putImageData(image, 0, 0);
    return canvas;
  }

  // A picture without names, as large as asked for.
  regard.thumbnail = (matrix, size) => {
    const scale = size / Math.max(matrix.rows, matrix.columns);
    const [width, height] = [matrix.columns, matrix.rows].map((n) => Math.max(6, Math.round(n * scale)));
    const [canvas, pen] = regard.canvas(width, height, { "aria-hidden": "true" });
    pen.imageSmoothingEnabled = scale < 1;
    pen.drawImage(pixels(matrix), 0, 0, width, height);
    return canvas;
  };

  function width(pen, labels) {
    return labels ? Math.min(150, Math.max(...labels.map((l) => pen.measureText(l).width), 10)) + 10 : 34;
  }

  // Where everything stands: margins for the names, and how large a cell is.
  function layout(matrix, { rows, columns, room, cell, high }) {
    const [, pen] = regard.canvas(1, 1);
    const names = [rows?.map((l) => regard.label(l)), columns?.map((l) => regard.label(l))];
    const left = 22 + width(pen, names[0]);
    const top = 22 + width(pen, names[1]);
    const x = Math.max(2, Math.min(cell ?? 30, (room - left - 12) / matrix.columns));
    const y = high ?? Math.max(matrix.rows > 100 ? 2 : 4, Math.min(x, 900 / matrix.rows));
    return { names, left, top, x: Math.max(x, Math.min(y, 3)), y };
  }

  function names(pen, matrix, place, { xName, yName }) {
    pen.fillStyle = regard.css("ink");
    const draw = (labels, count, size, put) => {
      const every = Math.max(1, Math.ceil((labels ? 13 : 34) / size));
      for (let n = 0; n < count; n += every) put(labels ? labels[n] : String(n), (n + 0.5) * size);
    };
    pen.textAlign = "right";
    draw(place.names[0], matrix.rows, place.y, (label, at) => pen.fillText(label, place.left - 6, place.top + at));
    pen.textAlign = "left";
    draw(place.names[1], matrix.columns, place.x, (label, at) => {
      pen.save();
      pen.translate(place.left + at, place.top - 6);
      pen.rotate(place.names[1] ? -Math.PI / 2 : 0);
      if (!place.names[1]) pen.textAlign = "center";
      pen.fillText(label, 0, 0);
      pen.restore();
    });
    pen.fillStyle = regard.css("faint");
    pen.textAlign = "left";
    pen.fillText(`${xName} →`, place.left, 10);
    pen.save();
    pen.translate(9, place.top);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "right";
    pen.fillText(`← ${yName}`, 0, 0);
    pen.restore();
  }

  // options: title, rows, columns (names, or null for numbers), xName, yName, valueName, room, cell, high (the
  // largest width and the height of a cell), split (a column before which a line is drawn)
  regard.heatmap = (matrix, options) => {
    const place = layout(matrix, options);
    const size = { width: place.left + matrix.columns * place.x + 12, height: place.top + Math.max(50, matrix.rows * place.y) + 4 };
    const readout = make("p", { class: "readout", "aria-live": "polite", text: "Point at a cell, or move through the cells by the arrow keys." });
    const [canvas, pen] = regard.canvas(size.width, size.height, {
      class: "map", role: "application", tabindex: "0", "aria-label": `${options.title}. ${options.yName} down, ${options.xName} across; arrow keys read out cells.`,
    });
    const picture = pixels(matrix);
    const name = (labels, n) => (labels ? `“${regard.label(labels[n], 40)}” (${n})` : String(n));
    let cursor = null;

    function draw() {
      pen.clearRect(0, 0, size.width, size.height);
      names(pen, matrix, place, options);
      pen.imageSmoothingEnabled = false;
      pen.drawImage(picture, place.left, place.top, matrix.columns * place.x, matrix.rows * place.y);
      pen.strokeStyle = regard.css("line");
      pen.strokeRect(place.left - 0.5, place.top - 0.5, matrix.columns * place.x + 1, matrix.rows * place.y + 1);
      if (options.split) {
        pen.fillStyle = regard.css("ink");
        pen.fillRect(place.left + options.split * place.x - 1, place.top - 8, 2, matrix.rows * place.y + 12);
      }
      if (!cursor) return;
      pen.strokeStyle = regard.css("bad");
      pen.lineWidth = 2;
      pen.strokeRect(place.left + cursor.column * place.x, place.top + cursor.row * place.y, place.x, place.y);
      pen.lineWidth = 1;
    }

    function show(row, column) {
      cursor = { row: Math.min(matrix.rows - 1, Math.max(0, row)), column: Math.min(matrix.columns - 1, Math.max(0, column)) };
      readout.textContent = `${options.yName} ${name(options.rows, cursor.row)}, ${options.xName} ${name(options.columns, cursor.column)}: ${options.valueName} ${regard.number(matrix.at(cursor.row, cursor.column))}`;
      draw();
    }

    canvas.addEventListener("pointermove", (event) => {
      const column = Math.floor((event.offsetX - place.left) / place.x);
      const row = Math.floor((event.offsetY - place.top) / place.y);
      if (row >= 0 && column >= 0 && row < matrix.rows && column < matrix.columns) show(row, column);
    });
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -1e9], End: [0, 1e9] }[event.key];
      if (!move) return;
      event.preventDefault();
      cursor ? show(cursor.row + move[0], cursor.column + move[1]) : show(0, 0);
    });
    draw();
    return make("figure", { "data-view": "heatmap" },
      make("figcaption", { text: options.title }),
      make("div", { class: "scroll" }, canvas),
      regard.legend(matrix.scale, matrix.most, options.valueName, matrix.power), readout);
  };

  // Two columns of names and a line from each place that looks to each that is looked at.
  regard.lines = (matrix, { title, rows, columns, xName, yName }) => {
    const step = Math.max(rows.length, columns.length) > 120 ? 15 : 22;
    const [, ruler] = regard.canvas(1, 1);
    const shown = [rows.map((l) => regard.label(l)), columns.map((l) => regard.label(l))];
    const [left, right] = shown.map((labels) => width(ruler, labels));
    const [gap, top] = [220, 30];
    const size = { width: left + gap + right + 16, height: top + Math.max(rows.length, columns.length) * step + 6 };
    const readout = make("p", { class: "readout", "aria-live": "polite", text: "Point at a name on the left, or move by the arrow keys, to see its lines alone." });
    const [canvas, pen] = regard.canvas(size.width, size.height, { class: "map", role: "application", tabindex: "0", "aria-label": `${title}. Arrow keys choose a position that looks.` });
    let chosen = -1;

    function draw() {
      pen.clearRect(0, 0, size.width, size.height);
      pen.fillStyle = regard.css("faint");
      pen.textAlign = "right";
      pen.fillText(yName, left, 10);
      pen.textAlign = "left";
      pen.fillText(xName, left + gap, 10);
      pen.strokeStyle = regard.css("accent");
      for (let row = 0; row < rows.length; row++) {
        if (chosen >= 0 && row !== chosen) continue;
        for (let column = 0; column < columns.length; column++) {
          const weight = matrix.at(row, column);
          if (weight < 0.02) continue;
          pen.globalAlpha = Math.min(1, 0.08 + weight);
          pen.lineWidth = 0.5 + 4 * weight;
          pen.beginPath();
          pen.moveTo(left + 4, top + (row + 0.5) * step);
          pen.lineTo(left + gap - 6, top + (column + 0.5) * step);
          pen.stroke();
        }
      }
      pen.globalAlpha = 1;
      pen.fillStyle = regard.css("ink");
      const put = (labels, x, align, bold) => labels.forEach((label, n) => {
        pen.textAlign = align;
        pen.font = `${n === bold ? "bold " : ""}12px system-ui, sans-serif`;
        pen.fillText(label, x, top + (n + 0.5) * step);
      });
      put(shown[0], left - 2, "right", chosen);
      put(shown[1], left + gap, "left", -1);
      pen.font = "12px system-ui, sans-serif";
    }

    function show(row) {
      chosen = row;
      if (row >= 0) {
        const best = columns.map((label, n) => [matrix.at(row, n), label]).sort((a, b) => b[0] - a[0]).slice(0, 5);
        readout.textContent = `“${regard.label(rows[row], 40)}” looks at ${best.map(([w, l]) => `“${regard.label(l, 40)}” ${regard.number(w, 2)}`).join(", ")}`;
      }
      draw();
    }

    canvas.addEventListener("pointermove", (event) => {
      const row = Math.floor((event.offsetY - top) / step);
      const next = event.offsetX < left + gap / 2 && row >= 0 && row < rows.length ? row : -1;
      if (next !== chosen) show(next);
    });
    canvas.addEventListener("pointerleave", () => show(-1));
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!move) return;
      event.preventDefault();
      show(Math.min(rows.length - 1, Math.max(0, chosen + move)));
    });
    draw();
    return make("figure", { "data-view": "lines" }, make("figcaption", { text: title }),
      make("div", { class: "scroll" }, canvas),
      make("p", { class: "hint", text: "The stronger a line, the larger the weight; weights below 0.02 have none." }), readout);
  };
})();
