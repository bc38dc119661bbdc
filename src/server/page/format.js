// Numbers as people read them.

const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const tenth = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });
const two = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 2 });
const three = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });

export const count = (value) => whole.format(value);
export const amount = (value) => (Math.abs(value) >= 1000 ? whole.format(value) : three.format(value));

export function seconds(value) {
  if (value < 1) return `${three.format(value * 1000)} ms`;
  if (value < 120) return `${three.format(value)} s`;
  return `${three.format(value / 60)} min`;
}

// Of a whole, to a tenth of a percent; something is never shown as nothing, nor a part as all.
export function percent(value) {
  if (value > 0 && value < 0.001) return "<0.1%";
  return `${tenth.format(value < 1 ? Math.min(value * 100, 99.9) : 100)}%`;
}

// Of something rare, to two digits.
export function share(value) {
  if (value === 0) return "0%";
  if (value < 1e-5) return "<0.001%";
  return `${two.format(value * 100)}%`;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit + 1 < units.length; ++unit) value /= 1024;
  return `${three.format(value)} ${units[unit]}`;
}

export function age(seconds) {
  if (seconds < 90) return `${whole.format(seconds)} s`;
  if (seconds < 5400) return `${whole.format(seconds / 60)} min`;
  if (seconds < 129600) return `${whole.format(seconds / 3600)} h`;
  return `${whole.format(seconds / 86400)} days`;
}

// "the engine has died" -> "The engine has died."
export function sentence(text) {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;
