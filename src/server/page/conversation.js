// What was said. Kept for this tab, so that a reload loses nothing; an answer that was under way then is not complete.

import { isLive } from "./answer.js";
import { readJson, write } from "./store.js";

const storeName = "octavo.conversation";

export class Conversation {
  constructor() {
    this.messages = readJson("tab", storeName, []);
    for (const message of this.messages) {
      if (message.role !== "assistant" || !isLive(message)) continue;
      message.state = "broken";
      message.note = "Not complete. The page was left while this answer was coming.";
    }
  }

  save() {
    write("tab", storeName, JSON.stringify(this.messages));
  }

  add(message) {
    this.messages.push(message);
    this.save();
    return message;
  }

  // Drops this message and all after it.
  cutFrom(message) {
    const index = this.messages.indexOf(message);
    if (index >= 0) this.messages.length = index;
    this.save();
  }

  // As the API takes it, up to and without `answer`.
  wire(system, answer) {
    const wire = system === "" ? [] : [{ role: "system", content: system }];
    for (const message of this.messages) {
      if (message === answer) break;
      const { role, content } = message;
      if (role === "user" || content !== "") wire.push({ role, content });
    }
    return wire;
  }

  // The tokens of context that the last counted answer took: prompt and answer.
  usedTokens() {
    const counted = this.messages.findLast((message) => message.stats?.promptTokens > 0);
    return counted ? counted.stats.promptTokens + counted.stats.tokens : 0;
  }
}
