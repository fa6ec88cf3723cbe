// Tokens as words of a text: where each stands, and how probable it is.
const SPECIAL = /^<(?:start|end|pad|mask|s|\/s)>$/;

// Where each token stands in the text, [from, to]; null for one that spells nothing there.
function places(text, tokens) {
  let at = 0;
  return tokens.map((token) => {
    if (SPECIAL.test(token)) return null;
    const spelt = token.replaceAll("▁", " ").trim();
    if (!spelt) return null;
    const from = text.indexOf(spelt, at);
    // A token that is written in another way than in the text must not draw the next ones along.
    if (from < 0 || text.slice(at, from).trim().length > 12) return null;
    at = from + spelt.length;
    return [from, at];
  });
}

// The words of a text, parted by whitespace: [{ text, from, to, tokens, p }]; `tokens` are the numbers of those
// that spell it, p = exp Σ log p over them, null if nobody knows.
export function words(text, tokens = [], logProbs = []) {
  const where = places(text, tokens);
  return [...text.matchAll(/\S+/gu)].map(({ 0: word, index: from }) => {
    const to = from + word.length;
    const own = where.flatMap((place, n) => (place && place[0] < to && place[1] > from ? [n] : []));
    const sum = own.reduce((total, n) => total + (logProbs[n] ?? NaN), 0);
    return { text: word, from, to, tokens: own, p: own.length && Number.isFinite(sum) ? Math.exp(sum) : null };
  });
}

// A text's sentences, line by line: [{ text, from }] with what is between them left out.
export function sentences(text, language, part = true) {
  const lines = [...text.matchAll(/[^\n]+/g)].map(({ 0: line, index: from }) => ({ text: line, from }));
  if (!part || !Intl.Segmenter) return lines.map(trimmed).filter(Boolean);
  const by = new Intl.Segmenter(language || undefined, { granularity: "sentence" });
  return lines.flatMap(({ text: line, from }) =>
    [...by.segment(line)].map(({ segment, index }) => trimmed({ text: segment, from: from + index }))).filter(Boolean);
}

function trimmed({ text, from }) {
  const whole = text.trim();
  return whole ? { text: whole, from: from + text.indexOf(whole) } : null;
}
