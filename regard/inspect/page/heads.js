// What every head does over many sentences, and what it costs to be without it.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const TITLES = {
    previous: "on the previous token", itself: "on itself", next: "on the next token", first: "on the first", last: "on the last",
    says: "on the word to say", reads: "on the word just read", spread: "spread over", cost: "cost when switched off",
  };
  const HINTS = {
    encoder: "Mean share of the weight that falls on each place.", decoder: "Mean share of the weight that falls on each place.",
    cross: "How often the input word with the largest weight is the translation of the word that is to be said next, and of the one that was just read, by a dictionary that knows nothing of the model.",
  };
  const share = (value, key, head) => (key === "spread" ? 0 : key === "cost" ? Math.max(0, value) / head.most : value);
  const written = (value, key) => (key === "spread" ? `${regard.number(value, 1)} places` : key === "cost" ? `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(4)}` : `${(100 * value).toFixed(1)} %`);

  function table(kind, heads) {
    const keys = Object.keys(TITLES).filter((key) => heads.some((head) => Number.isFinite(head[key])) && !(kind === "decoder" && key === "next"));
    const rows = heads.map((head) => ({ cells: [
      make("a", { href: "#attention", text: `${head.layer}.${head.head}`, onclick: (event) => {
        event.preventDefault();
        regard.chooseHead(kind, head.layer, head.head);
        regard.open("attention", true);
      } }),
      ...keys.map((key) => {
        const { ground, ink } = regard.colour("weight", share(head[key], key, head));
        return { attributes: { class: "number", style: { background: ground, color: ink } }, children: [written(head[key], key)] };
      })] }));
    return regard.table(`Heads: ${kind}`, ["head", ...keys.map((key) => TITLES[key])], rows, { need: 100 * (keys.length + 1) });
  }

  regard.heads = (reading) => {
    const found = reading.heads;
    const heads = found.heads.map((head) => ({ ...head, ...head.weights }));
    const most = Math.max(...heads.map((head) => head.cost ?? 0), 1e-9);
    heads.forEach((head) => { head.most = most; });
    const chance = found.diagonal === null ? "" : ` Among ${found.links.toLocaleString("en")} output tokens whose translation is known, the word at the same share of the sentence is it for ${(100 * found.diagonal).toFixed(1)} %: that is no skill at all.`;
    return make("div", { "data-view": "heads" },
      make("p", { class: "hint", text: `Means over ${found.sentences.toLocaleString("en")} sentences. The cost is the rise of the mean −log p of their ${found.symbols.toLocaleString("en")} true output tokens, ${regard.number(found.nll, 4)} with all heads.${chance}` }),
      ...["encoder", "decoder", "cross"].filter((kind) => heads.some((head) => head.kind === kind)).flatMap((kind) => [
        make("h3", { text: kind }), make("p", { class: "hint", text: HINTS[kind] }), table(kind, heads.filter((head) => head.kind === kind))]));
  };
})();
