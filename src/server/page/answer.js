// One answer as it comes. Its state says what it is, and only "complete" is whole:
//   waiting, streaming, complete, length (cut by its limit), stopped (by the reader), broken, failed (never began)

import { ApiError, postStream } from "./api.js";
import { sentence } from "./format.js";

export const newAnswer = () => ({
  role: "assistant",
  content: "",
  reasoning: "",
  calls: [],
  state: "waiting",
  note: "",
  stats: null,
});

export const isLive = (message) => message.state === "waiting" || message.state === "streaming";

// Fills `answer`, calling onChange whenever it has changed. Never throws: what goes wrong is its state and note.
export async function fetchAnswer(answer, body, signal, onChange) {
  const clock = new Clock();
  let finish = null;
  const take = (event) => {
    if (event.usage) clock.usage(event.usage);
    const choice = event.choices?.[0];
    if (choice) {
      answer.state = "streaming";
      addDelta(answer, choice.delta ?? {});
      clock.token();
      finish = choice.finish_reason ?? finish;
    }
    answer.stats = clock.stats();
    onChange();
  };
  const options = { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } };
  try {
    await postStream("v1/chat/completions", { ...body, ...options }, signal, take);
    if (finish === null) throw new ApiError("The answer ended without saying why.");
    answer.state = finish === "length" ? "length" : "complete";
    if (finish === "length") answer.note = "Cut: the answer reached its limit of tokens.";
  } catch (failure) {
    describeFailure(answer, failure);
  }
  answer.stats = clock.stats();
  onChange();
}

function describeFailure(answer, failure) {
  if (failure.name === "AbortError") {
    answer.state = "stopped";
    answer.note = "Stopped.";
    return;
  }
  const begun = answer.state === "streaming";
  answer.state = begun ? "broken" : "failed";
  const why = failure instanceof ApiError ? failure.message : `This page failed: ${failure.message}`;
  answer.note = failure.param ? why : sentence(why);  // some begin with a field's name
  if (failure.retryAfter) answer.note += ` The server asks to try again in ${failure.retryAfter} s.`;
  if (begun) answer.note = `Not complete. ${answer.note}`;
}

function addDelta(answer, delta) {
  answer.content += delta.content ?? "";
  answer.reasoning += delta.reasoning ?? delta.reasoning_content ?? "";
  for (const piece of delta.tool_calls ?? []) {
    const call = (answer.calls[piece.index] ??= { name: "", arguments: "" });
    call.name += piece.function?.name ?? "";
    call.arguments += piece.function?.arguments ?? "";
  }
}

// Tokens by the server's own count, seconds by this page's clock.
class Clock {
  constructor() {
    this.began = performance.now();
    this.first = this.last = null;
    this.tokensAtFirst = this.tokens = this.promptTokens = this.cachedTokens = 0;
  }

  usage(usage) {
    this.tokens = usage.completion_tokens;
    this.promptTokens = usage.prompt_tokens;
    this.cachedTokens = usage.prompt_tokens_details?.cached_tokens ?? 0;
  }

  token() {
    this.last = performance.now();
    if (this.first !== null) return;
    this.first = this.last;
    this.tokensAtFirst = this.tokens;
  }

  stats() {
    if (this.first === null) return null;
    const seconds = (this.last - this.first) / 1000;
    const later = this.tokens - this.tokensAtFirst;
    return {
      firstSeconds: (this.first - this.began) / 1000,
      tokensPerSecond: later > 0 && seconds > 0 ? later / seconds : null,
      tokens: this.tokens,
      promptTokens: this.promptTokens,
      cachedTokens: this.cachedTokens,
    };
  }
}
