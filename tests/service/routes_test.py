"""Every route answers as docs/http.md says; what is no route, or not that way, says so."""

import unittest

from served import HELLO_WORLD, SOURCE_DIR, ServiceTest


class RoutesTest(ServiceTest):
    def test_probes(self):
        for path in ("/health", "/ping", "/live", "/ready"):
            with self.subTest(path):
                reply = self.server.get(path)
                self.assertEqual((reply.status, reply.body), (200, b""))

    def test_models(self):
        listing = self.server.get("/v1/models").json
        self.assertEqual(listing["object"], "list")
        (model,) = listing["data"]
        self.assertEqual(model["id"], "tiny")
        self.assertEqual(model["object"], "model")
        self.assertEqual(model["max_model_len"], 2048)
        self.assertIsInstance(model["created"], int)
        self.assertEqual(model["permission"], [])
        self.assertIn("owned_by", model)
        self.assertIn("root", model)
        self.assertIsNone(model["parent"])
        self.assertEqual(self.server.get("/v1/models/tiny").json["id"], "tiny")
        self.assert_error(self.server.get("/v1/models/other%2Fone"), 404, "model", "`other/one` does not exist")

    def test_tokenize_and_back(self):
        reply = self.server.post("/tokenize", {"prompt": "hello world", "return_token_strs": True}).json
        self.assertEqual(reply["tokens"], HELLO_WORLD)
        self.assertEqual(reply["count"], 2)
        self.assertEqual(reply["max_model_len"], 2048)
        self.assertEqual(reply["token_strs"], ["hello", "\u0120world"])
        self.assertIsNone(self.server.post("/tokenize", {"prompt": ""}).json["token_strs"])
        back = self.server.post("/detokenize", {"tokens": reply["tokens"], "model": "tiny"}).json
        self.assertEqual(back, {"prompt": "hello world"})

    def test_tokenize_messages(self):
        messages = [{"role": "user", "content": "hello"}]
        with_prompt = self.server.post("/tokenize", {"messages": messages}).json
        without = self.server.post("/tokenize", {"messages": messages, "add_generation_prompt": False}).json
        self.assertGreater(with_prompt["count"], without["count"])
        text = self.server.post("/detokenize", {"tokens": without["tokens"]}).json["prompt"]
        self.assertEqual(text, "<|begin|>user: hello<|end|>")
        rendered = self.server.post("/v1/chat/completions/render", {"messages": messages}).json
        self.assertEqual(rendered["token_ids"], with_prompt["tokens"])
        self.assertEqual(rendered["prompt"], "<|begin|>user: hello<|end|><|begin|>assistant: ")
        (entry,) = self.server.post("/v1/completions/render", {"prompt": "hello world"}).json
        self.assertEqual(entry["token_ids"], HELLO_WORLD)

    def test_tokenizer_info(self):
        info = self.server.get("/tokenizer_info").json
        self.assertEqual(info["bos_token"], "<|begin|>")
        self.assertEqual(info["eos_token"], "<|end|>")
        self.assertEqual(info["pad_token"], "<|pad|>")
        self.assertIn("{% for m in messages %}", info["chat_template"])
        self.assertIsInstance(info["tokenizer_class"], str)

    def test_what_routers_ask(self):
        self.assertEqual(self.server.get("/get_load").json, {"load": 0})
        self.assertEqual(self.server.get("/load").json, {"server_load": 0})
        self.assertIsInstance(self.server.get("/version").json["version"], str)
        for path in ("/server_info", "/get_server_info"):
            info = self.server.get(path).json
            self.assertEqual(info["served_model_name"], "tiny")
            self.assertEqual(info["model_path"], str(self.model))
            self.assertEqual(info["dp_size"], 1)
            self.assertGreater(info["max_total_tokens"], 0)
            self.assertEqual(info["max_running_requests"], 64)
        for path in ("/model_info", "/get_model_info"):
            info = self.server.get(path).json
            self.assertTrue(info["is_generation"])
            self.assertEqual(info["architectures"], ["LlamaForCausalLM"])
        self.assertEqual(self.server.get("/kv_event_sources").json, [])

    def test_metrics(self):
        self.assertEqual(self.server.complete(max_tokens=3, ignore_eos=True).status, 200)
        reply = self.server.get("/metrics")
        self.assertEqual(reply.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8")
        values = self.server.metrics()
        self.assertGreaterEqual(values["vllm:generation_tokens_total", ""], 3)
        self.assertGreaterEqual(values["vllm:request_success_total", 'finished_reason="length"'], 1)
        self.assertGreaterEqual(values["vllm:time_to_first_token_seconds_count", ""], 1)
        self.assertGreaterEqual(values["vllm:inter_token_latency_seconds_count", ""], 2)
        self.assertGreaterEqual(values["octavo:step_seconds_count", ""], 3)
        self.assertGreater(values["octavo:kv_written_total", 'layer="0"'], 0)

    def test_head_is_get_without_a_body(self):
        for path in ("/metrics", "/v1/models", "/health"):
            reply = self.server.ask("HEAD", path)
            self.assertEqual((reply.status, reply.body), (200, b""), path)
        self.assertGreater(int(self.server.ask("HEAD", "/metrics").headers["content-length"]), 1000)

    def test_unknown_paths_and_methods(self):
        for path in ("/v1", "/v1/responses", "/v1/embeddings", "/nowhere"):
            self.assert_error(self.server.ask("POST", path, {}), 404)
        reply = self.server.get("/v1/chat/completions")
        self.assert_error(reply, 405)
        self.assertEqual(reply.headers["allow"], "POST")
        self.assertEqual(self.server.ask("DELETE", "/v1/models").status, 405)

    def test_request_ids_come_back(self):
        reply = self.server.get("/health", **{"X-Request-Id": "mine-1"})
        self.assertEqual(reply.headers["x-request-id"], "mine-1")
        self.assertNotEqual(self.server.get("/health").headers["x-request-id"],
                            self.server.get("/health").headers["x-request-id"])
        reply = self.server.post("/v1/completions", {"prompt": "hello", "max_tokens": 1}, {"x-request-id": "mine-2"})
        self.assertEqual(reply.json["id"], "cmpl-mine-2")

    def test_one_id_is_in_header_and_body(self):
        body = {"prompt": "hello", "max_tokens": 1, "request_id": "of-the-body"}
        reply = self.server.post("/v1/completions", body)
        self.assertEqual((reply.json["id"], reply.headers["x-request-id"]), ("cmpl-of-the-body", "of-the-body"))
        reply = self.server.post("/v1/completions", body | {"stream": True})
        self.assertEqual(reply.headers["x-request-id"], "of-the-body")
        reply = self.server.post("/v1/completions", body, {"x-request-id": "of-the-header"})
        self.assertEqual((reply.json["id"], reply.headers["x-request-id"]), ("cmpl-of-the-header", "of-the-header"))

    def test_prefix_cache_is_hit_and_reset(self):
        prompt = list(range(10, 160))
        cached = lambda: self.server.complete(prompt, max_tokens=1).json["usage"]["prompt_tokens_details"]["cached_tokens"]
        cached()
        self.assertGreater(cached(), 0)
        self.assertEqual(self.server.post("/reset_prefix_cache", b"").status, 200)
        self.assertEqual(cached(), 0)

    def test_the_description_is_of_the_routes_there_are(self):
        page = self.server.get("/openapi.json").json
        self.assertTrue(page["openapi"].startswith("3."))
        documented = (SOURCE_DIR / "docs/http.md").read_text()
        for path, methods in page["paths"].items():
            self.assertIn(path.replace("{model}", "{id}"), documented)
            for method in methods:
                status = self.server.ask(method.upper(), path.replace("{model}", "tiny"), None).status
                self.assertNotIn(status, (404, 405), f"{method} {path}")
        chat = page["paths"]["/v1/chat/completions"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        self.assertEqual(chat["required"], ["messages"])

    def test_no_cors_unless_asked(self):
        reply = self.server.get("/v1/models", Origin="http://page")
        self.assertNotIn("access-control-allow-origin", reply.headers)


class CorsTest(ServiceTest):
    flags = ("--allowed-origins", '["http://page"]')

    def test_preflight_and_answer(self):
        asked = {"Origin": "http://page", "Access-Control-Request-Method": "POST",
                 "Access-Control-Request-Headers": "authorization"}
        reply = self.server.ask("OPTIONS", "/v1/chat/completions", None, asked)
        self.assertEqual(reply.status, 204)
        self.assertEqual(reply.headers["access-control-allow-origin"], "http://page")
        self.assertEqual(reply.headers["access-control-allow-headers"], "authorization")
        self.assertEqual(self.server.get("/health", Origin="http://page").headers["access-control-allow-origin"],
                         "http://page")
        other = self.server.ask("OPTIONS", "/v1/chat/completions", None, asked | {"Origin": "http://evil"})
        self.assertEqual(other.status, 403)
        self.assertNotIn("access-control-allow-origin", other.headers)


if __name__ == "__main__":
    unittest.main()
