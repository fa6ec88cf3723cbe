// A picture with what the model looked at drawn over it, and the filters and features of its first layers.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const choice = regard.store({ map: 0, cover: 60 });

  const mapsOf = (readings) => readings.map((reading) => reading.picture?.maps ?? []).reduce((a, b) => (b.length > a.length ? b : a));

  regard.pictureBar = (readings) => {
    const maps = mapsOf(readings);
    const cover = make("input", { type: "range", min: 0, max: 100, value: choice.value.cover, "data-control": "cover", "aria-label": "How much the colours cover, in percent" });
    cover.addEventListener("input", () => choice.set({ cover: Number(cover.value) }));
    return make("div", { class: "bar" },
      maps.length ? regard.dropdown("Show", maps.map(({ name }, n) => [n, name]), Math.min(choice.value.map, maps.length - 1), (value) => choice.set({ map: Number(value) })) : null,
      maps.length ? make("label", null, "Cover", cover) : null);
  };

  // The picture, enlarged without smoothing, and a colour for each place of the grid.
  async function drawn(place, { image, rows, columns, maps }) {
    const picture = new Image();
    picture.src = image;
    await picture.decode();
    const room = Math.min(regard.room(), 480);
    const scale = room / Math.max(picture.width, picture.height);
    const [width, height] = [picture.width, picture.height].map((side) => Math.round(side * scale));
    const map = maps[Math.min(choice.value.map, maps.length - 1)];
    const [canvas, pen] = regard.canvas(width, height, { role: "img", "data-view": "picture",
      "aria-label": map ? `The picture, with ${map.name} over it, in ${rows} × ${columns} places` : "The picture" });
    pen.imageSmoothingEnabled = scale < 1;
    pen.drawImage(picture, 0, 0, width, height);
    if (!map) return place.replaceChildren(canvas);
    const matrix = await regard.matrix(map.values);
    const [wide, high] = [width / columns, height / rows];
    pen.globalAlpha = choice.value.cover / 100;
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const share = matrix.bytes[matrix.start + row * columns + column] / matrix.top;
        pen.fillStyle = regard.colour(matrix.scale, share).ground;
        pen.fillRect(column * wide, row * high, wide, high);
      }
    }
    const name = matrix.scale === "signed" ? "contribution to the log-probability" : "share of the largest";
    place.replaceChildren(make("figure", null, canvas, make("figcaption", null, map.name)), regard.legend(matrix.scale, matrix.most, name, matrix.power));
  }

  // All matrices of an array side by side.
  async function gallery(title, values) {
    const pieces = [];
    for (let n = 0; n < values.shape[0]; n++) pieces.push(regard.thumbnail(await regard.matrix(values, n), 56));
    return [make("h3", { text: `${title}: ${values.shape[0]} of ${values.shape[1]} × ${values.shape[2]}` }),
      make("div", { class: "gallery", role: "img", "aria-label": title }, ...pieces)];
  }

  regard.picture = (reading) => {
    const shown = reading.picture;
    const [over, inside] = [make("div"), make("div")];
    const draw = () => drawn(over, shown);
    choice.listen(over, draw);
    draw();
    (async () => {
      if (shown.filters) inside.append(...await gallery("Filters that read pixels", shown.filters));
      for (const { name, values } of shown.features) inside.append(...await gallery(`Features, ${name}`, values));
    })();
    return make("div", null, regard.findings(reading), over, inside);
  };
})();
