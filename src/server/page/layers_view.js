// The cache by layer: how large keys and values are, and how much of them is clipped. Bars to see, a table to read.

import { make, setText, svg } from "./dom.js";
import { amount, share } from "./format.js";
import { saturation } from "./metrics_text.js";

const height = 88;

export class LayersView {
  constructor(container) {
    this.charts = [
      new Bars("Largest key", "keys", (layer) => layer.keyAmax, amount),
      new Bars("Largest value", "values", (layer) => layer.valueAmax, amount),
      new Bars("Clipped", "clipped", saturation, share),
    ];
    this.body = make("tbody");
    const heads = ["Layer", "Largest key", "Largest value", "Clipped", "Scale"];
    const head = make("thead", {}, make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name))));
    const box = { class: "table-box", tabindex: "0", role: "region", "aria-label": "All layers" };
    const table = make("div", box, make("table", {}, head, this.body));
    this.table = make("details", {}, make("summary", {}, "All layers as a table"), table);
    container.append(make("div", { class: "bars" }, ...this.charts.map((chart) => chart.element)), this.table);
    this.table.addEventListener("toggle", () => this.showTable());
    this.layers = [];
  }

  update(layers) {
    this.layers = layers;
    for (const chart of this.charts) chart.update(layers);
    this.showTable();
  }

  showTable() {
    if (!this.table.open) return;
    while (this.body.children.length > this.layers.length) this.body.lastChild.remove();
    this.layers.forEach((layer, i) => {
      const amaxes = [amount(layer.keyAmax), amount(layer.valueAmax)];
      const cells = [`${layer.layer}`, ...amaxes, share(saturation(layer)), layer.source];
      if (!this.body.children[i])
        this.body.append(make("tr", {}, make("th", { scope: "row" }), ...cells.slice(1).map(() => make("td"))));
      cells.forEach((text, column) => setText(this.body.children[i].children[column], text));
    });
  }
}

class Bars {
  constructor(title, className, of, format) {
    Object.assign(this, { title, className, of, format });
    this.most = make("span", { class: "now" });
    this.picture = svg("svg", { class: `plot ${className}`, role: "img", height, preserveAspectRatio: "none" });
    this.element = make("figure", {}, make("figcaption", {}, make("span", {}, title), " ", this.most), this.picture);
  }

  update(layers) {
    const values = layers.map(this.of);
    const top = Math.max(...values, 0);
    const worst = layers[values.indexOf(top)];
    const words = top > 0 ? `${this.format(top)} in layer ${worst.layer}` : this.format(0);
    setText(this.most, words);
    this.picture.setAttribute("aria-label", `${this.title} by layer: at most ${words}`);
    this.picture.setAttribute("viewBox", `0 0 ${Math.max(1, layers.length) * 10} ${height}`);
    const bars = values.map((value, i) => {
      const tall = top > 0 ? Math.max((value / top) * (height - 4), value > 0 ? 2 : 0) : 0;
      const title = svg("title", {}, `Layer ${layers[i].layer}: ${this.format(value)}`);
      const place = { x: i * 10 + 1, width: 8 };
      const ghost = svg("rect", { class: "ghost", ...place, y: 0, height });
      return svg("g", {}, title, ghost, svg("rect", { ...place, y: height - tall, height: tall }));
    });
    this.picture.replaceChildren(...bars);
  }
}
