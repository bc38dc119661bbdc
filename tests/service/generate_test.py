"""Answers of chat and completions: whole and streamed alike, with what clients read of them."""

import concurrent.futures
import json
import unittest

from served import HELLO_WORLD, ServiceTest, events

GREEDY = {"temperature": 0, "ignore_eos": True}


class CompletionsTest(ServiceTest):
    flags = ("--deterministic",)  # texts are compared that ran beside others or alone

    def test_a_whole_answer(self):
        reply = self.server.complete(max_tokens=6, **GREEDY).json
        self.assertTrue(reply["id"].startswith("cmpl-"))
        self.assertEqual(reply["object"], "text_completion")
        self.assertEqual(reply["model"], "tiny")
        self.assertIsInstance(reply["created"], int)
        (choice,) = reply["choices"]
        self.assertEqual((choice["index"], choice["finish_reason"], choice["logprobs"]), (0, "length", None))
        self.assertIsNone(choice["stop_reason"])
        usage = reply["usage"]
        self.assertEqual((usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]), (2, 6, 8))

    def test_streams_say_what_whole_answers_say(self):
        for prompt in ("hello world", HELLO_WORLD, ["hello", "world"], [[5, 6, 7], [8]]):
            for extra in ({}, {"n": 3, "temperature": 1.0, "seed": 7}, {"stop": ["e", "zz"]}, {"echo": True}):
                with self.subTest(prompt=prompt, extra=extra):
                    fields = {"max_tokens": 24} | GREEDY | extra
                    whole = self.server.complete(prompt, **fields).json
                    stream = events(self.server.complete(prompt, stream=True, **fields).body)
                    self.assertEqual({event["object"] for event in stream}, {"text_completion"})
                    self.assertEqual(len({event["id"] for event in stream}), 1)
                    for choice in whole["choices"]:
                        mine = [e["choices"][0] for e in stream if e["choices"][0]["index"] == choice["index"]]
                        self.assertEqual("".join(c["text"] for c in mine), choice["text"])
                        self.assertEqual([c["finish_reason"] for c in mine[:-1]], [None] * (len(mine) - 1))
                        self.assertEqual(mine[-1]["finish_reason"], choice["finish_reason"])
                        self.assertEqual(mine[-1]["stop_reason"], choice["stop_reason"])

    def test_indices_go_by_prompt_and_continuation(self):
        reply = self.server.complete(["hello", "world"], n=2, max_tokens=2, **GREEDY).json
        self.assertEqual([choice["index"] for choice in reply["choices"]], [0, 1, 2, 3])
        texts = [choice["text"] for choice in reply["choices"]]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(reply["usage"]["completion_tokens"], 8)
        self.assertEqual(self.server.complete("hello", max_tokens=2, **GREEDY).json["choices"][0]["text"], texts[0])

    def test_many_answers_compute_a_short_prompt_once(self):
        prompt = [50 + i for i in range(40)]
        one = self.server.complete(prompt, max_tokens=6, **GREEDY).json["choices"][0]["text"]
        self.server.post("/reset_prefix_cache", {})
        before = self.server.gauge("octavo:prefill_tokens_total")
        for limit in (6, 1):
            many = self.server.complete(prompt, n=100, max_tokens=limit, **GREEDY).json["choices"]
            self.assertEqual({choice["text"][:6] for choice in many}, {many[0]["text"][:6]})
            self.assertTrue(one.startswith(many[0]["text"]))
        computed = self.server.gauge("octavo:prefill_tokens_total") - before
        self.assertLessEqual(computed, 2 * (len(prompt) + 99))

    def test_scoring_a_prompt(self):
        """lm-eval's request: echo, one new token, the best beside each token."""
        ids = [262, 267, 40, 41, 42, 43]
        fields = {"max_tokens": 1, "logprobs": 1, "echo": True, "temperature": 0, "seed": 1234}
        reply = self.server.complete([ids], **fields).json
        scores = reply["choices"][0]["logprobs"]
        self.assertEqual({len(scores[key]) for key in scores}, {len(ids) + 1})
        self.assertIsNone(scores["token_logprobs"][0])
        self.assertIsNone(scores["top_logprobs"][0])
        for token, logprob, best in list(zip(scores["tokens"], scores["token_logprobs"], scores["top_logprobs"]))[1:]:
            self.assertTrue(-9999 <= logprob <= 0)
            self.assertEqual(best[token], logprob, "the same number to the bit")
            self.assertEqual(max(best.values()) >= logprob, True)
            self.assertLessEqual(len(best), 2)
        again = self.server.complete([ids], **fields).json["choices"][0]["logprobs"]
        self.assertEqual(again["tokens"], scores["tokens"], "what is cached is scored alike")
        alone = self.server.complete([ids], **fields | {"max_tokens": 0}).json
        self.assertEqual(alone["choices"][0]["logprobs"]["token_logprobs"], again["token_logprobs"][:-1])
        self.assertEqual(alone["usage"]["completion_tokens"], 0)
        self.assertEqual(alone["choices"][0]["text"], self.server.post("/detokenize", {"tokens": ids}).json["prompt"])

    def test_tokens_as_ids(self):
        prompt = [40, 41, 42]
        fields = {"max_tokens": 12, "return_token_ids": True} | GREEDY
        choice = self.server.complete(prompt, **fields).json["choices"][0]
        self.assertEqual(choice["prompt_token_ids"], prompt)
        self.assertEqual(len(choice["token_ids"]), 12)
        self.assertEqual(self.server.post("/detokenize", {"tokens": choice["token_ids"]}).json["prompt"], choice["text"])
        again = self.server.complete(prompt + choice["token_ids"][:6], **fields | {"max_tokens": 6}).json["choices"][0]
        self.assertEqual(again["token_ids"], choice["token_ids"][6:])
        stream = [event["choices"][0] for event in events(self.server.complete(prompt, stream=True, **fields).body)]
        self.assertEqual(stream[0]["prompt_token_ids"], prompt)
        self.assertEqual(sum((piece["token_ids"] for piece in stream), []), choice["token_ids"])
        chat = self.server.chat(**fields).json
        rendered = self.server.post("/v1/chat/completions/render", {"messages": [{"role": "user", "content": "hello world"}]})
        self.assertEqual(chat["prompt_token_ids"], rendered.json["token_ids"])
        self.assertEqual(len(chat["choices"][0]["token_ids"]), 12)
        named = {"logprobs": 2, "return_tokens_as_token_ids": True, "max_tokens": 12} | GREEDY
        names = self.server.complete(prompt, **named).json["choices"][0]["logprobs"]["tokens"]
        self.assertEqual(names, [f"token_id:{token}" for token in choice["token_ids"]])

    def test_logprobs_of_restricted_sampling_are_finite(self):
        reply = self.server.complete("correct horse", echo=True, logprobs=1, top_k=1, temperature=1, max_tokens=1)
        self.assertEqual(reply.status, 200)
        self.assertNotIn(b"Infinity", reply.body)

    def test_only_allowed_tokens_are_written(self):
        allowed = [40, 41, 262, 267]
        for temperature in (0, 1):
            fields = {"max_tokens": 40, "ignore_eos": True, "temperature": temperature, "allowed_token_ids": allowed,
                      "logprobs": 0}  # fmt: skip
            tokens = self.server.complete("hello", **fields).json["choices"][0]["logprobs"]["tokens"]
            texts = {self.server.post("/detokenize", {"tokens": [one]}).json["prompt"] for one in allowed}
            self.assertLessEqual(set(tokens), texts)
        fields = {"max_tokens": 5, "min_tokens": 5, "allowed_token_ids": [2], "temperature": 0}
        self.assertEqual(self.server.complete("hello", **fields).json["usage"]["completion_tokens"], 1, "the end")

    def test_bad_words_are_never_written(self):
        letters = self.server.post("/tokenize", {"prompt": "bcdfgjkmpqsvxyz"}).json["tokens"]
        fields = {"max_tokens": 60, "temperature": 0, "ignore_eos": True, "logprobs": 0, "allowed_token_ids": letters}
        plain = self.server.complete("hello", **fields).json["choices"][0]["logprobs"]["tokens"]
        for bad in (sorted(set(plain))[:3], [plain[0] + plain[1]], ["".join(plain[:3])]):
            text = self.server.complete("hello", bad_words=bad, **fields).json["choices"][0]["text"]
            self.assertNotEqual(text, "".join(plain))
            told = self.server.complete("hello", bad_words=bad, stream=True, **fields).body
            self.assertEqual("".join(e["choices"][0]["text"] for e in events(told)), text)
            for word in bad:
                self.assertNotIn(word, text)

    def test_a_prompt_may_be_cut_to_its_last_tokens(self):
        prompt = [20 + i % 200 for i in range(3000)]
        expected = self.server.complete(prompt[-50:], max_tokens=5, temperature=0).json
        self.assert_error(self.server.complete(prompt, max_tokens=5), 400, "prompt")
        cut = self.server.complete(prompt, max_tokens=5, temperature=0, truncate_prompt_tokens=50).json
        self.assertEqual(cut["choices"][0]["text"], expected["choices"][0]["text"])
        self.assertEqual(cut["usage"]["prompt_tokens"], 50)
        fitted = self.server.complete(prompt, max_tokens=48, ignore_eos=True, truncate_prompt_tokens=-1).json["usage"]
        self.assertEqual((fitted["prompt_tokens"], fitted["completion_tokens"]), (2000, 48))
        self.assertEqual(self.server.chat("hello " * 3000, max_tokens=4, truncate_prompt_tokens=-1).status, 200)

    def test_stop_strings_never_leak(self):
        text = self.server.complete(max_tokens=60, **GREEDY).json["choices"][0]["text"]
        stop = text[20:23]
        for include in (False, True):
            reply = self.server.complete(max_tokens=60, stop=[stop], include_stop_str_in_output=include, **GREEDY).json
            choice = reply["choices"][0]
            end = text.index(stop) + (len(stop) if include else 0)
            self.assertEqual(choice["text"], text[:end])
            self.assertEqual((choice["finish_reason"], choice["stop_reason"]), ("stop", stop))

    def test_stop_tokens_are_named(self):
        reply = self.server.complete(max_tokens=3, stop_token_ids=list(range(512)), logprobs=0, **GREEDY).json
        choice = reply["choices"][0]
        self.assertEqual((choice["text"], choice["finish_reason"]), ("", "stop"))
        self.assertIn(choice["stop_reason"], range(512))
        self.assertEqual(reply["usage"]["completion_tokens"], 1, "the token that ended it was generated too")
        self.assertEqual(len(choice["logprobs"]["tokens"]), 1)

    def test_usage_in_streams(self):
        for options, chunks_with_usage, last in ((None, 0, False), ({}, 0, False), ({"include_usage": True}, 1, True)):
            fields = {} if options is None else {"stream_options": options}
            stream = events(self.server.complete(max_tokens=3, stream=True, **fields, **GREEDY).body)
            self.assertEqual(sum("usage" in event for event in stream), chunks_with_usage)
            self.assertEqual(stream[-1]["choices"] == [], last)
            self.assertTrue(all(len(event["choices"]) == 1 for event in stream[:-1]))
        self.assertEqual(stream[-1]["usage"]["completion_tokens"], 3)
        every = {"include_usage": True, "continuous_usage_stats": True}
        stream = events(self.server.complete(max_tokens=3, stream=True, stream_options=every, **GREEDY).body)
        self.assertTrue(all("usage" in event for event in stream))

    def test_max_tokens_beyond_the_context_are_clamped(self):
        for asked in (2046, 999999):
            reply = self.server.complete([10 + i % 400 for i in range(2000)], max_tokens=asked, **GREEDY).json
            self.assertEqual(reply["usage"]["completion_tokens"], 48)
            self.assertEqual(reply["choices"][0]["finish_reason"], "length")

    def test_many_streams_are_never_mixed_up(self):
        prompts = [[10 + i, 20 + i, 30] for i in range(24)]
        alone = [self.server.complete(p, max_tokens=8, **GREEDY).json["choices"][0]["text"] for p in prompts]

        def streamed(prompt):
            stream = events(self.server.complete(prompt, max_tokens=8, stream=True, **GREEDY).body)
            return "".join(event["choices"][0]["text"] for event in stream)

        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            self.assertEqual(list(pool.map(streamed, prompts)), alone)


