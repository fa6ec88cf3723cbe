// A matrix as colours, with named rows and columns; pointer and arrow keys read out single cells. Where
// the names of the columns have no room side by side, the map goes on below, as a text does.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const [NAME, FOLDED] = [13, 128]; // pixels that a name takes; more columns than that are not folded

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

  // A name that is at most so wide; the rest of it is read out.
  regard.fitted = (pen, text, width) => {
    if (pen.measureText(text).width <= width) return text;
    const glyphs = [...text];
    while (glyphs.length > 1 && pen.measureText(`${glyphs.join("")}…`).width > width) glyphs.pop();
    return `${glyphs.join("")}…`;
  };

  regard.widest = (pen, names) => Math.ceil(Math.max(10, ...names.map((name) => pen.measureText(name).width)));

  // Where everything stands: margins for the names, how large a cell is, and how many columns stand in a band.
  function layout(matrix, { rows, columns, room, cell = 80, high }) {
    const [, pen] = regard.canvas(1, 1);
    const names = [rows, columns].map((labels) => labels?.map((label) => regard.label(label)));
    const left = 20 + (names[0] ? Math.min(regard.widest(pen, names[0]) + 8, Math.max(70, 0.32 * room)) : 34);
    const free = Math.max(60, room - left - 4);
    const most = columns && matrix.columns <= FOLDED ? Math.max(1, Math.floor(free / NAME)) : matrix.columns;
    const bands = Math.ceil(matrix.columns / most);
    const per = Math.ceil(matrix.columns / bands);
    const x = Math.min(cell, free / per);
    const wide = names[1] ? regard.widest(pen, names[1]) : 0;
    const flat = !names[1] || wide + 8 <= x; // names have room side by side
    const top = 22 + (flat ? 16 : Math.min(wide, 120) + 8);
    const y = high ?? (matrix.rows > FOLDED ? Math.max(2, 900 / matrix.rows) : Math.max(rows ? NAME + 1 : 3, Math.min(x, 30)));
    const whole = top + Math.max(rows && matrix.rows < 3 ? 40 : 0, matrix.rows * y) + 14;
    return { names, left, top, x, y, per, bands, whole, flat, width: left + per * x + 4, height: bands * whole };
  }

  function names(pen, matrix, place, options, band) {
    const [from, to] = [band * place.per, Math.min(matrix.columns, (band + 1) * place.per)];
    const base = band * place.whole + place.top;
    const put = (label, lit, width, align) => {
      const text = regard.fitted(pen, label, width);
      if (lit) {
        const wide = pen.measureText(text).width;
        pen.fillStyle = regard.css("mark");
        pen.fillRect(align === "right" ? -wide - 3 : align === "center" ? -wide / 2 - 3 : -3, -8, wide + 6, 16);
      }
      pen.fillStyle = regard.css("ink");
      pen.textAlign = align;
      pen.fillText(text, 0, 0);
    };
    const at = (x, y, turned, draw) => {
      pen.save();
      pen.translate(x, y);
      if (turned) pen.rotate(-Math.PI / 2);
      draw();
      pen.restore();
    };
    // Every name where there is room; of numbers, round ones.
    const chosen = (labels, first, last, size) => {
      if (!labels) return regard.ticks(first, last - 1, Math.max(2, Math.floor(((last - first) * size) / 60))).map((t) => t.value).filter(Number.isInteger);
      const every = Math.max(1, Math.ceil(NAME / size));
      return Array.from({ length: Math.ceil((last - first) / every) }, (_, n) => first + n * every);
    };
    for (const n of chosen(place.names[0], 0, matrix.rows, place.y)) {
      at(place.left - 6, base + (n + 0.5) * place.y, false, () => put(place.names[0]?.[n] ?? String(n), regard.lit(options.rowMarks?.[n] ?? ""), place.left - 26, "right"));
    }
    for (const n of chosen(place.names[1], from, to, place.x)) {
      const middle = place.left + (n - from + 0.5) * place.x;
      at(middle, base - (place.flat ? 10 : 6), !place.flat, () => put(place.names[1]?.[n] ?? String(n), regard.lit(options.columnMarks?.[n] ?? ""), place.flat ? 1e3 : place.top - 30, place.flat ? "center" : "left"));
    }
    if (band) return; // what rows and columns are is said once
    pen.fillStyle = regard.css("faint");
    at(place.left, base - place.top + 9, false, () => { pen.textAlign = "left"; pen.fillText(`${options.xName} →`, 0, 0); });
    at(9, base, true, () => { pen.textAlign = "right"; pen.fillText(regard.fitted(pen, `← ${options.yName}`, matrix.rows * place.y + place.top - 20), 0, 0); });
  }

  function cells(pen, picture, matrix, place, options, cursor) {
    for (let band = 0; band < place.bands; band++) {
      const from = band * place.per;
      const count = Math.min(place.per, matrix.columns - from);
      const [left, top] = [place.left, band * place.whole + place.top];
      const [width, height] = [count * place.x, matrix.rows * place.y];
      names(pen, matrix, place, options, band);
      pen.imageSmoothingEnabled = place.x < 1;
      pen.drawImage(picture, from, 0, count, matrix.rows, left, top, width, height);
      pen.strokeStyle = regard.css("line");
      pen.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
      const split = (options.split || -1) - from;
      if (split >= 0 && split <= count) {
        pen.fillStyle = regard.css("ink");
        pen.fillRect(left + split * place.x - 1, top - 8, 2, height + 12);
      }
      pen.strokeStyle = regard.css("ring");
      pen.lineWidth = 1.5;
      options.rowMarks?.forEach((key, n) => { if (regard.lit(key)) pen.strokeRect(left, top + n * place.y, width, place.y); });
      options.columnMarks?.slice(from, from + count).forEach((key, n) => { if (regard.lit(key)) pen.strokeRect(left + n * place.x, top, place.x, height); });
      pen.lineWidth = 1;
      if (!cursor || Math.floor(cursor.column / place.per) !== band) continue;
      pen.strokeStyle = regard.css("bad");
      pen.lineWidth = 2;
      pen.strokeRect(left + (cursor.column - from) * place.x, top + cursor.row * place.y, place.x, place.y);
      pen.lineWidth = 1;
    }
  }

  // The cell under a point, or null.
  function found(matrix, place, x, y) {
    const band = Math.floor(y / place.whole);
    const row = Math.floor((y - band * place.whole - place.top) / place.y);
    const column = Math.floor((x - place.left) / place.x);
    const inside = row >= 0 && row < matrix.rows && column >= 0 && column < place.per && band * place.per + column < matrix.columns;
    return inside ? [row, band * place.per + column] : null;
  }

  // options: title, rows, columns (names, or null for numbers), rowMarks, columnMarks (keys of words), xName, yName,
  // valueName, room, cell, high (the largest width and the height of a cell), split (a column before which a line is drawn)
  regard.heatmap = (matrix, given) => {
    const options = { room: regard.room(), ...given };
    const place = layout(matrix, options);
    const readout = make("p", { class: "readout", "aria-live": "polite", text: "Point at a cell, or move through the cells by the arrow keys." });
    const [canvas, pen] = regard.canvas(place.width, place.height, {
      class: "map", role: "application", tabindex: "0", "aria-label": `${options.title}. ${options.yName} down, ${options.xName} across; arrow keys read out cells.`,
    });
    const picture = pixels(matrix);
    const name = (labels, n) => (labels ? `“${regard.plain(labels[n])}” (${n})` : String(n));
    let cursor = null;

    function draw() {
      pen.clearRect(0, 0, place.width, place.height);
      cells(pen, picture, matrix, place, options, cursor);
    }

    function show(row, column) {
      cursor = { row: Math.min(matrix.rows - 1, Math.max(0, row)), column: Math.min(matrix.columns - 1, Math.max(0, column)) };
      readout.textContent = `${options.yName} ${name(options.rows, cursor.row)}, ${options.xName} ${name(options.columns, cursor.column)}: ${options.valueName} ${regard.number(matrix.at(cursor.row, cursor.column))}`;
      regard.light([options.rowMarks?.[cursor.row], options.columnMarks?.[cursor.column]]);
      draw();
    }

    for (const kind of ["pointermove", "pointerdown"]) {
      canvas.addEventListener(kind, (event) => {
        const at = found(matrix, place, event.offsetX, event.offsetY);
        if (at) show(...at);
      });
    }
    canvas.addEventListener("pointerleave", () => regard.rest());
    canvas.addEventListener("keydown", (event) => {
      const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -1e9], End: [0, 1e9] }[event.key];
      if (!move) return;
      event.preventDefault();
      cursor ? show(cursor.row + move[0], cursor.column + move[1]) : show(0, 0);
    });
    draw();
    if (options.rowMarks || options.columnMarks) regard.watch(canvas, draw);
    return make("figure", { "data-view": "heatmap" },
      make("figcaption", { text: options.title }), canvas,
      regard.legend(matrix.scale, matrix.most, options.valueName, matrix.power), readout);
  };
})();
