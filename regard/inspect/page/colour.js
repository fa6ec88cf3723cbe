// Colours of numbers. Weights run from the ground's colour to a strong blue; signed numbers from
// blue over the ground to orange, which every kind of colour vision tells apart.
"use strict";
(() => {
  const regard = (globalThis.regard ??= {});
  const STOPS = {
    light: {
      weight: ["#ffffff", "#c9def2", "#6fabdb", "#1f6fb8", "#08306b"],
      signed: ["#0a4a90", "#7fb2dd", "#ffffff", "#f3a765", "#9c4300"],
    },
    dark: {
      weight: ["#161b23", "#1b4470", "#2f7dc4", "#8cc6f2", "#f4faff"],
      signed: ["#9fd0ff", "#2c6fb0", "#161b23", "#b8641a", "#ffc999"],
    },
  };
  const tables = new Map();

  regard.dark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };

  regard.css = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

  const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));

  // 256 colours as bytes: red, green, blue for each.
  regard.palette = (scale) => {
    const theme = regard.dark() ? "dark" : "light";
    const key = `${theme} ${scale}`;
    if (!tables.has(key)) {
      const stops = STOPS[theme][scale].map(channels);
      const table = new Uint8ClampedArray(256 * 3);
      for (let n = 0; n < 256; n++) {
        const place = (n / 255) * (stops.length - 1);
        const low = Math.min(Math.floor(place), stops.length - 2);
        for (let c = 0; c < 3; c++) {
          table[3 * n + c] = stops[low][c] + (place - low) * (stops[low + 1][c] - stops[low][c]);
        }
      }
      tables.set(key, table);
    }
    return tables.get(key);
  };

  // The colour of a share from 0 to 1 of a scale, and an ink that can be read on it.
  regard.colour = (scale, share) => {
    const table = regard.palette(scale);
    const n = 3 * Math.round(255 * Math.min(1, Math.max(0, share)));
    const [r, g, b] = table.slice(n, n + 3);
    const linear = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const light = 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    return { ground: `rgb(${r} ${g} ${b})`, ink: light > 0.18 ? "#000000" : "#ffffff" };
  };
})();
