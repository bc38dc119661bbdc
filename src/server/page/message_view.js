// One message on the page: its text, and what can be done with it.

import { isLive } from "./answer.js";
import { make, setText } from "./dom.js";
import { amount, plural, seconds } from "./format.js";
import { Markup } from "./markup.js";

// actions: {retry(message), edit(message, text)}
export class MessageView {
  constructor(message, actions) {
    this.message = message;
    this.actions = actions;
    this.text = make("div", { class: "message-text" });
    this.markup = new Markup(this.text);
    this.row = make("div", { class: "message-row" });
    const who = make("h3", { class: "hidden" }, message.role === "user" ? "You" : "Model");
    this.element = make("article", { class: `message ${message.role}` }, who, this.text, this.row);
    if (message.role === "assistant") this.addAnswerParts();
    else this.editButton = this.addButton("Edit", () => this.beginEdit());
    if (navigator.clipboard) this.copyButton = this.addButton("Copy", () => this.copy());
    this.update(false);
  }

  addButton(label, action) {
    const button = make("button", { type: "button", class: "plain small", onclick: action }, label);
    this.row.append(button);
    return button;
  }

  addAnswerParts() {
    this.reasoningTitle = make("summary", {}, "Reasoning");
    this.reasoningText = make("div", { class: "reasoning-text" });
    this.reasoning = make("details", { class: "reasoning", hidden: true }, this.reasoningTitle, this.reasoningText);
    this.calls = make("div", { class: "calls" });
    this.note = make("p", { class: "note", hidden: true });
    this.stats = make("span", { class: "stats" });
    this.text.before(this.reasoning);
    this.row.before(this.calls, this.note);
    this.row.append(this.stats);
    this.retryButton = this.addButton("Retry", () => this.actions.retry(this.message));
  }

  async copy() {
    await navigator.clipboard.writeText(this.message.content).catch(() => {});
    setText(this.copyButton, "Copied");
    setTimeout(() => setText(this.copyButton, "Copy"), 1500);
  }

  update(isLast) {
    const { message } = this;
    if (message.role === "user") {
      setText(this.text, message.content);
      return;
    }
    const live = isLive(message);
    this.element.dataset.state = message.state;
    this.element.setAttribute("aria-busy", live);
    this.markup.show(message.content);
    this.showReasoning(live);
    this.showCalls();
    this.note.hidden = message.note === "";
    setText(this.note, message.note);
    setText(this.stats, statsText(message));
    this.retryButton.hidden = live || !isLast;
    if (this.copyButton) this.copyButton.hidden = live || message.content === "";
  }

  showReasoning(live) {
    const { reasoning, content } = this.message;
    this.reasoning.hidden = reasoning === "";
    if (reasoning === "") return;
    setText(this.reasoningTitle, live && content === "" ? "Reasoning…" : "Reasoning");
    setText(this.reasoningText, reasoning);
  }

  showCalls() {
    const texts = this.message.calls.filter(Boolean).map((call) => `${call.name}(${call.arguments})`);
    while (this.calls.children.length < texts.length) this.calls.append(make("pre", { tabindex: "0" }));
    texts.forEach((text, i) => setText(this.calls.children[i], `calls ${text}`));
  }

  beginEdit() {
    if (this.editor) return;
    const box = make("textarea", { "aria-label": "Edit your message", rows: 3 });
    box.value = this.message.content;
    const end = () => {
      this.editor.remove();
      this.editor = null;
      this.text.hidden = this.row.hidden = false;
      this.editButton.focus();
    };
    const send = () => box.value.trim() !== "" && this.actions.edit(this.message, box.value.trim());
    box.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        end();
      }
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    const cancel = make("button", { type: "button", class: "plain small", onclick: end }, "Cancel");
    const go = make("button", { type: "button", class: "primary small", onclick: send }, "Send again");
    this.editor = make("div", { class: "editor" }, box, make("div", { class: "dialog-row" }, cancel, go));
    this.text.hidden = this.row.hidden = true;
    this.element.append(this.editor);
    box.focus();
  }
}

function statsText({ state, stats }) {
  if (state === "waiting") return "Waiting for the first token…";
  if (!stats || stats.tokens === 0) return "";
  const parts = [plural(stats.tokens, "token")];
  if (stats.tokensPerSecond) parts.push(`${amount(stats.tokensPerSecond)} tokens/s`);
  parts.push(`first after ${seconds(stats.firstSeconds)}`);
  if (stats.cachedTokens > 0) parts.push(`${plural(stats.cachedTokens, "prompt token")} from cache`);
  return parts.join(" · ");
}
