// Vectors: positions as pictures, the neighbourhoods of tokens, and what each input contributes.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make, svg } = regard;
  const choice = regard.store({ picture: 0, side: 0, word: 0, said: 0 });

  regard.positions = (reading) => {
    const element = make("div");
    const draw = () => {
      const n = Math.min(choice.value.picture, reading.positions.length - 1);
      const { title, values, similarity } = reading.positions[n];
      const maps = make("div");
      element.replaceChildren(
        make("p", { class: "hint", text: "What is added to a token's vector to say where it stands: a row for each position. Near positions are alike." }),
        make("div", { class: "bar" }, regard.dropdown("Picture", reading.positions.map((p, i) => [i, p.title]), n, (value) => choice.set({ picture: Number(value) }))), maps);
      Promise.all([regard.matrix(values), regard.matrix(similarity)]).then(([rows, likeness]) => requestAnimationFrame(() => {
        const room = element.clientWidth || 700;
        maps.append(
          regard.heatmap(rows, { title: `Encodings: ${title}`, rows: null, columns: null, room, cell: 16, high: rows.rows > 30 ? 7 : 14,
            xName: "dimension", yName: "position", valueName: "value" }),
          regard.heatmap(likeness, { title: "Similarity of positions (cosine)", rows: null, columns: null, room: Math.min(room, 560),
            xName: "position", yName: "position", valueName: "cosine" }));
      }));
    };
    draw();
    choice.listen(element, draw);
    return element;
  };

  function map(view, name) {
    const [width, height, edge] = [680, 440, 46];
    const [xs, ys] = [view.points.map((p) => p.x), view.points.map((p) => p.y)];
    const span = (values) => [Math.min(...values), Math.max(...values) - Math.min(...values) || 1];
    const [[left, wide], [low, high]] = [span(xs), span(ys)];
    const at = view.points.map((p) => [edge + ((p.x - left) / wide) * (width - 2 * edge - 60), height - edge - ((p.y - low) / high) * (height - 2 * edge)]);
    // A name stands beside its point where it does not lie on another; else it is left out, but for
    // the text's own, and the reader finds it by pointing.
    const taken = at.map(([x, y]) => [x - 4, y - 4, x + 4, y + 4]);
    const spot = (x, y, label, own) => {
      const wide = 7 * [...label].length;
      const [right, left, middle] = [x + 7, x - 7 - wide, x - wide / 2];
      const places = [[right, y + 4], [left, y + 4], [middle, y - 8], [middle, y + 17], [right, y - 7], [right, y + 15],
        [left, y - 7], [left, y + 15], [middle, y - 20], [middle, y + 29], [right, y - 19], [left, y + 27]];
      const free = places.find(([left, base]) => left > 32 && left + wide < width - 12 &&
        !taken.some((o) => left < o[2] && o[0] < left + wide && base - 11 < o[3] && o[1] < base + 3));
      const found = free ?? (own ? places[0] : null);
      if (found) taken.push([found[0], found[1] - 11, found[0] + wide, found[1] + 3]);
      return found;
    };
    const order = view.points.map((p, n) => n).sort((a, b) => view.points[b].own - view.points[a].own);
    const marks = order.map((n) => {
      const [x, y] = at[n];
      const point = view.points[n];
      const label = regard.label(point.piece, 14);
      const place = spot(x, y, label, point.own);
      return svg("g", null,
        svg("circle", { cx: x, cy: y, r: point.own ? 5 : 3.5, fill: point.own ? regard.css("accent") : "none", stroke: regard.css(point.own ? "accent" : "faint"), "stroke-width": 1.5 },
          svg("title", { text: label })),
        place ? svg("text", { x: place[0], y: place[1], class: point.own ? null : "faint", "font-weight": point.own ? "600" : null, text: label }) : null);
    });
    const share = Math.round(100 * view.share);
    return make("figure", { "data-view": "map" },
      make("figcaption", { text: `Map of the ${name} vectors: the two directions in which they differ most (PCA; ${share} % of the variance)` }),
      make("div", { class: "legend" }, make("span", { class: "group" }, make("span", { class: "dot", style: { background: "var(--accent)" } }), "in the text"),
        make("span", { class: "group" }, make("span", { class: "dot", style: { border: "2px solid var(--faint)" } }), "a near neighbour")),
      make("div", { class: "scroll wide", tabindex: "0", role: "region", "aria-label": "Map of vectors" },
        svg("svg", { width, height, role: "img", "aria-label": `Map of ${view.points.length} tokens` },
          svg("rect", { x: 30, y: 4, width: width - 40, height: height - 34, fill: "none", stroke: regard.css("line") }), ...marks,
          svg("text", { x: width / 2, y: height - 8, "text-anchor": "middle", class: "faint", text: "first principal component →" }),
          svg("text", { transform: `translate(18 ${height / 2}) rotate(-90)`, "text-anchor": "middle", class: "faint", text: "second principal component →" }))));
  }

  regard.embeddings = (reading) => {
    const element = make("div");
    const draw = () => {
      const n = Math.min(choice.value.side, reading.embeddings.length - 1);
      const view = reading.embeddings[n];
      const rows = view.words.map((word) => make("tr", null, make("th", { scope: "row" }, regard.piece(word.piece)),
        make("td", null, make("span", { class: "alternatives" }, ...word.near.map(([piece, cosine]) => make("span", null, regard.piece(piece), ` ${regard.number(cosine, 2)}`))))));
      element.replaceChildren(
        make("p", { class: "hint", text: "Tokens that the model uses alike have vectors that point the same way." }),
        make("div", { class: "bar" }, regard.choice("Vectors of", reading.embeddings.map((e, i) => [i, e.side === "source" ? "input" : "output"]), n, (value) => choice.set({ side: Number(value) }))),
        view.points.length ? map(view, view.side === "source" ? "input" : "output") : null,
        make("h3", { text: "Nearest neighbours, with the cosine of their angle" }),
        regard.region("Nearest neighbours", make("table", null, make("thead", null, make("tr", null, make("th", { scope: "col", text: "token" }), make("th", { scope: "col", text: "nearest" }))), make("tbody", null, ...rows))));
    };
    draw();
    choice.listen(element, draw);
    return element;
  };

  regard.attribution = (reading) => {
    const { places, values, totals, errors } = reading.attribution;
    const value = reading.numbers ? "the number" : "the log-probability";
    const said = places.map((n) => (reading.of.length ? `${reading.of[n]}: ${reading.said[n]}` : reading.said[n]));
    const element = make("div", null, make("p", { class: "hint",
      text: `What each position that was read contributed to ${value} of each that was said (integrated gradients, against vectors of zero). ${reading.numbers ? "Orange: made it larger; blue: smaller." : "Orange: made it more likely; blue: less likely."}` }));
    const inputs = [...reading.source.map((piece) => piece), ...reading.read];
    const strip = make("div");
    const holder = make("div");
    element.append(holder, strip);
    regard.matrix(values).then((matrix) => requestAnimationFrame(() => {
      const cut = reading.source.length;
      const name = cut && reading.read.length ? "read: input, then output so far" : "read";
      const show = () => {
        const row = Math.min(choice.value.said, matrix.rows - 1);
        const alone = inputs.length > 80 ? [regard.chart({ title: `Contribution to ${regard.label(said[row])}`, labels: inputs,
          lines: [{ name: "contribution", values: inputs.map((_, column) => matrix.at(row, column)) }], xName: "read", yName: "contribution" })] : null;
        const list = alone ? [] : inputs.map((piece, column) => {
          const value = matrix.at(row, column);
          const { ground, ink } = regard.colour("signed", 0.5 + (Math.sign(value) * Math.sqrt(Math.abs(value) / matrix.most)) / 2);
          return column >= cut + places[row] + 1 && reading.read.length ? null : make("li", { style: { background: ground, color: ink } }, regard.piece(piece), make("small", { text: regard.number(value, 2) }));
        });
        strip.replaceChildren(make("h3", { text: "One of them alone" }),
          make("div", { class: "bar" }, regard.dropdown("Said", said.map((piece, n) => [n, `${places[n]}: ${regard.label(piece)}`]), row, (value) => choice.set({ said: Number(value) }))),
          ...(alone ?? [make("ol", { class: "words" }, ...list)]),
          make("p", { class: "hint", text: `Together they make ${regard.number(totals[row], 3)}, ${value} minus that without any input, to within ${(100 * errors[row]).toFixed(2)} %.` }));
      };
      holder.append(regard.heatmap(matrix, { title: "Contribution of what was read (across) to what was said (down)", rows: said, columns: inputs,
        room: element.clientWidth || 700, split: reading.read.length ? cut : 0, xName: name, yName: "said", valueName: "contribution" }));
      show();
      choice.listen(strip, show);
    }));
    return element;
  };

  regard.pooling = (reading) => {
    const element = make("div", null, make("p", { class: "hint", text: "How much each position counts in the vector that stands for the whole text." }));
    regard.matrix(reading.pooling.weights).then((matrix) => element.append(regard.chart({ title: "Weights of the pooling", labels: reading.source,
      lines: [{ name: "weight", values: reading.source.map((_, n) => matrix.at(0, n)) }], xName: "position", yName: "weight", range: null })));
    return element;
  };
})();
