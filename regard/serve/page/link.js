// What the page shows, in the address after “#”, which no browser sends to any server.
const LONGEST = 20_000; // characters of a link: what is longer is not kept

export function read() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

export function write(state) {
  const kept = Object.entries(state).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const text = new URLSearchParams(kept).toString().replaceAll("+", "%20");
  const fits = text.length <= LONGEST;
  if (fits && location.hash.slice(1) !== text) history.replaceState(null, "", text ? `#${text}` : location.pathname);
  return fits;
}
