"""Bad input is a 400 that names the field, at once, and the server goes on."""

import json
import unittest

from served import ServiceTest

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"
FIELDS = [
    ("temperature", "hot"), ("temperature", -1), ("top_p", 0), ("top_p", 2), ("top_k", -2), ("min_p", 1.5),
    ("n", 0), ("n", 129), ("n", 1.5), ("n", 10**20), ("presence_penalty", 3), ("frequency_penalty", -3),
    ("repetition_penalty", 0), ("max_tokens", -5), ("max_tokens", "many"), ("min_tokens", -1), ("stop", 5),
    ("stop", [""]), ("stop_token_ids", [999999]), ("logit_bias", {"x": 1}), ("logit_bias", {"999999": 1}),
    ("logit_bias", {"5": 101}), ("stream", "yes"), ("stream_options", {"include_usage": True}), ("seed", "x"),
    ("priority", 0.5), ("response_format", {"type": "json_object"}), ("structured_outputs", {"json": {}}),
    ("guided_regex", "a+"), ("prompt_logprobs", 21), ("ignore_eos", 1),
    ("bad_words", "a"), ("bad_words", ["a", 3]), ("bad_words", [""]), ("bad_words", ["a"] * 3000),
    ("allowed_token_ids", []), ("allowed_token_ids", [99999]), ("allowed_token_ids", [3] * 5000),
    ("return_token_ids", "yes"), ("logit_bias", {"05": 1}), ("stop", ["a", 5]),
    ("truncate_prompt_tokens", 0), ("truncate_prompt_tokens", 99999), ("thinking_token_budget", 5),
]  # fmt: skip
DEEP = "[" * 500 + "]" * 500


class BadRequestsTest(ServiceTest):
    def test_fields_of_both_routes(self):
        for route, base in ((CHAT, {"messages": [{"role": "user", "content": "hi"}]}), (COMPLETION, {"prompt": "hi"})):
            for path in (route, route + "/render"):  # what is not answered is not rendered either
                for field, value in FIELDS:
                    with self.subTest(path=path, field=field, value=value):
                        self.assert_error(self.server.post(path, base | {field: value}), 400, field)

    def test_a_field_is_looked_at_even_where_another_is_used_in_its_place(self):
        messages = [{"role": "user", "content": "hi"}]
        for path in (CHAT, CHAT + "/render"):
            self.assert_error(self.server.post(path, {"messages": messages, "max_completion_tokens": 2, "max_tokens": "x"}), 400,
                              "max_tokens")  # fmt: skip
        self.assert_error(self.server.post("/tokenize", {"messages": messages, "prompt": 5}), 400, "prompt")

    def test_whole_numbers_that_are_too_large_are_called_so(self):
        for field, value in (("seed", 2**63), ("seed", -(2**70)), ("top_k", 2**31), ("n", 10**20), ("n", 1e300), ("priority", 2**40)):
            with self.subTest(field=field, value=value):
                self.assert_error(self.server.complete(**{field: value}), 400, field, "must be between")

    def test_numbers_at_the_ends_of_their_range_are_taken(self):
        for field, value in (("top_p", 1e-300), ("min_p", 1e-300), ("temperature", 1e-300), ("temperature", 1e38),
                             ("repetition_penalty", 1e-300), ("repetition_penalty", 1e38), ("presence_penalty", -2),
                             ("logit_bias", {"511": -100}), ("seed", 2**63 - 1), ("seed", -(2**63)), ("top_k", 2**31 - 1)):
            with self.subTest(field=field, value=value):
                self.assertEqual(self.server.complete(**{"max_tokens": 2, field: value}).status, 200)
        for tokens in (2**31, 2**53, 2**63 - 1):  # of those, as many as the context holds
            for answer in (self.server.complete(max_tokens=tokens, stop=["a", "e", "o"]), self.server.chat(max_completion_tokens=tokens)):
                self.assertEqual(answer.status, 200, answer.body)

    def test_fields_of_chat(self):
        base = {"messages": [{"role": "user", "content": "hi"}]}
        tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
        for field, value in [
            ("messages", []), ("messages", "hi"), ("messages", [{"role": "user", "content": 5}]),
            ("messages", [{"role": "x", "content": "a"}]), ("top_logprobs", 2), ("logprobs", 1),
            ("tool_choice", "required"), ("chat_template", "{{ 1 }}"), ("max_completion_tokens", 0),
        ]:  # fmt: skip
            with self.subTest(field=field, value=value):
                self.assert_error(self.server.post(CHAT, base | {field: value}), 400, field)
        named = {"type": "function", "function": {"name": "f"}}
        for choice in ("required", named):
            self.assert_error(self.server.post(CHAT, base | {"tools": [tool], "tool_choice": choice}), 400, "tool_choice")

    def test_fields_of_completions(self):
        for field, value in [
            ("prompt", None), ("prompt", []), ("prompt", ""), ("prompt", [99999]), ("prompt", [[-1]]), ("prompt", {}),
            ("logprobs", 21), ("logprobs", True), ("max_tokens", 0), ("suffix", "x"), ("best_of", 3), ("echo", "x"),
        ]:  # fmt: skip
            with self.subTest(field=field, value=value):
                self.assert_error(self.server.post(COMPLETION, {"prompt": "hi"} | {field: value}), 400, field)

    def test_unknown_models(self):
        for path, base in ((CHAT, {"messages": [{"role": "user", "content": "hi"}]}), (COMPLETION, {"prompt": "hi"}),
                           ("/tokenize", {"prompt": "hi"}), ("/detokenize", {"tokens": [1]})):
            error = self.assert_error(self.server.post(path, base | {"model": "x"}), 404, "model")
            self.assertEqual(error["message"], "The model `x` does not exist. Served here: `tiny`.")
            self.assertEqual(error["type"], "NotFoundError")

    def test_bodies_that_are_no_json_object(self):
        for body in (b"", b"nonsense", b"[1]", b"{", b'{"a":NaN}', b'{"prompt":"\xff"}', DEEP.encode(),
                     b'{"prompt":"\\ud800"}', b'{"prompt":1e999}'):
            for path in (CHAT, COMPLETION, "/tokenize", "/detokenize", "/abort_requests"):
                with self.subTest(path=path, body=body[:30]):
                    self.assertEqual(self.server.post(path, body).status, 400)

    def test_token_routes(self):
        self.assert_error(self.server.post("/tokenize", {}), 400, "prompt")
        self.assert_error(self.server.post("/tokenize", {"prompt": 5}), 400, "prompt")
        self.assert_error(self.server.post("/detokenize", {"tokens": "x"}), 400, "tokens")
        self.assert_error(self.server.post("/detokenize", {"tokens": [1.5]}), 400, "tokens")
        self.assert_error(self.server.post("/detokenize", {"tokens": [10**9]}), 400, "tokens")
        self.assert_error(self.server.post("/abort_requests", {"request_ids": [1]}), 400, "request_ids")

    def test_a_wide_object_is_refused_quickly(self):
        wide = json.dumps({f"k{i}": i for i in range(200000)})
        self.assertEqual(self.server.post(CHAT, wide).status, 400)

    def test_the_server_is_as_before(self):
        self.assertEqual(self.server.complete(max_tokens=1).status, 200)
        self.assert_idle()


if __name__ == "__main__":
    unittest.main()
