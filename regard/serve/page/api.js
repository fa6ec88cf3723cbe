// Requests to the server, and what is said to people when one is not answered.
const KEY = "regard.key";
const TRIES = 4; // of a request that finds no place

export const key = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

// A request that was refused: `message` is for people.
export class Refused extends Error {
  constructor(status, message, wait = 0) {
    super(message);
    Object.assign(this, { status, wait });
  }
}

export const isAbort = (error) => error?.name === "AbortError";

const seconds = (count) => `${count} second${count === 1 ? "" : "s"}`;

const PLAIN = {
  401: () => "This server wants an API key, and this one is not known here. Enter yours above.",
  403: () => "The server does not answer to this address.",
  404: () => "The server no longer has this model. Load the page again.",
  408: () => "The upload was too slow. Try once more, or a smaller file.",
  413: (said) => `That is too much at once: ${said}.`,
  429: (said, wait) => `Too many requests. Try again in ${seconds(wait || 1)}.`,
  500: (said) => `Something went wrong at the server: ${said}.`,
  503: (said, wait) => (/load/.test(said) ? "The models are still being loaded." : /going down/.test(said) ? "The server is shutting down." : `The server is busy. Try again in ${seconds(wait || 1)}.`),
  504: () => "This took too long and was given up. Try a shorter input, or once more later.",
};

async function refusal(answer) {
  let said = "";
  try {
    const { error } = await answer.json();
    said = error?.message ?? error ?? "";
  } catch { /* no JSON: the status alone must do */ }
  const wait = Number(answer.headers.get("retry-after")) || 0;
  const plain = PLAIN[answer.status]?.(String(said).replace(/\.$/, ""), wait);
  return new Refused(answer.status, plain ?? sentence(String(said) || `The server refused this (${answer.status})`), wait);
}

const sentence = (text) => text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".");

const pause = (ms, signal) => new Promise((done, stop) => {
  const timer = setTimeout(done, ms);
  signal?.addEventListener("abort", () => { clearTimeout(timer); stop(signal.reason); }, { once: true });
});

async function once(path, { body, form, signal }) {
  const headers = key.get() ? { authorization: `Bearer ${key.get()}` } : {};
  if (body) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method: body || form ? "POST" : "GET", headers, signal, body: form ?? (body && JSON.stringify(body)) });
  } catch (error) {
    if (isAbort(error)) throw error;
    throw new Refused(0, "The server cannot be reached. Is it still running?");
  }
  if (!answer.ok) throw await refusal(answer);
  return answer;
}

// An answer; where no place is free, it is asked for again after as long as the server says.
async function ask(path, { busy, ...how }) {
  for (let tries = 1; ; tries++) {
    try {
      return await once(path, how);
    } catch (error) {
      if (error.status !== 503 || tries === TRIES || !error.wait) throw error;
      busy?.(error.message);
      await pause(1000 * Math.min(error.wait, 5), how.signal);
    }
  }
}

export const json = async (path, how = {}) => (await ask(path, how)).json();

// Predictions of a model: inputs as JSON, or files as a form.
export async function predict(model, { inputs, files, ...asked }, how = {}) {
  if (!files) return json("/v1/predict", { ...how, body: { model, inputs, ...asked } });
  const form = new FormData();
  for (const file of files) form.append("file", file, file.name || "input");
  form.append("model", model);
  form.append("request", JSON.stringify(asked));
  return json("/v1/predict", { ...how, form });
}

// What is written, piece by piece; gives the whole at the end.
export async function stream(model, asked, { piece, ...how }) {
  const answer = await ask("/v1/predict", { ...how, body: { model, ...asked, stream: true } });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let [held, whole] = ["", null];
  for (;;) {
    const { value, done } = await reader.read();
    if (done) break;
    const events = (held + value).split("\n\n");
    held = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data === "[DONE]") continue;
      const found = JSON.parse(data);
      if (found.error) throw new Refused(found.error.code === "deadline" ? 504 : 500, PLAIN[found.error.code === "deadline" ? 504 : 500](found.error.message));
      if (found.piece) piece(found.piece);
      whole = found.prediction ?? whole;
    }
  }
  if (!whole) throw new Refused(0, "The connection broke off before the end.");
  return whole;
}

// What a run has recorded; null if there is nothing new since `tag`.
export async function records(name, tag) {
  const headers = key.get() ? { authorization: `Bearer ${key.get()}` } : {};
  let answer;
  try {
    answer = await fetch(`/v1/runs/${encodeURIComponent(name)}`, { headers: { ...headers, ...(tag ? { "if-none-match": tag } : {}) }, cache: "no-store" });
  } catch {
    throw new Refused(0, "The server cannot be reached. Is it still running?");
  }
  if (answer.status === 304) return null;
  if (!answer.ok) throw await refusal(answer);
  return { ...(await answer.json()), tag: answer.headers.get("etag") };
}
records.list = () => json("/v1/runs");
