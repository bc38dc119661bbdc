// Whether the server is well, in a word and the reasons for it.

import { age, count, percent, plural, sentence, share } from "./format.js";
import { saturation } from "./metrics_text.js";

const saturationLimit = 1e-4;  // as docs/operate.md has it for alerts
const fullLimit = 0.95;

// facts: {problem: "" or why /health is not 200, unreachableSeconds, running, waiting, waitsLong (for
// seconds, not in passing), maxRunning, usage (held pages, 0 to 1), layers, minute: {rejected, preempted, failed} in the
// last minute}. -> {level, title, reasons}
export function verdict(facts) {
  if (facts.unreachableSeconds > 0) {
    const reason = `No answer for ${age(facts.unreachableSeconds)}. The numbers below are from before.`;
    return { level: "bad", title: "Not reachable", reasons: [reason] };
  }
  if (facts.problem) return { level: "bad", title: "Not serving", reasons: [sentence(facts.problem)] };
  const concerns = concernsOf(facts);
  if (concerns.length > 0) return { level: "warn", title: "Strained", reasons: concerns };
  const { running } = facts;
  const waits = facts.waiting > 0 ? `${count(facts.waiting)} about to begin` : "none waits";
  const reason = running + facts.waiting > 0 ? `${plural(running, "request")} running, ${waits}.` : "Idle and ready.";
  return { level: "ok", title: "Healthy", reasons: [reason] };
}

function concernsOf({ minute, waiting, waitsLong, running, maxRunning, usage, layers }) {
  const concerns = [];
  if (minute.failed > 0) concerns.push(`${plural(minute.failed, "request")} failed in the last minute.`);
  if (minute.rejected > 0) concerns.push(`${plural(minute.rejected, "request")} turned away in the last minute.`);
  if (waitsLong) {
    const places = running >= maxRunning ? ", all places are taken" : usage > fullLimit ? ", the cache is full" : "";
    concerns.push(`${plural(waiting, "request waits", "requests wait")}${places}.`);
  } else if (usage > fullLimit) {
    concerns.push(`The cache is ${percent(usage)} full.`);
  }
  if (minute.preempted > 0)
    concerns.push(`The cache was full: ${plural(minute.preempted, "request")} began anew in the last minute.`);
  const worst = layers.reduce((most, layer) => (saturation(layer) > saturation(most) ? layer : most), { written: 0 });
  if (saturation(worst) > saturationLimit)
    concerns.push(`Layer ${worst.layer} clips ${share(saturation(worst))} of its numbers: its scales are too small.`);
  return concerns;
}
