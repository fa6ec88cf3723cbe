// Vectors: positions as pictures, the neighbourhoods of tokens, and what each input contributes.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make, svg } = regard;
  const choice = regard.store({ picture: 0, side: 0, word: 0, said: 0 });

  const redrawn = (build) => {
    const element = make("div");
    const draw = () => regard.controls(element, build);
    draw();
    choice.listen(element, draw);
    return element;
  };

  regard.positionsBar = (readings) => redrawn(() => {
    const { positions } = readings.find((reading) => reading.positions);
    return [make("div", { class: "bar" }, regard.dropdown("Picture", positions.map((p, i) => [i, p.title]), Math.min(choice.value.picture, positions.length - 1), (value) => choice.set({ picture: Number(value) })))];
  });

  regard.positions = (reading) => redrawn(() => {
    const { title, values, similarity } = reading.positions[Math.min(choice.value.picture, reading.positions.length - 1)];
    const maps = make("div", { class: "two" });
    const room = regard.room();
    const beside = room >= 1000;
    Promise.all([regard.matrix(values), regard.matrix(similarity)]).then(([rows, likeness]) => {
      maps.append(
        regard.heatmap(rows, { title: `Encodings: ${title}`, rows: null, columns: null, room: beside ? 0.6 * room - 12 : room, cell: 24, high: rows.rows > 30 ? 7 : 14,
          xName: "dimension", yName: "position", valueName: "value" }),
        regard.heatmap(likeness, { title: "Similarity of positions (cosine)", rows: null, columns: null, room: beside ? 0.4 * room - 12 : Math.min(room, 560),
          high: rows.rows > 30 ? 7 : 14, xName: "position", yName: "position", valueName: "cosine" }));
    });
    return [make("p", { class: "hint", text: "What is added to a token's vector to say where it stands: a row for each position. Near positions are alike." }), maps];
  });

  function map(view, name, keys) {
    const width = Math.min(1400, regard.room());
    const [height, edge] = [width < 560 ? 520 : 460, 46];
    const [xs, ys] = [view.points.map((p) => p.x), view.points.map((p) => p.y)];
    const span = (values) => [Math.min(...values), Math.max(...values) - Math.min(...values) || 1];
    const [[left, wide], [low, high]] = [span(xs), span(ys)];
    const at = view.points.map((p) => [edge + ((p.x - left) / wide) * (width - 2 * edge - Math.min(60, width / 8)), height - edge - ((p.y - low) / high) * (height - 2 * edge)]);
    // A name stands beside its point where it does not lie on another, the text's own first; else it is
    // left out, and the reader finds it by pointing and in the table.
    const taken = at.map(([x, y]) => [x - 4, y - 4, x + 4, y + 4]);
    const spot = (x, y, label) => {
      const wide = 7 * [...label].length;
      const [right, left, middle] = [x + 7, x - 7 - wide, x - wide / 2];
      const places = [[right, y + 4], [left, y + 4], [middle, y - 8], [middle, y + 17], [right, y - 7], [right, y + 15],
        [left, y - 7], [left, y + 15], [middle, y - 20], [middle, y + 29], [right, y - 19], [left, y + 27]];
      const free = places.find(([left, base]) => left > 32 && left + wide < width - 12 && base < height - 34 && base > 16 &&
        !taken.some((o) => left < o[2] && o[0] < left + wide && base - 11 < o[3] && o[1] < base + 3));
      const found = free ?? null;
      if (found) taken.push([found[0], found[1] - 11, found[0] + wide, found[1] + 3]);
      return found;
    };
    const order = view.points.map((p, n) => n).sort((a, b) => view.points[b].own - view.points[a].own);
    const marks = order.map((n) => {
      const [x, y] = at[n];
      const point = view.points[n];
      const label = regard.label(point.piece, 14);
      const place = spot(x, y, label);
      return svg("g", { class: "point", "data-marks": keys.get(point.piece) || null },
        svg("circle", { cx: x, cy: y, r: point.own ? 5 : 3.5, fill: point.own ? regard.css("accent") : "none", stroke: regard.css(point.own ? "accent" : "faint"), "stroke-width": 1.5 },
          svg("title", { text: label })),
        place ? svg("text", { x: place[0], y: place[1], class: point.own ? null : "faint", "font-weight": point.own ? "600" : null, text: label }) : null);
    });
    const share = Math.round(100 * view.share);
    return make("figure", { "data-view": "map" },
      make("figcaption", { text: `Map of the ${name} vectors: the two directions in which they differ most (PCA; ${share} % of the variance)` }),
      make("div", { class: "legend" }, make("span", { class: "group" }, make("span", { class: "dot", style: { background: "var(--accent)" } }), "in the text"),
        make("span", { class: "group" }, make("span", { class: "dot", style: { border: "2px solid var(--faint)" } }), "a near neighbour")),
      svg("svg", { width, height, role: "img", "aria-label": `Map of ${view.points.length} tokens` },
        svg("rect", { x: 30, y: 4, width: width - 40, height: height - 34, fill: "none", stroke: regard.css("line") }), ...marks,
        svg("text", { x: width / 2, y: height - 8, "text-anchor": "middle", class: "faint", text: "first principal component →" }),
        svg("text", { transform: `translate(18 ${height / 2}) rotate(-90)`, "text-anchor": "middle", class: "faint", text: "second principal component →" })));
  }

  const side = (reading) => reading.embeddings[Math.min(choice.value.side, reading.embeddings.length - 1)];

  regard.embeddingsBar = (readings) => redrawn(() => {
    const { embeddings } = readings.find((reading) => reading.embeddings);
    return [make("div", { class: "bar" }, regard.choice("Vectors of", embeddings.map((e, i) => [i, e.side === "source" ? "input" : "output"]), Math.min(choice.value.side, embeddings.length - 1), (value) => choice.set({ side: Number(value) })))];
  });

  // All words that a token stands in.
  function keysOf(reading, of) {
    const marks = regard.marks(reading);
    const keys = new Map();
    const pieces = of === "source" ? [reading.source, marks.source] : [reading.said, marks.said];
    pieces[0].forEach((piece, n) => keys.set(piece, [...new Set([...(keys.get(piece)?.split(" ") ?? []), pieces[1][n]])].join(" ")));
    return keys;
  }

  regard.embeddings = (reading) => redrawn(() => {
    const view = side(reading);
    const keys = keysOf(reading, view.side);
    const rows = view.words.map((word) => ({ marks: keys.get(word.piece), cells: [regard.piece(word.piece),
      make("span", { class: "alternatives" }, ...word.near.map(([piece, cosine]) => make("span", null, regard.piece(piece), ` ${regard.number(cosine, 2)}`)))] }));
    return [
      make("p", { class: "hint", text: "Tokens that the model uses alike have vectors that point the same way." }),
      ...(view.points.length ? [map(view, view.side === "source" ? "input" : "output", keys)] : []),
      make("h3", { text: "Nearest neighbours, with the cosine of their angle" }),
      regard.table("Nearest neighbours", ["token", "nearest"], rows, { need: 480 })];
  });

  const saidOf = (reading) => reading.attribution.places.map((n) => (reading.of.length ? `${reading.of[n]}: ${reading.said[n]}` : reading.said[n]));

  regard.attributionBar = (readings) => {
    const reading = readings.filter((each) => each.attribution).reduce((a, b) => (b.attribution.places.length > a.attribution.places.length ? b : a));
    return redrawn(() => [make("div", { class: "bar" }, regard.dropdown("Contribution to", saidOf(reading).map((piece, n) => [n, `${reading.attribution.places[n]}: ${regard.plain(piece)}`]),
      Math.min(choice.value.said, reading.attribution.places.length - 1), (value) => choice.set({ said: Number(value) })))]);
  };

  // What each position contributed to one output: as words, or as a line where they are many.
  function alone(reading, matrix, row, inputs, keys) {
    const { places, totals, errors } = reading.attribution;
    const value = reading.numbers ? "the number" : "the log-probability";
    const last = reading.read.length ? reading.source.length + places[row] + 1 : inputs.length;
    const title = `To ${regard.plain(saidOf(reading)[row])} alone`;
    const list = () => make("ol", { class: "words" }, ...inputs.slice(0, last).map((piece, column) => {
      const here = matrix.at(row, column);
      const { ground, ink } = regard.colour("signed", 0.5 + (Math.sign(here) * Math.sqrt(Math.abs(here) / matrix.most)) / 2);
      return make("li", { style: { background: ground, color: ink }, "data-marks": keys[column] || null }, regard.piece(piece), make("small", { text: regard.number(here, 2) }));
    }));
    return [make("h3", { text: title }),
      inputs.length > 200 ? regard.chart({ title, labels: inputs, marks: keys, lines: [{ name: "contribution", values: inputs.map((_, column) => matrix.at(row, column)) }], xName: "read", yName: "contribution" }) : list(),
      make("p", { class: "hint", text: `Together they make ${regard.number(totals[row], 3)}, ${value} minus that without any input, to within ${(100 * errors[row]).toFixed(2)} %.` })];
  }

  regard.attribution = (reading) => {
    const { places, values } = reading.attribution;
    const marks = regard.marks(reading);
    const [inputs, keys] = [[...reading.source, ...reading.read], [...marks.source, ...marks.read]];
    const [strip, holder] = [make("div"), make("div")];
    const element = make("div", null, make("p", { class: "hint",
      text: `What each position that was read contributed to ${reading.numbers ? "the number" : "the log-probability"} of each that was said (integrated gradients, against vectors of zero). ${reading.numbers ? "Orange: made it larger; blue: smaller." : "Orange: made it more likely; blue: less likely."}` }), holder, strip);
    regard.matrix(values).then((matrix) => {
      const show = () => strip.replaceChildren(...alone(reading, matrix, Math.min(choice.value.said, matrix.rows - 1), inputs, keys));
      holder.append(regard.heatmap(matrix, { title: "Contribution of what was read (across) to what was said (down)", rows: saidOf(reading), columns: inputs,
        rowMarks: places.map((place) => marks.said[place]), columnMarks: keys, split: reading.source.length && reading.read.length ? reading.source.length : 0,
        xName: reading.source.length && reading.read.length ? "read: input, then output so far" : "read", yName: "said", valueName: "contribution" }));
      show();
      choice.listen(strip, show);
    });
    return element;
  };

  regard.pooling = (reading) => {
    const element = make("div", null, make("p", { class: "hint", text: "How much each position counts in the vector that stands for the whole text." }));
    regard.matrix(reading.pooling.weights).then((matrix) => element.append(regard.chart({ title: "Weights of the pooling", labels: reading.source, marks: regard.marks(reading).source,
      lines: [{ name: "weight", values: reading.source.map((_, n) => matrix.at(0, n)) }], xName: "position", yName: "weight", range: null })));
    return element;
  };
})();
