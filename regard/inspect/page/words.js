// Input and output, pinned above all views: words that light up everywhere, entities as coloured spans,
// other tags below their words. A word that is lit shades those that have to do with it.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make, percent } = regard;
  const TAG = /^(?:O|[BIESLUM]-.+)$/;

  // Spans of tags such as B-PER, I-PER: [{ from, to, type }]; null where the tags are of another kind.
  regard.entities = (reading) => {
    const known = reading.tokens?.names ?? reading.said;
    if (!reading.of.length || !known.every((tag) => TAG.test(tag)) || !known.some((tag) => tag !== "O")) return null;
    const spans = [];
    reading.said.forEach((tag, n) => {
      if (tag === "O") return;
      const [how, type] = [tag[0], tag.slice(2)];
      const open = spans.at(-1);
      if ("IELM".includes(how) && open?.to === n && open.type === type) open.to = n + 1;
      else spans.push({ from: n, to: n + 1, type });
    });
    return spans;
  };

  const types = (reading) => [...new Set((reading.tokens?.names ?? reading.said).filter((tag) => tag !== "O").map((tag) => tag.slice(2)))];

  // The words of tokens: [{ text, keys, from, unknown }]; what stands for no text is left out.
  const spelt = (pieces, groups, keys, unknown = []) => (groups ?? pieces.map((_, n) => [n, n + 1]))
    .map(([from, to]) => ({ text: regard.plain(pieces.slice(from, to).join(""), 60), keys: keys[from], from, unknown: unknown.some((n) => n >= from && n < to) }))
    .filter(({ text }) => !/^<(start|end|pad)>$/.test(text));

  const word = ({ text, keys, unknown, label }, below = null) => make("button", { type: "button", class: `word${unknown ? " unknown" : ""}${label ? " label" : ""}`, "data-marks": keys, tabindex: "-1",
    "aria-pressed": String(keys === regard.held()), title: unknown ? "not in the vocabulary" : null, onclick: () => regard.hold(keys) },
    make("bdi", { text }), below ? make("small", { text: below }) : null);

  // Words in a row, of which the tab key reaches one and the arrow keys the others.
  const row = (name, children) => {
    const element = make("div", { class: "text", role: "toolbar", "aria-label": name }, ...children);
    const words = [...element.querySelectorAll(".word")];
    words[0]?.setAttribute("tabindex", "0");
    element.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -1e9, End: 1e9 }[event.key];
      const now = words.indexOf(document.activeElement);
      if (!step || now < 0) return;
      event.preventDefault();
      const next = words[Math.min(words.length - 1, Math.max(0, now + step))];
      words[now].tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
    return element;
  };

  const spaced = (elements) => elements.flatMap((element, n) => (n ? [" ", element] : [element]));

  // Words with their tags: spans of entities in colour, or each tag below its word.
  function tagged(reading) {
    const spans = regard.entities(reading);
    const kinds = types(reading);
    const words = reading.of.map((text, n) => ({ text: regard.plain(text, 60), keys: `s${n}`, unknown: (reading.unknown ?? []).some((at) => at >= (reading.source_words?.[n]?.[0] ?? n) && at < (reading.source_words?.[n]?.[1] ?? n + 1)) }));
    if (!spans) return spaced(words.map((each, n) => word(each, reading.said[n])));
    const found = [];
    for (let n = 0; n < words.length; n++) {
      const span = spans.find((each) => each.from === n);
      if (!span) { found.push(word(words[n])); continue; }
      found.push(make("span", { class: `entity hue${kinds.indexOf(span.type) % 7}` }, ...spaced(words.slice(n, span.to).map((each) => word(each))), " ", make("small", { text: span.type })));
      n = span.to - 1;
    }
    return spaced(found);
  }
  regard.tagged = (reading) => row("Words and their tags", tagged(reading));

  const plainText = (text) => make("div", { class: "text" }, make("bdi", { text: regard.label(text, 300) }));

  // What was read: of a language model, the beginning that it was given.
  function input(reading) {
    const marks = regard.marks(reading);
    if (reading.source.length && !reading.numbers) return row("Words of the input", spaced(spelt(reading.source, reading.source_words, marks.source, reading.unknown).map((each) => word(each))));
    const given = reading.read.length ? spelt(reading.said, reading.said_words, marks.said, reading.unknown).filter(({ from }) => from < reading.given) : [];
    return given.length && !reading.source.length ? row("Words of the input", spaced(given.map((each) => word(each)))) : plainText(reading.text);
  }

  function output(reading) {
    const marks = regard.marks(reading);
    if (reading.numbers) return plainText(reading.output);
    if (!reading.read.length) {
      return row("Labels of the output", spaced(reading.said.map((text, n) => word({ text: regard.plain(text, 60), keys: marks.said[n], label: true }, percent(reading.tokens.rows[n].p)))));
    }
    const said = spelt(reading.said, reading.said_words, marks.said).filter(({ from }) => reading.source.length || from >= reading.given);
    return said.length ? row("Words of the output", spaced(said.map((each) => word(each)))) : plainText(reading.output);
  }

  const line = (name, element) => make("div", { class: "line" }, make("span", { class: "side", text: name }), element);

  // What there is between two words, by key: of the alignment, else of the attribution.
  async function links(reading) {
    const [found, marks] = [new Map(), regard.marks(reading)];
    const add = (a, b, value) => {
      if (!a || !b) return;
      const of = found.get(a) ?? found.set(a, new Map()).get(a);
      of.set(b, (of.get(b) ?? 0) + value);
    };
    if (reading.alignment) {
      const matrix = await regard.matrix(reading.alignment.weights);
      reading.said_words?.forEach(([said], row) => reading.source_words?.forEach(([source], column) => {
        add(marks.said[said], marks.source[source], matrix.at(row, column));
        add(marks.source[source], marks.said[said], matrix.at(row, column));
      }));
    } else if (reading.attribution && !reading.numbers) {
      const matrix = await regard.matrix(reading.attribution.values);
      const keys = [...marks.source, ...marks.read];
      reading.attribution.places.forEach((place, row) => keys.forEach((key, column) => add(marks.said[place], key, matrix.at(row, column))));
    }
    return found;
  }

  // Words of the pinned lines take a colour while another is lit.
  async function shading(element, readings) {
    const all = await Promise.all(readings.map(links));
    const scale = readings.some((reading) => reading.alignment) ? "weight" : "signed";
    regard.watch(element, (lit) => {
      const near = new Map(all.flatMap((found) => lit.filter((key) => found.has(key)).slice(0, 1).flatMap((key) => [...found.get(key)])));
      const most = Math.max(...[...near.values()].map(Math.abs), 1e-9);
      element.querySelectorAll(".word").forEach((each) => {
        const value = near.get(each.dataset.marks) ?? 0;
        const { ground, ink } = regard.colour(scale, scale === "weight" ? value : 0.5 + value / most / 2);
        const shown = scale === "weight" ? value > 0.03 : Math.abs(value) > 0.04 * most;
        Object.assign(each.style, shown ? { background: ground, color: ink } : { background: "", color: "" });
      });
    });
  }

  // The lines above all views: the input once, the output of each run.
  regard.pin = (element, readings, names) => {
    const many = readings.length > 1;
    element.classList.toggle("many", many);
    element.replaceChildren(...readings.flatMap((reading, n) => {
      if (reading.of.length && !reading.numbers) return [line(many ? names[n] : "Words", regard.tagged(reading))];
      const whole = line(many ? `Output, ${names[n]}` : "Output", output(reading));
      return n && reading.source.length ? [whole] : [line("Input", input(reading)), whole];
    }));
    shading(element, readings);
  };
})();
