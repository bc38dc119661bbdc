// The conversation: sending, stopping, retrying, editing; where the reader is; how much of the context is used.

import { fetchAnswer, isLive, newAnswer } from "./answer.js";
import { Conversation } from "./conversation.js";
import { byId, setText } from "./dom.js";
import { count, percent, plural } from "./format.js";
import { MessageView } from "./message_view.js";

export class Chat {
  constructor(settings) {
    this.settings = settings;
    this.conversation = new Conversation();
    this.views = [];
    this.maxTokens = 0;
    this.running = null;  // {answer, abort}
    this.follows = true;
    this.draft = byId("draft");
    this.scroll = byId("scroll");
    this.listen();
    this.rebuild();
  }

  listen() {
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.running) this.stop();
      else this.send();
    });
    this.draft.addEventListener("input", () => this.fitDraft());
    this.draft.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.running) this.send();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) this.stop();
    });
    byId("new").addEventListener("click", () => this.begin());
    byId("latest").addEventListener("click", () => this.toEnd());
    this.scroll.addEventListener("scroll", () => {
      const { scrollTop, clientHeight, scrollHeight } = this.scroll;
      this.follows = scrollTop + clientHeight > scrollHeight - 48;
      byId("latest").hidden = this.follows;
    });
    addEventListener("pagehide", () => this.conversation.save());
  }

  setContext(maxTokens) {
    this.maxTokens = maxTokens;
    this.showContext();
  }

  begin() {
    this.stop();
    this.conversation.cutFrom(this.conversation.messages[0]);
    this.rebuild();
    this.draft.focus();
  }

  send() {
    const text = this.draft.value.trim();
    if (text === "") return;
    this.draft.value = "";
    this.fitDraft();
    this.show(this.conversation.add({ role: "user", content: text }));
    this.answer();
  }

  stop() {
    if (!this.running) return;
    this.running.abort.abort();
    this.running = null;
    this.showRunning();
  }

  retry(message) {
    if (this.running) return;
    this.conversation.cutFrom(message);
    this.rebuild();
    this.answer();
    this.draft.focus();
  }

  edit(message, text) {
    this.stop();
    this.conversation.cutFrom(message);
    this.conversation.add({ role: "user", content: text });
    this.rebuild();
    this.answer();
    this.draft.focus();
  }

  async answer() {
    const run = { answer: this.conversation.add(newAnswer()), abort: new AbortController() };
    this.running = run;
    this.show(run.answer);
    this.toEnd();
    this.showRunning();
    announce("The model is answering.");
    const body = { messages: this.conversation.wire(this.settings.system, run.answer), ...this.settings.body() };
    await fetchAnswer(run.answer, body, run.abort.signal, () => this.changed(run));
    this.conversation.save();
    if (this.running !== null && this.running !== run) return;
    this.running = null;
    this.showRunning();
    announce(run.answer.note || `The answer is complete: ${plural(run.answer.stats?.tokens ?? 0, "token")}.`);
  }

  // Many tokens between two frames are drawn once.
  changed(run) {
    if (run.drawing) return;
    run.drawing = true;
    const draw = () => {
      run.drawing = false;
      this.views.find((view) => view.message === run.answer)?.update(this.isLast(run.answer));
      this.showContext();
      if (this.follows) this.toEnd();
      if (isLive(run.answer) && performance.now() - (run.saved ?? 0) > 1000) {
        run.saved = performance.now();
        this.conversation.save();
      }
    };
    if (document.hidden) setTimeout(draw, 0);
    else requestAnimationFrame(draw);
  }

  isLast(message) {
    return this.conversation.messages.at(-1) === message;
  }

  show(message) {
    const before = this.views.at(-1);
    const view = new MessageView(message, {
      retry: (answer) => this.retry(answer),
      edit: (question, text) => this.edit(question, text),
    });
    this.views.push(view);
    byId("messages").append(view.element);
    before?.update(false);
    view.update(true);
    byId("empty").hidden = true;
  }

  rebuild() {
    byId("messages").replaceChildren();
    this.views = [];
    byId("empty").hidden = this.conversation.messages.length > 0;
    for (const message of this.conversation.messages) this.show(message);
    this.showRunning();
    this.showContext();
    this.toEnd();
  }

  showRunning() {
    setText(byId("send"), this.running ? "Stop" : "Send");
    byId("send").classList.toggle("stop", this.running !== null);
    byId("new").hidden = this.conversation.messages.length === 0;
  }

  showContext() {
    const used = this.conversation.usedTokens();
    byId("context").hidden = used === 0 || this.maxTokens === 0;
    if (used === 0 || this.maxTokens === 0) return;
    setText(byId("context-text"), `${count(used)} of ${count(this.maxTokens)} tokens`);
    setText(byId("context-share"), percent(used / this.maxTokens));
    byId("context-bar").value = used / this.maxTokens;
  }

  toEnd() {
    this.follows = true;
    byId("latest").hidden = true;
    this.scroll.scrollTop = this.scroll.scrollHeight;
  }

  fitDraft() {
    this.draft.style.height = "auto";
    this.draft.style.height = `${Math.min(this.draft.scrollHeight + 2, innerHeight * 0.35)}px`;
  }
}

function announce(text) {
  setText(byId("announce"), text);
}
