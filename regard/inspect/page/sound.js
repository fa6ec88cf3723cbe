// A sound: its spectrogram, the tokens where they were heard, and a player.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const [ABOVE, HIGH, BELOW] = [26, 220, 22]; // pixels for tokens, frames and times

  async function drawn(place, { frames, seconds, letters }, player) {
    const width = Math.min(regard.room(), 1100);
    const heard = letters.map(({ text }) => text).join(" ");
    const [canvas, pen] = regard.canvas(width, ABOVE + HIGH + BELOW, { role: "img", "data-view": "sound",
      "aria-label": `Spectrogram of ${regard.number(seconds, 3)} seconds${heard ? `; heard: ${heard}` : ""}` });
    const matrix = await regard.matrix(frames);
    const [wide, high] = [width / matrix.columns, HIGH / matrix.rows];
    for (let row = 0; row < matrix.rows; row++) {
      for (let column = 0; column < matrix.columns; column++) {
        pen.fillStyle = regard.colour("weight", matrix.bytes[matrix.start + row * matrix.columns + column] / matrix.top).ground;
        pen.fillRect(column * wide, ABOVE + row * high, wide + 0.5, high + 0.5);
      }
    }
    pen.textAlign = "center";
    for (const { text, first, end } of letters) {
      const [left, right] = [first, end].map((time) => (time / seconds) * width);
      pen.fillStyle = regard.colour("signed", 0.75).ground;
      pen.fillRect(left, ABOVE - 4, Math.max(2, right - left), 4);
      pen.fillRect(left, ABOVE, 1, HIGH);
      pen.fillStyle = regard.css("ink") || (regard.dark() ? "#ffffff" : "#000000");
      pen.fillText(regard.plain(text), (left + right) / 2, 10);
    }
    pen.fillStyle = regard.css("ink") || (regard.dark() ? "#ffffff" : "#000000");
    const step = [0.1, 0.2, 0.5, 1, 2, 5, 10].find((each) => (each / seconds) * width > 60) ?? 30;
    for (let time = 0; time <= seconds; time += step) pen.fillText(`${regard.number(time, 2)} s`, Math.min(width - 20, Math.max(20, (time / seconds) * width)), ABOVE + HIGH + 12);
    canvas.addEventListener("click", (event) => { player.currentTime = (event.offsetX / width) * seconds; player.play(); });
    place.replaceChildren(canvas);
  }

  regard.sound = (reading) => {
    const shown = reading.sound;
    const player = make("audio", { controls: "", src: shown.audio, "aria-label": "The sound" });
    const place = make("div");
    drawn(place, shown, player);
    const rows = shown.letters.map(({ text, first, end }) => ({ cells: [regard.plain(text), regard.number(first, 3), regard.number(end, 3)] }));
    return make("div", null, player, place,
      rows.length ? make("details", null, make("summary", { text: "Times" }), regard.table("Times", ["token", "from, seconds", "to, seconds"], rows)) : null);
  };
})();
