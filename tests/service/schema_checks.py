"""Loaded by schemathesis: whatever /openapi.json allows is taken, but for what no schema can say."""

import schemathesis

# How many tokens a text has, that a number exceeds another, what a template makes of the messages.
UNSAID = ("maximum context length is", "it must not exceed max_tokens", "continue_final_message: the last message's content",
          "bad_words holds a word of", "the server has places for")  # fmt: skip


@schemathesis.check
def what_is_described_is_taken(_, response, case):
    described = case.meta is not None and case.meta.generation.mode.is_positive
    if not described or response.status_code != 400:
        return
    message = response.json()["error"]["message"]
    if not any(words in message for words in UNSAID):
        raise AssertionError(f"a request as described was refused: {message}")
