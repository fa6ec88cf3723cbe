// A microphone's sound as WAV, 16 bits, one channel: every server can read that.
import { button } from "./parts.js";

const LONGEST = 60; // seconds

function wav(parts, rate) {
  const count = parts.reduce((sum, part) => sum + part.length, 0);
  const view = new DataView(new ArrayBuffer(44 + 2 * count));
  const put = (at, text) => [...text].forEach((glyph, n) => view.setUint8(at + n, glyph.charCodeAt(0)));
  put(0, "RIFF"); view.setUint32(4, 36 + 2 * count, true); put(8, "WAVEfmt ");
  view.setUint32(16, 16, true); view.setUint16(20, 1, true); view.setUint16(22, 1, true);
  view.setUint32(24, rate, true); view.setUint32(28, 2 * rate, true); view.setUint16(32, 2, true); view.setUint16(34, 16, true);
  put(36, "data"); view.setUint32(40, 2 * count, true);
  let at = 44;
  for (const part of parts) for (const sample of part) { view.setInt16(at, 32767 * Math.max(-1, Math.min(1, sample)), true); at += 2; }
  return new File([view], "recording.wav", { type: "audio/wav" });
}

async function start() {
  const source = await navigator.mediaDevices.getUserMedia({ audio: { channelCount: 1 } });
  const context = new AudioContext();
  await context.audioWorklet.addModule("/page/worklet.js");
  const [from, tap, parts] = [context.createMediaStreamSource(source), new AudioWorkletNode(context, "tap"), []];
  tap.port.onmessage = ({ data }) => parts.push(data);
  from.connect(tap);
  return async () => {
    source.getTracks().forEach((track) => track.stop());
    const rate = context.sampleRate;
    await context.close();
    return wav(parts, rate);
  };
}

// A button that records and gives the file.
export function recorder(done) {
  let [stop, timer, began] = [null, 0, 0];
  const idle = () => { made.textContent = "Record"; made.classList.remove("recording"); clearInterval(timer); stop = null; };
  const made = button("Record", async () => {
    if (stop) {
      const end = stop;
      idle();
      return done(await end());
    }
    try {
      stop = await start();
    } catch (error) {
      idle();
      made.textContent = error.name === "NotAllowedError" ? "Microphone not allowed" : "No microphone";
      return undefined;
    }
    began = Date.now();
    made.classList.add("recording");
    const tick = () => {
      const seconds = Math.floor((Date.now() - began) / 1000);
      made.textContent = `Stop (${seconds} s)`;
      if (seconds >= LONGEST) made.click();
    };
    tick();
    timer = setInterval(tick, 500);
    return undefined;
  });
  return made;
}