class ChatTest(ServiceTest):
    flags = ("--deterministic",)

    def test_a_whole_answer(self):
        reply = self.server.chat(max_tokens=5, **GREEDY).json
        self.assertTrue(reply["id"].startswith("chatcmpl-"))
        self.assertEqual(reply["object"], "chat.completion")
        (choice,) = reply["choices"]
        self.assertEqual(choice["message"]["role"], "assistant")
        self.assertIsInstance(choice["message"]["content"], str)
        self.assertEqual(choice["finish_reason"], "length")
        self.assertEqual(reply["usage"]["completion_tokens"], 5)

    def test_streams_say_what_whole_answers_say(self):
        fields = {"max_tokens": 20, "n": 2, "temperature": 0.8, "seed": 3, "ignore_eos": True}
        whole = self.server.chat(**fields).json
        reply = self.server.chat(stream=True, **fields)
        self.assertTrue(reply.headers["content-type"].startswith("text/event-stream"))
        stream = events(reply.body)
        self.assertEqual({event["object"] for event in stream}, {"chat.completion.chunk"})
        for key in ("id", "created", "model"):
            self.assertEqual(len({event[key] for event in stream}), 1)
        for choice in whole["choices"]:
            mine = [e["choices"][0] for e in stream if e["choices"][0]["index"] == choice["index"]]
            self.assertEqual(mine[0]["delta"], {"role": "assistant", "content": ""})
            self.assertEqual(mine[-1]["delta"], {})
            self.assertEqual(mine[-1]["finish_reason"], choice["finish_reason"])
            content = "".join(c["delta"]["content"] for c in mine[1:-1])
            self.assertEqual(content, choice["message"]["content"])
            self.assertTrue(all(c["finish_reason"] is None for c in mine[:-1]))

    def test_logprobs_have_one_entry_a_token(self):
        for top in (0, 3):
            fields = {"max_tokens": 6, "logprobs": True, "top_logprobs": top} | GREEDY
            entries = self.server.chat(**fields).json["choices"][0]["logprobs"]["content"]
            self.assertEqual(len(entries), 6)
            for entry in entries:
                self.assertEqual(set(entry), {"token", "logprob", "bytes", "top_logprobs"})
                self.assertEqual(len(entry["top_logprobs"]), top)
                self.assertEqual(bytes(entry["bytes"]).decode(errors="replace"), entry["token"])
                if top:
                    self.assertEqual(entry["top_logprobs"][0]["logprob"], entry["logprob"])
            stream = events(self.server.chat(stream=True, **fields).body)
            joined = [entry for event in stream for entry in (event["choices"][0]["logprobs"] or {"content": []})["content"]]
            self.assertEqual(joined, entries)
        plain = self.server.chat(max_tokens=2, logprobs=True, **GREEDY).json
        self.assertEqual(plain["choices"][0]["logprobs"]["content"][0]["top_logprobs"], [])

    def test_parts_and_strings_are_the_same_prompt(self):
        parts = [{"type": "text", "text": "hello world"}]
        one = self.server.chat("hello world", max_tokens=1).json["usage"]["prompt_tokens"]
        self.assertEqual(self.server.chat(parts, max_tokens=1).json["usage"]["prompt_tokens"], one)

    def test_what_routers_and_pages_add_is_accepted(self):
        extra = {"num_ctx": 4096, "repeat_penalty": 1.1, "store": False, "metadata": {}, "service_tier": "auto",
                 "prompt_cache_key": "k", "no_stop_trim": True, "separate_reasoning": True, "stream_reasoning": True,
                 "return_hidden_states": False, "skip_special_tokens": True, "spaces_between_special_tokens": True,
                 "include_reasoning": True, "user": "u", "seed": None, "logit_bias": None, "verbosity": "low",
                 "session_id": "s", "vllm_xargs": {"a": {}}, "kv_transfer_params": {}, "parallel_tool_calls": False,
                 "max_completion_tokens": 2, "tools": [], "tool_choice": "auto", "response_format": {"type": "text"}}
        self.assertEqual(self.server.chat(**extra).json["usage"]["completion_tokens"] <= 2, True)

    def test_text_is_never_split_inside_a_character(self):
        reply = self.server.chat(stream=True, max_tokens=100, temperature=1.5, seed=5, ignore_eos=True)
        whole = self.server.chat(max_tokens=100, temperature=1.5, seed=5, ignore_eos=True).json
        content = "".join(e["choices"][0]["delta"].get("content", "") for e in events(reply.body))
        self.assertEqual(content, whole["choices"][0]["message"]["content"])

    def test_a_prompt_too_long_names_both_numbers(self):
        error = self.assert_error(self.server.complete(list(range(10, 500)) * 5), 400, "prompt")
        self.assertIn("maximum context length is 2048 tokens", error["message"])
        self.assertIn("2450", error["message"])
        self.assert_error(self.server.chat("x y " * 3000), 400, "messages", "maximum context length is 2048 tokens")
        self.assert_error(self.server.complete("hello " * 300000), 400, "prompt", "at least")


if __name__ == "__main__":
    unittest.main()
