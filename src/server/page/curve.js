// A curve over the last minutes, drawn as SVG in the size it has on the screen; a gap where nothing was measured.

import { make, setText, svg } from "./dom.js";
import { age } from "./format.js";

const spans = [120, 300];  // seconds that the width shows while there is not more to show
const height = 132;
const edge = { left: 4, right: 4, top: 10, bottom: 20 };

export class Curve {
  // title; series: [{name, className, of(sample) -> number or null}]; format(value) -> text
  constructor(title, series, format) {
    Object.assign(this, { title, series, format, samples: [], slots: 1, step: 1, pointed: null });
    this.picture = svg("svg", { class: "plot", role: "img", height });
    this.values = series.map(() => make("span", { class: "now" }));
    this.when = make("span", { class: "quiet" });
    const legend = legendOf(series.map((row, i) => [row.className, row.name, this.values[i]]));
    const caption = make("figcaption", {}, make("h3", {}, title), this.when, legend);
    this.element = make("figure", { class: "card curve" }, caption, this.picture);
    new ResizeObserver(() => this.draw()).observe(this.picture);
    this.picture.addEventListener("pointermove", (event) => this.point(event));
    this.picture.addEventListener("pointerleave", () => {
      this.pointed = null;
      this.draw();
    });
  }

  // slots: how many samples the width holds; step: seconds between two
  update(samples, slots, step) {
    const enough = spans.find((span) => span / step >= samples.length) ?? slots * step;
    Object.assign(this, { samples, slots: Math.min(slots, Math.ceil(enough / step)), step });
    this.draw();
  }

  point(event) {
    const box = this.picture.getBoundingClientRect();
    const share = (event.clientX - box.left - edge.left) / (box.width - edge.left - edge.right);
    const index = Math.round(share * (this.slots - 1)) - (this.slots - this.samples.length);
    this.pointed = index >= 0 && index < this.samples.length ? index : null;
    this.draw();
  }

  draw() {
    const width = this.picture.clientWidth;
    if (width === 0) return;
    const rows = this.series.map((row) => this.samples.map(row.of));
    const most = niceCeiling(Math.max(0, ...rows.flat().filter((value) => value !== null)));
    const perSlot = (width - edge.left - edge.right) / Math.max(1, this.slots - 1);
    const bottom = height - edge.bottom;
    const x = (i) => edge.left + (i + this.slots - this.samples.length) * perSlot;
    const y = (value) => bottom - (value / most) * (bottom - edge.top);
    const parts = this.grid(width, most, y);
    rows.forEach((values, i) => parts.push(...trace(values, x, y, this.series[i].className)));
    if (this.pointed !== null) {
      const at = x(this.pointed);
      parts.push(svg("line", { class: "pointer", x1: at, x2: at, y1: edge.top, y2: bottom }));
    }
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.picture.replaceChildren(...parts);
    this.describe(rows);
  }

  grid(width, most, y) {
    const right = width - edge.right;
    const line = (value) => svg("line", { class: "grid", x1: edge.left, x2: right, y1: y(value), y2: y(value) });
    const text = (content, place) => svg("text", place, content);
    return [0, most / 2, most].flatMap((value) => [line(value)]).concat([
      text(this.format(most), { x: edge.left, y: y(most) + 12 }),
      text(this.format(most / 2), { x: edge.left, y: y(most / 2) + 12 }),
      text(`${age(this.slots * this.step)} ago`, { x: edge.left, y: height - 5 }),
      text("now", { x: right, y: height - 5, "text-anchor": "end" }),
    ]);
  }

  describe(rows) {
    const last = this.samples.length - 1;
    const measured = this.samples.findLastIndex((_, i) => rows.some((values) => values[i] !== null));
    const at = this.pointed ?? Math.max(measured, 0);
    const worded = rows.map((values) => (typeof values[at] === "number" ? this.format(values[at]) : "–"));
    worded.forEach((text, i) => setText(this.values[i], text));
    setText(this.when, at === last || measured < 0 ? "" : `${age((last - at) * this.step)} ago`);
    const spoken = this.series.map((row, i) => `${row.name} ${worded[i] === "–" ? "not measured" : worded[i]}`);
    this.picture.setAttribute("aria-label", `${this.title}, now: ${spoken.join(", ")}`);
  }
}

// [[class, name, element of the value]]
export function legendOf(rows) {
  const items = rows.map(([className, name, value]) =>
    make("li", { class: className }, make("span", { class: "key", "aria-hidden": "true" }), `${name} `, value),
  );
  return make("ul", { class: "legend" }, ...items);
}

function trace(values, x, y, className) {
  const parts = [];
  let path = "";
  values.forEach((value, i) => {
    if (value === null) return;
    const begins = i === 0 || values[i - 1] === null;
    const ends = i + 1 === values.length || values[i + 1] === null;
    if (begins && ends) parts.push(svg("circle", { class: className, cx: x(i), cy: y(value), r: 2 }));
    else path += `${begins ? "M" : "L"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`;
  });
  if (path) parts.push(svg("path", { class: className, d: path }));
  return parts;
}

// The least of 1, 2, 4, 5, 8 times a power of ten that is not below.
export function niceCeiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 4, 5, 8, 10].find((digit) => digit * power >= value * 0.999) * power;
}
