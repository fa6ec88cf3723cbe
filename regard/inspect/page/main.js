// The page: which text, which checkpoint, which view; runs stand side by side.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const VIEWS = [
    ["numbers", "Numbers", regard.numbers],
    ["tokens", "Output", regard.output],
    ["attention", "Attention", regard.attention],
    ["alignment", "Alignment", regard.alignment],
    ["beam", "Beam search", regard.beam],
    ["heads", "Heads", regard.heads],
    ["transitions", "Transitions", regard.transitions],
    ["attribution", "Attribution", regard.attribution],
    ["lens", "Logit lens", regard.lens],
    ["states", "States and gates", regard.states],
    ["gradient", "Gradient", regard.gradient],
    ["pooling", "Pooling", regard.pooling],
    ["positions", "Positions", regard.positions],
    ["embeddings", "Embeddings", regard.embeddings],
  ];
  const chosen = { text: 0, frame: Infinity, view: "tokens" };
  let playing = 0;

  const frameOf = (run) => run.frames[Math.min(chosen.frame, run.frames.length - 1)];

  function available() {
    const readings = regard.content().runs.map((run) => frameOf(run).readings[chosen.text]);
    return VIEWS.filter(([key]) => readings.some((reading) => reading[key]));
  }

  function tabs() {
    const bar = document.getElementById("tabs");
    const views = available();
    if (!views.some(([key]) => key === chosen.view)) chosen.view = views[0][0];
    bar.replaceChildren(...views.map(([key, title]) => make("button", {
      type: "button", role: "tab", id: `tab-${key}`, text: title, "aria-controls": "panel",
      "aria-selected": String(key === chosen.view), tabindex: key === chosen.view ? "0" : "-1",
      onclick: () => open(key),
      onkeydown: (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!step) return;
        const place = views.findIndex(([other]) => other === key);
        open(views[(place + step + views.length) % views.length][0]);
        document.getElementById(`tab-${chosen.view}`).focus();
      },
    })));
  }

  function open(key) {
    chosen.view = key;
    history.replaceState(null, "", `#${key}`);
    tabs();
    draw();
  }

  function draw() {
    const [, title, view] = VIEWS.find(([key]) => key === chosen.view);
    const { runs } = regard.content();
    const columns = make("div", { class: "columns" });
    columns.style.setProperty("--runs", runs.length);
    document.getElementById("views").replaceChildren(make("div", {
      id: "panel", role: "tabpanel", "aria-labelledby": `tab-${chosen.view}` },
      make("h2", { text: title }), columns));
    for (const run of runs) {
      const frame = frameOf(run);
      const without = frame.without.length ? `, without ${frame.without.join(", ")}` : "";
      const section = make("section", { "aria-label": run.name },
        make("p", { class: "run", text: `${run.name} (${run.task}, ${frame.label}${without})` }));
      columns.append(section);
      const reading = frame.readings[chosen.text];
      section.append(reading[chosen.view] ? view(reading) : make("p", { class: "hint", text: "This run has nothing to show here." }));
    }
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
    const theme = make("button", { type: "button", text: "Light or dark", onclick: () => {
      document.documentElement.dataset.theme = regard.dark() ? "light" : "dark";
      draw();
    } });
    const count = Math.max(...runs.map((run) => run.frames.length));
    document.getElementById("controls").replaceChildren(
      texts.length > 1
        ? regard.dropdown("Text", texts.map((text, n) => [n, regard.label(text, 70)]), 0, (value) => { chosen.text = Number(value); tabs(); draw(); })
        : make("span", null, "Text: ", make("bdi", { text: regard.label(texts[0], 160) })),
      ...(count > 1 ? [slider(count)] : []), theme);
  }

  const asked = location.hash.slice(1);
  if (VIEWS.some(([key]) => key === asked)) chosen.view = asked;
  controls();
  tabs();
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  document.documentElement.dataset.ready = "true";
})();
