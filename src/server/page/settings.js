// How the next answers are sampled. Kept in this browser; an empty field is not sent, so the server's default holds.

import { byId, make, setText } from "./dom.js";
import { readJson, write } from "./store.js";

const storeName = "octavo.settings";
const fields = [
  { name: "system", label: "System prompt", kind: "text", wide: true },
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, unit: "0 is exact" },
  { name: "top_p", label: "Top p", min: 0, max: 1, step: 0.01 },
  { name: "top_k", label: "Top k", min: -1, step: 1 },
  { name: "min_p", label: "Min p", min: 0, max: 1, step: 0.01 },
  { name: "max_tokens", label: "Longest answer", min: 1, step: 1, unit: "tokens" },
  { name: "seed", label: "Seed", step: 1 },
  { name: "repetition_penalty", label: "Repetition penalty", min: 0.01, max: 2, step: 0.05 },
  { name: "presence_penalty", label: "Presence penalty", min: -2, max: 2, step: 0.1 },
  { name: "frequency_penalty", label: "Frequency penalty", min: -2, max: 2, step: 0.1 },
  { name: "thinking", label: "Thinking", kind: "choice", choices: ["", "on", "off"] },
  { name: "stop", label: "Stop texts, one a line", kind: "text", wide: true },
];

export class Settings {
  constructor() {
    this.values = readJson("browser", storeName, {});
    this.models = [];
    this.inputs = new Map();
    const dialog = byId("settings");
    for (const field of fields) byId("settings-fields").append(this.row(field));
    byId("settings-open").addEventListener("click", () => dialog.showModal());
    byId("settings-form").addEventListener("submit", (event) => {
      event.preventDefault();
      dialog.close();
    });
    byId("settings-reset").addEventListener("click", () => {
      for (const input of this.inputs.values()) input.value = "";
      this.read();
    });
    this.summarize();
  }

  row(field) {
    const id = `setting-${field.name}`;
    const common = { id, oninput: () => this.read() };
    let input;
    if (field.kind === "text") input = make("textarea", { ...common, rows: 2 });
    else if (field.kind === "choice") {
      const options = field.choices.map((choice) => make("option", { value: choice }, choice || "the model's own"));
      input = make("select", common, ...options);
    } else {
      const { min, max } = field;
      const step = field.step === 1 ? 1 : "any";
      const number = { type: "number", min, max, step, inputmode: "decimal", placeholder: "default" };
      input = make("input", { ...common, ...number });
    }
    input.value = this.values[field.name] ?? "";
    this.inputs.set(field.name, input);
    const unit = field.unit ? [" ", make("span", { class: "unit" }, field.unit)] : [];
    const label = make("label", { for: id }, field.label, ...unit);
    return make("div", { class: field.wide ? "field wide" : "field" }, label, input);
  }

  // A choice of model, where the server has several names.
  offerModels(names) {
    if (this.inputs.has("model") || names.length < 2) return;
    const options = names.map((name) => make("option", { value: name }, name));
    const input = make("select", { id: "setting-model", oninput: () => this.read() }, ...options);
    if (names.includes(this.values.model)) input.value = this.values.model;
    this.inputs.set("model", input);
    byId("settings-fields").prepend(
      make("div", { class: "field wide" }, make("label", { for: "setting-model" }, "Model"), input),
    );
  }

  read() {
    this.values = {};
    for (const [name, input] of this.inputs)
      if (input.value !== "" && input.validity.valid) this.values[name] = input.value;
    write("browser", storeName, JSON.stringify(this.values));
    this.summarize();
  }

  summarize() {
    const named = fields.filter((field) => field.name in this.values);
    const words = named.map(({ name, label, kind }) =>
      kind === "text" ? label.split(",")[0].toLowerCase() : `${label.toLowerCase()} ${this.values[name]}`,
    );
    setText(byId("settings-summary"), words.join(" · "));
  }

  // Of a request's body, all but the messages.
  body() {
    const body = {};
    for (const field of fields) {
      const value = this.values[field.name];
      if (value === undefined || field.name === "system") continue;
      if (field.name === "stop") body.stop = value.split("\n").filter((line) => line !== "");
      else if (field.name === "thinking") body.chat_template_kwargs = { enable_thinking: value === "on" };
      else body[field.name] = Number(value);
    }
    if (this.inputs.has("model")) body.model = this.inputs.get("model").value;
    return body;
  }

  get system() {
    return this.values.system ?? "";
  }
}
