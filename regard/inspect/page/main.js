// The page: which text, which checkpoint, which view; runs stand side by side under one set of controls.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const VIEWS = [
    ["blanks", "Fill in", regard.blanks],
    ["numbers", "Numbers", regard.numbers],
    ["picture", "Picture", regard.picture, { bar: regard.pictureBar }],
    ["sound", "Sound", regard.sound],
    ["tokens", "Output", regard.output],
    ["attention", "Attention", regard.attention, { bar: regard.attentionBar, difference: regard.attentionDifference }],
    ["alignment", "Alignment", regard.alignment, { difference: regard.alignmentDifference }],
    ["beam", "Beam search", regard.beam, { bar: regard.beamBar }],
    ["heads", "Heads", regard.heads],
    ["transitions", "Transitions", regard.transitions],
    ["similarities", "Similarities", regard.similarities],
    ["attribution", "Attribution", regard.attribution, { bar: regard.attributionBar }],
    ["lens", "Logit lens", regard.lens],
    ["states", "States and gates", regard.states, { bar: regard.statesBar }],
    ["gradient", "Gradient", regard.gradient, { bar: regard.gradientBar }],
    ["pooling", "Pooling", regard.pooling],
    ["positions", "Positions", regard.positions, { bar: regard.positionsBar }],
    ["embeddings", "Embeddings", regard.embeddings, { bar: regard.embeddingsBar }],
    ["senses", "One word", regard.senses, { bar: regard.sensesBar }],
  ];
  const chosen = { text: 0, frame: Infinity, view: "" };
  let playing = 0;

  const frameOf = (run) => run.frames[Math.min(chosen.frame, run.frames.length - 1)];

  // What each run made of the text; those that say the same share the keys of their words.
  function readings() {
    const found = regard.content().runs.map((run) => frameOf(run).readings[chosen.text]);
    const same = found.map((reading) => JSON.stringify([reading.said, reading.said_words]));
    found.forEach((reading, n) => {
      const twin = same.indexOf(same[n]);
      if (reading.twin !== twin) Object.assign(reading, { twin, marks: null });
    });
    return found;
  }

  const available = (found) => VIEWS.filter(([key]) => found.some((reading) => reading[key]));

  function tabs() {
    const bar = document.getElementById("tabs");
    const views = available(readings());
    if (!views.some(([key]) => key === chosen.view)) chosen.view = views[0][0];
    bar.replaceChildren(...views.map(([key, title]) => make("button", {
      type: "button", role: "tab", id: `tab-${key}`, text: title, "aria-controls": "panel",
      "aria-selected": String(key === chosen.view), tabindex: key === chosen.view ? "0" : "-1",
      onclick: () => open(key),
      onkeydown: (event) => {
        const place = views.findIndex(([other]) => other === key);
        const next = { ArrowRight: place + 1, ArrowLeft: place - 1 + views.length, Home: 0, End: views.length - 1 }[event.key];
        if (next === undefined) return;
        event.preventDefault();
        open(views[next % views.length][0]);
        document.getElementById(`tab-${chosen.view}`).focus();
      },
    })));
  }

  // Open a view; where a link leads there, its heading takes the focus.
  function open(key, focus = false) {
    chosen.view = key;
    history.replaceState(null, "", `#${key}`);
    tabs();
    draw();
    if (focus) document.querySelector("#panel h2").focus();
  }
  regard.open = open;

  const titled = (run) => {
    const frame = frameOf(run);
    const without = frame.without.length ? `, without ${frame.without.join(", ")}` : "";
    return `${run.name} (${run.task}, ${frame.label}${without})`;
  };

  function draw() {
    const [, title, view, { bar, difference } = {}] = VIEWS.find(([key]) => key === chosen.view);
    const { runs } = regard.content();
    const [found, names] = [readings(), runs.map((run) => run.name)];
    regard.pin(document.getElementById("said"), found, names);
    const columns = make("div", { class: "columns" });
    columns.style.setProperty("--runs", regard.beside());
    const panel = make("div", { id: "panel", role: "tabpanel", "aria-labelledby": `tab-${chosen.view}` },
      make("h2", { text: title, tabindex: "-1" }), bar ? bar(found) : null, columns);
    document.getElementById("views").replaceChildren(panel);
    if (found.length > 1 && (chosen.view === "tokens" || chosen.view === "numbers")) columns.before(regard.compared(found, names));
    runs.forEach((run, n) => {
      const section = make("section", { "aria-label": run.name }, make("p", { class: "run", text: titled(run) }));
      columns.append(section);
      section.append(found[n][chosen.view] ? view(found[n]) : make("p", { class: "hint", text: "This run has nothing to show here." }));
    });
    if (difference) {
      const [first, ...others] = found.map((reading, n) => [reading, names[n]]).filter(([reading]) => reading[chosen.view]);
      panel.append(...others.map(([other, name]) => difference([first[0], other], [first[1], name], regard.inner())));
    }
    fit();
  }

  // Input and output stay in sight unless they would take too much of the screen.
  function fit() {
    const pinned = document.getElementById("pinned");
    pinned.classList.remove("tight", "long");
    if (pinned.offsetHeight > 0.3 * innerHeight) pinned.classList.add("tight");
    if (pinned.offsetHeight > 0.45 * innerHeight) pinned.classList.add("long");
    const under = pinned.classList.contains("long") ? 0 : pinned.offsetHeight;
    document.documentElement.style.setProperty("--under", `${under}px`);
  }

  function slider(count) {
    const { runs } = regard.content();
    const longest = runs.reduce((a, b) => (b.frames.length > a.frames.length ? b : a));
    const output = make("output", { text: longest.frames.at(-1).label });
    const input = make("input", { type: "range", min: 0, max: count - 1, value: count - 1, step: 1, "aria-label": "Checkpoint", "data-control": "replay" });
    const move = (frame) => {
      input.value = chosen.frame = frame;
      output.textContent = longest.frames[frame].label;
      input.setAttribute("aria-valuetext", output.textContent);
      tabs();
      draw();
    };
    input.addEventListener("input", () => move(Number(input.value)));
    const stop = () => { clearInterval(playing); playing = 0; button.textContent = "Play"; };
    const button = make("button", { type: "button", text: "Play", onclick: () => {
      if (playing) return stop();
      button.textContent = "Stop";
      move(0);
      playing = setInterval(() => (chosen.frame + 1 < count ? move(chosen.frame + 1) : stop()), 900);
    } });
    return make("span", { class: "group" }, "Checkpoint", input, output, button);
  }

  function controls() {
    const { texts, runs } = regard.content();
    const theme = make("button", { type: "button", text: "◐", "aria-label": "Light or dark", title: "Light or dark", onclick: () => {
      document.documentElement.dataset.theme = regard.dark() ? "light" : "dark";
      draw();
    } });
    const count = Math.max(...runs.map((run) => run.frames.length));
    document.getElementById("controls").replaceChildren(
      ...(texts.length > 1 ? [regard.dropdown("Text", texts.map((text, n) => [n, regard.label(text, 70)]), 0, (value) => { chosen.text = Number(value); tabs(); draw(); })] : []),
      ...(count > 1 ? [slider(count)] : []), theme);
  }

  const asked = location.hash.slice(1);
  if (VIEWS.some(([key]) => key === asked)) chosen.view = asked;
  controls();
  tabs();
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  // Pictures are as wide as the window was; a new width draws them again.
  let [wide, waiting] = [innerWidth, 0];
  addEventListener("resize", () => {
    if (innerWidth === wide) return fit();
    wide = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(draw, 120);
  });
  document.documentElement.dataset.ready = "true";
})();
