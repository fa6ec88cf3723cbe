// Runs beside the sound: hands on each block of the first channel.
registerProcessor("tap", class extends AudioWorkletProcessor {
  process([[channel]]) {
    if (channel) this.port.postMessage(channel.slice());
    return true;
  }
});
