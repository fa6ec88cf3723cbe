// What every head does over many sentences, and what it costs to be without it.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const { make } = regard;
  const TITLES = {
    previous: "on the previous token", itself: "on itself", next: "on the next token", first: "on the first", last: "on the last",
    says: "on the word to say", reads: "on the word just read", spread: "spread over", cost: "cost of being without it",
  };
  const HINTS = {
    encoder: "Mean share of the weight that falls on each place.", decoder: "Mean share of the weight that falls on each place.",
    cross: "How often the input word with the largest weight is the translation of the word that is to be said next, and of the one that was just read, by a dictionary that knows nothing of the model.",
  };
  const share = (value, key, head) => (key === "spread" ? 0 : key === "cost" ? Math.max(0, value) / head.most : value);

  function table(kind, heads) {
    const keys = ["previous", "itself", "next", "first", "last", "says", "reads", "spread", "cost"]
      .filter((key) => heads.some((head) => Number.isFinite(head[key])) && !(kind === "decoder" && key === "next"));
    return regard.region(`Heads: ${kind}`, make("table", null,
      make("thead", null, make("tr", null, make("th", { scope: "col", text: "head" }), ...keys.map((key) => make("th", { scope: "col", text: TITLES[key] })))),
      make("tbody", null, ...heads.map((head) => make("tr", null, make("th", { scope: "row", text: `${head.layer}.${head.head}` }),
        ...keys.map((key) => {
          const { ground, ink } = regard.colour("weight", share(head[key], key, head));
          const text = key === "spread" ? `${regard.number(head[key], 1)} places` : key === "cost" ? `${head[key] < 0 ? "−" : "+"}${Math.abs(head[key]).toFixed(4)}` : `${(100 * head[key]).toFixed(1)} %`;
          return make("td", { class: "number", style: { background: ground, color: ink }, text });
        }))))));
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
