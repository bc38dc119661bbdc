// Prometheus' text format -> values by name and label.

export class Metrics {
  constructor(text) {
    this.rows = new Map();
    for (const line of text.split("\n")) {
      const found = line.match(/^([\w:]+)(?:\{(.*)\})? (\S+)$/);
      if (!found) continue;
      const [, name, labels = "", value] = found;
      if (!this.rows.has(name)) this.rows.set(name, []);
      this.rows.get(name).push({ labels: labelsOf(labels), value: Number(value.replace("Inf", "Infinity")) });
    }
  }

  // The first value of a name; 0 if there is none.
  value(name) {
    return this.rows.get(name)?.[0].value ?? 0;
  }

  // All values of a name, added.
  sum(name) {
    return (this.rows.get(name) ?? []).reduce((total, row) => total + row.value, 0);
  }

  // [{layer, keyAmax, valueAmax, saturated, written, source}] of the layers that have a cache.
  layers() {
    const layers = new Map();
    const take = (name, put) => {
      for (const { labels, value } of this.rows.get(name) ?? []) {
        if (!layers.has(labels.layer)) layers.set(labels.layer, { layer: Number(labels.layer) });
        put(layers.get(labels.layer), value, labels);
      }
    };
    take("octavo:kv_key_amax", (layer, value) => (layer.keyAmax = value));
    take("octavo:kv_value_amax", (layer, value) => (layer.valueAmax = value));
    take("octavo:kv_saturated_total", (layer, value) => (layer.saturated = value));
    take("octavo:kv_written_total", (layer, value) => (layer.written = value));
    take("octavo:kv_scale_source", (layer, value, labels) => (layer.source = labels.source));
    return [...layers.values()].sort((a, b) => a.layer - b.layer);
  }
}

function labelsOf(text) {
  const labels = {};
  for (const [, name, value] of text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g))
    labels[name] = value.replace(/\\(.)/g, (_, letter) => (letter === "n" ? "\n" : letter));
  return labels;
}

export const saturation = (layer) => (layer.written > 0 ? layer.saturated / layer.written : 0);
