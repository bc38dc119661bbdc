// The live view of the server: asks it every two seconds while somebody looks, and shows what it says.

import { ApiError, getJson, getText } from "./api.js";
import { Curve, legendOf } from "./curve.js";
import { byId, make, setText } from "./dom.js";
import { age, amount, bytes, count, percent, seconds } from "./format.js";
import { LayersView } from "./layers_view.js";
import { Metrics } from "./metrics_text.js";
import { verdict } from "./verdict.js";

const pollMs = 2000;
const minuteMs = 60_000;

export class ServerView {
  constructor() {
    this.info = null;
    this.counts = [];  // what only grows, as it was at each look of the last minute
    this.lastAnswer = performance.now();
    this.began = null;
    this.nextCurves = 0;
    this.lastCalm = performance.now();  // when nothing waited
    this.waitedLately = false;
    this.layers = new LayersView(byId("layers"));
    const quantiles = (name) => [
      { name: "p50", className: "first", of: (sample) => sample[name]?.p50 ?? null },
      { name: "p99", className: "second", of: (sample) => sample[name]?.p99 ?? null },
    ];
    this.curves = [
      new Curve("Inter-token latency", quantiles("inter_token_latency"), seconds),
      new Curve("Time to first token", quantiles("time_to_first_token"), seconds),
      new Curve("Tokens a second", [
        { name: "generated", className: "first", of: (sample) => sample.generated_tokens_per_second },
        { name: "prompts", className: "second", of: (sample) => sample.computed_prompt_tokens_per_second },
      ], amount),
      new Curve("Requests", [
        { name: "running", className: "first", of: (sample) => sample.running },
        { name: "waiting", className: "second", of: (sample) => sample.waiting },
      ], amount),
    ];
    byId("curves").append(...this.curves.map((curve) => curve.element));
    this.pages = new PagesBar(byId("pages"));
    document.addEventListener("visibilitychange", () => this.wake());
  }

  start(model) {
    this.began = model.created;
    this.wake();
  }

