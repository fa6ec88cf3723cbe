// What the page carries: a tree of plain values, and arrays that are unpacked when looked at.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const unpacked = new Map();
  const KEPT = 24; // arrays that stay unpacked; the longest unused one goes first

  regard.content = () => (regard.tree ??= JSON.parse(document.getElementById("data").textContent));

  async function inflate(text) {
    const bytes = Uint8Array.fromBase64?.(text) ?? Uint8Array.from(atob(text), (glyph) => glyph.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // The bytes of an array; `regard.value` says what number a byte stands for.
  regard.block = (reference) => {
    const number = reference.block;
    const found = unpacked.get(number) ?? inflate(document.getElementById(`block-${number}`).textContent);
    unpacked.delete(number);
    unpacked.set(number, found);
    if (unpacked.size > KEPT) unpacked.delete(unpacked.keys().next().value);
    return found;
  };

  regard.value = (reference, byte) => {
    if (reference.scale === "weight") return (byte / regard.content().levels) ** 2;
    if (reference.scale === "gate") return byte / 255;
    const share = byte / 127 - 1;
    return Math.sign(share) * Math.abs(share) ** (1 / reference.power) * reference.most;
  };

  // What each of the 256 bytes stands for.
  const numbers = (reference) => Float32Array.from({ length: 256 }, (_, byte) => regard.value(reference, byte));

  // A matrix of an array of matrices. `bytes` from `start` on are its cells, `top` the largest.
  regard.matrix = async (reference, index = 0) => {
    const bytes = await regard.block(reference);
    const [rows, columns] = reference.shape.slice(-2);
    const start = index * rows * columns;
    const top = { weight: regard.content().levels, gate: 255, signed: 254 }[reference.scale];
    const table = numbers(reference);
    return {
      rows, columns, scale: reference.scale === "signed" ? "signed" : "weight", most: reference.most ?? 1, power: reference.power ?? 0.5,
      bytes, start, top,
      at: (row, column) => table[bytes[start + row * columns + column]],
    };
  };

  // The mean of all matrices of an array.
  regard.mean = async (reference) => {
    const bytes = await regard.block(reference);
    const [count, rows, columns] = reference.shape;
    const [table, size] = [numbers(reference), rows * columns];
    const means = new Float32Array(size);
    for (let first = 0; first < bytes.length; first += size) {
      for (let place = 0; place < size; place++) means[place] += table[bytes[first + place]];
    }
    const shown = Uint8Array.from(means, (sum) => Math.round(255 * Math.sqrt(sum / count)));
    return {
      rows, columns, scale: "weight", most: 1, power: 0.5, bytes: shown, start: 0, top: 255,
      at: (row, column) => means[row * columns + column] / count,
    };
  };

  // a − b, of two matrices of one shape.
  regard.difference = (a, b) => {
    const values = Float32Array.from({ length: a.rows * a.columns }, (_, n) =>
      a.at(Math.floor(n / a.columns), n % a.columns) - b.at(Math.floor(n / a.columns), n % a.columns));
    const most = values.reduce((top, value) => Math.max(top, Math.abs(value)), 0) || 1;
    return {
      rows: a.rows, columns: a.columns, scale: "signed", most, power: 0.5, start: 0, top: 254,
      bytes: Uint8Array.from(values, (value) => Math.round(127 * (1 + Math.sign(value) * Math.sqrt(Math.abs(value) / most)))),
      at: (row, column) => values[row * a.columns + column],
    };
  };

  regard.transposed = (matrix) => {
    const { rows, columns, bytes, start } = matrix;
    const turned = new Uint8Array(rows * columns);
    for (let row = 0, at = start; row < rows; row++) {
      for (let column = 0; column < columns; column++, at++) turned[column * rows + row] = bytes[at];
    }
    return { ...matrix, rows: columns, columns: rows, bytes: turned, start: 0,
      at: (row, column) => matrix.at(column, row) };
  };

  // Characters that would not be seen, or would turn the text around them, are spelt out.
  const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;
  const seen = (text, longest) => {
    const shown = text.replace(HIDDEN, (glyph) =>
      glyph === "\n" ? "↵" : `‹${glyph.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}›`);
    const glyphs = [...shown];
    return glyphs.length > longest ? glyphs.slice(0, longest - 1).join("") + "…" : shown;
  };

  // Tokens come with ▁ for a blank. A thin mark says where a word starts.
  regard.START = "ˈ";
  regard.starts = (piece) => /^▁./.test(piece);
  regard.plain = (piece, longest = 40) => seen(String(piece).replace(/^▁(?=.)/, "").replaceAll("▁", "␣"), longest);
  regard.label = (piece, longest = 18) => (regard.starts(piece) ? regard.START : "") + regard.plain(piece, longest);

  // What tokens spell together.
  regard.spelt = (pieces) => {
    const own = pieces.filter((piece) => !/^<(?:start|end|pad)>$/.test(piece));
    const between = own.some((piece) => piece.startsWith("▁")) || own.every((piece) => [...piece].length === 1) ? "" : " ";
    return own.join(between).replaceAll("▁", " ").trim();
  };

  regard.number = (value, digits = 3) => {
    const text = value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(1) : value.toFixed(digits);
    return /^-0\.?0*$/.test(text) ? text.slice(1) : text; // nothing is minus zero
  };

  regard.percent = (p) => (p > 0 && p < 0.0005 ? "< 0.1 %" : p < 1 && p > 0.9995 ? "> 99.9 %" : `${(100 * p).toFixed(1)} %`);

  // A choice that several views share; a view that has left the page is forgotten.
  regard.store = (start) => {
    const value = { ...start };
    let listeners = [];
    return {
      value,
      set(change) {
        Object.assign(value, change);
        listeners = listeners.filter(({ element }) => element.isConnected);
        for (const { run } of listeners) run(value);
      },
      listen(element, run) { listeners.push({ element, run }); },
    };
  };
})();