  // Looks now, and from then on while the page is seen. The server keeps the curves, so looking away loses nothing.
  wake() {
    clearTimeout(this.timer);
    if (document.hidden || this.began === null) return;
    this.look().finally(() => {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.wake(), pollMs);
    });
  }

  async look() {
    const [health, metrics, recent] = await Promise.allSettled([this.health(), getText("metrics"), this.recent()]);
    const problem = health.status === "fulfilled" ? health.value : null;
    if (problem === null) this.info = null;  // what answers next may be another server
    else await this.meet();
    if (metrics.status === "fulfilled") this.metrics = new Metrics(metrics.value);
    if (recent.value) this.showCurves(recent.value);
    this.showVerdict(problem);
    if (this.metrics) this.showNumbers(this.metrics);
  }

  // Curves get a new point a step: between two there is nothing to ask.
  async recent() {
    const now = performance.now();
    if (now < this.nextCurves) return null;
    const recent = await getJson("recent");
    this.nextCurves = now + recent.step_seconds * 1000 - pollMs / 2;
    return recent;
  }

  async meet() {
    this.lastAnswer = performance.now();
    if (this.info) return;
    try {
      this.began = (await getJson("v1/models")).data[0].created;
      this.info = await getJson("server_info");
      this.counts = [];
    } catch {
      // Asked again at the next look.
    }
  }

  // "" when the server is well, else its reason; throws when it does not answer.
  async health() {
    try {
      await getText("health");
      return "";
    } catch (failure) {
      if (failure instanceof ApiError && failure.status > 0) return failure.message;
      throw failure;
    }
  }

  showVerdict(problem) {
    const metrics = this.metrics ?? new Metrics("");
    const now = performance.now();
    const waiting = metrics.value("vllm:num_requests_waiting");
    if (waiting === 0) this.lastCalm = now;
    const facts = {
      problem,
      unreachableSeconds: problem === null ? Math.max(1, (now - this.lastAnswer) / 1000) : 0,
      running: metrics.value("vllm:num_requests_running"),
      waiting,
      waitsLong: waiting > 0 && (this.waitedLately || now - this.lastCalm > 2 * pollMs),
      maxRunning: this.info?.max_running_requests ?? Infinity,
      usage: metrics.value("vllm:kv_cache_usage_perc"),
      layers: metrics.layers(),
      minute: this.lastMinute(metrics, now),
    };
    const said = verdict(facts);
    this.tell(said, facts.running > 0 && said.level !== "bad" ? ` · ${count(facts.running)} running` : "");
  }

  tell({ level, title, reasons }, more = "") {
    for (const id of ["health", "pill"]) byId(id).dataset.level = level;
    setText(byId("health-title"), title);
    setText(byId("pill-text"), title + more);
    if (byId("health-reasons").textContent !== reasons.join(""))
      byId("health-reasons").replaceChildren(...reasons.map((reason) => make("li", {}, reason)));
    const up = age(Math.max(0, Date.now() / 1000 - this.began));
    setText(byId("health-facts"), this.info ? `octavo ${this.info.version} · up ${up}` : "");
  }

  lastMinute(metrics, now) {
    const ends = metrics.rows.get("vllm:request_success_total") ?? [];
    const failed = ends.find((row) => row.labels.finished_reason === "error");
    this.counts.push({
      when: now,
      rejected: metrics.sum("octavo:requests_rejected_total"),
      preempted: metrics.value("vllm:num_preemptions_total"),
      failed: failed?.value ?? 0,
    });
    while (this.counts[0].when < now - minuteMs) this.counts.shift();
    const [first, last] = [this.counts[0], this.counts.at(-1)];
    const grown = (name) => Math.max(0, last[name] - first[name]);
    return { rejected: grown("rejected"), preempted: grown("preempted"), failed: grown("failed") };
  }

  showNumbers(metrics) {
    byId("numbers").hidden = false;
    const hits = metrics.value("vllm:prefix_cache_hits_total");
    const queries = metrics.value("vllm:prefix_cache_queries_total");
    const [running, waiting] = ["running", "waiting"].map((name) => count(metrics.value(`vllm:num_requests_${name}`)));
    showList(byId("tiles"), [
      ["Running", running, this.info ? `of ${count(this.info.max_running_requests)}` : ""],
      ["Waiting", waiting, `${count(metrics.value("octavo:queued_tokens"))} prompt tokens`],
      ["Generated", count(metrics.value("vllm:generation_tokens_total")), "tokens in all"],
      ["Prefix hits", queries ? percent(hits / queries) : "–", `of ${count(queries)} tokens`],
    ]);
    this.pages.update(["held", "cached", "free"].map((name) => metrics.value(`octavo:kv_pages_${name}`)));
    const layers = metrics.layers();
    this.layers.update(layers);
    showList(byId("cache"), cacheFacts(this.info, layers));
  }

  showCurves(recent) {
    this.waitedLately = recent.samples.at(-1)?.waiting > 0;
    for (const curve of this.curves) curve.update(recent.samples, recent.steps_kept, recent.step_seconds);
  }
}

function cacheFacts(info, layers) {
  const sources = [...new Set(layers.map((layer) => layer.source))];
  const reports = info?.kv_cache ?? [];
  const kinds = [...new Set(reports.flatMap((line) => [...line.matchAll(/\b[KV] (\w+)/g)].map(([, kind]) => kind)))];
  const facts = [["Kind", kinds.join(", ") || "–", ""], ["Scales from", sources.join(", ") || "–", ""]];
  if (info) {
    facts.push(["A token takes", bytes(info.kv_bytes_per_token), ""]);
    facts.push(["Holds", `${count(info.max_total_tokens)} tokens`, ""]);
  }
  for (const line of reports) facts.push(["Layout", line, ""]);
  return facts;
}

// [[name, value, more]] as a list of definitions whose elements stay.
function showList(list, rows) {
  while (list.children.length > rows.length) list.lastChild.remove();
  rows.forEach(([name, value, more], i) => {
    if (!list.children[i]) list.append(make("div", {}, make("dt"), make("dd"), make("dd", { class: "more" })));
    [name, value, more].forEach((text, place) => setText(list.children[i].children[place], text));
  });
}

class PagesBar {
  constructor(container) {
    const names = ["used", "cached", "free"];
    this.parts = names.map((name) => make("span", { class: name }));
    this.words = names.map(() => make("span", { class: "now" }));
    this.bar = make("div", { class: "stack", role: "img" }, ...this.parts);
    container.append(this.bar, legendOf(names.map((name, i) => [name, name, this.words[i]])));
  }

  update(pages) {
    const total = Math.max(1, pages[0] + pages[1] + pages[2]);
    pages.forEach((value, i) => {
      this.parts[i].style.flexGrow = value / total;
      setText(this.words[i], `${count(value)} (${percent(value / total)})`);
    });
    const [used, cached, free] = pages.map(count);
    this.bar.setAttribute("aria-label", `Pages: ${used} used, ${cached} cached, ${free} free`);
  }
}
