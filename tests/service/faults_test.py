"""Faults that other servers of quantized caches had, each as a test of its name: here they must be impossible."""

import concurrent.futures
import http.client
import json
import math
import random
import signal
import threading
import time
import unittest

from served import LONG_CONTEXT, PATIENCE, Server, ServiceTest, events, octavo

PAGE = 16
GREEDY = {"temperature": 0, "ignore_eos": True}
ALIKE = ("--deterministic", "--block-size", PAGE, "--kv-cache-dtype")


def ids(seed, count):
    return random.Random(seed).choices(range(3, 250), k=count)


def scored(server, prompt, **fields):
    """Tokens, their log-probabilities, and how many tokens of the prompt came from the cache."""
    answer = server.complete(prompt, logprobs=2, **({"max_tokens": 4} | GREEDY | fields)).json
    scores = answer["choices"][0]["logprobs"]
    return (scores["tokens"], scores["token_logprobs"], scores["top_logprobs"]), cached(answer)


def cached(answer):
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def longest_wait_beside(server, work, *paths):
    """Seconds that a probe waited at most, and that the work took."""
    waits = []

    def probe(over):
        while not over.wait(0.05 / len(paths)):
            path = paths[len(waits) % len(paths)]
            begun = time.monotonic()
            status = server.get(path).status
            waits.append(time.monotonic() - begun if status == 200 else math.inf)

    over = threading.Event()
    prober = threading.Thread(target=probe, args=(over,))
    prober.start()
    begun = time.monotonic()
    try:
        work()
        seconds = time.monotonic() - begun
    finally:
        over.set()
        prober.join()
    return max(waits, default=seconds), seconds


def assert_probes_do_not_wait_for(test, work, *paths):
    tries = []
    for _ in range(10):  # a busy machine keeps probes waiting too, but not always
        longest, worked = longest_wait_beside(test.server, work, *paths)
        test.assertLess(longest, math.inf, "a probe was not answered by 200")
        tries.append(f"{longest:.3f} s of {worked:.3f} s")
        if longest < worked / 2:
            return
    test.fail(f"probes waited for the work of others: {tries}")


class PrefixTest(ServiceTest):
    flags = (*ALIKE, "fp8", "--max-num-batched-tokens", "128")

    def test_a_warm_prefix_gives_another_answer_than_a_cold_one(self):
        for count in (1000, PAGE - 1, PAGE, PAGE + 1, 4 * PAGE, 64 * PAGE):  # whole pages: the last token is off by one
            with self.subTest(count):
                prompt = ids(count, count)
                cold, first = scored(self.server, prompt)
                warm, second = scored(self.server, prompt)
                self.assertEqual((first, second), (0, (count - 1) // PAGE * PAGE))
                self.assertEqual(warm, cold)

    def test_prompt_logprobs_come_from_stale_pages(self):
        short, long = ids(1, 5 * PAGE), ids(1, 5 * PAGE) + ids(2, 3 * PAGE)
        fields = {"echo": True, "max_tokens": 1}
        answers = []
        for order in ((short, long, short), (long, short, long)):
            self.assertEqual(self.server.post("/reset_prefix_cache", {}).status, 200)
            answers.append({len(prompt): scored(self.server, prompt, **fields)[0] for prompt in order})
        self.assertEqual(answers[0], answers[1])
        alone = [scored(self.server, long[:i], max_tokens=1, logit_bias={str(long[i]): 100})[0] for i in (1, 40, 90)]
        told = answers[0][len(long)][1]
        self.assertEqual([scores[1][0] for scores in alone], [told[1], told[40], told[90]])

    def test_chunks_or_a_kind_of_cache_change_the_answer_or_are_refused(self):
        prompt = ids(3, 1500)
        whole, _ = scored(self.server, prompt)
        for budget in ("512", "4096"):
            server = Server(self.model, *ALIKE, "fp8", "--max-num-batched-tokens", budget)
            self.assertEqual(scored(server, prompt)[0], whole, budget)
            server.stop()
        for kind in ("int8", "fp8_e5m2"):
            server = Server(self.model, *ALIKE, kind, "--max-num-batched-tokens", "128")
            cold, _ = scored(server, prompt)
            self.assertEqual(scored(server, prompt), (cold, 1488), kind)
            server.stop()

    def test_an_abandoned_turn_poisons_the_next(self):
        first = {"role": "user", "content": "hello world " * 20}
        fields = {"max_tokens": 8, "return_token_ids": True} | GREEDY
        answer = self.server.chat(first["content"], **fields).json["choices"][0]["message"]["content"]
        turns = [first, {"role": "assistant", "content": answer}]
        again = {"messages": [*turns, {"role": "user", "content": "and so"}]} | fields
        expected = self.server.post("/v1/chat/completions", again).json
        self.assertEqual(self.server.post("/reset_prefix_cache", {}).status, 200)
        self.server.chat(first["content"], **fields)
        abandoned = {"messages": [*turns, {"role": "user", "content": "something else"}], "stream": True, "max_tokens": 900}
        connection, response = self.server.begin("/v1/chat/completions", abandoned | GREEDY)
        response.read(400)
        connection.close()
        self.assert_idle()
        anew = self.server.post("/v1/chat/completions", again).json
        self.assertEqual(anew["choices"][0]["message"], expected["choices"][0]["message"])
        for count in ("prompt_tokens", "completion_tokens"):
            self.assertEqual(anew["usage"][count], expected["usage"][count])
        self.assertLess(cached(anew), anew["usage"]["prompt_tokens"])

    def test_another_salts_pages_are_shared(self):
        prompt = ids(4, 4 * PAGE + 1)
        for salt in (None, "a", "b"):
            self.assertEqual(scored(self.server, prompt, cache_salt=salt)[1], 0, salt)
        for salt in (None, "a", "b"):
            self.assertEqual(scored(self.server, prompt, cache_salt=salt)[1], 4 * PAGE, salt)

    def test_a_huge_body_blocks_the_others(self):
        huge = json.dumps({"prompt": "hello world " * 2_250_000, "max_tokens": 1}).encode()  # 27 MB
        long = json.dumps({"prompt": "hello world " * 1_500_000}).encode()

        def refuse_and_tokenize():
            refused = self.assert_error(self.server.post("/v1/completions", huge), 400, "prompt", "maximum context length is")
            self.assertIn("but the prompt has at least", refused["message"], "told from its bytes alone")
            self.assertEqual(self.server.post("/tokenize", long).status, 200)

        assert_probes_do_not_wait_for(self, refuse_and_tokenize, "/health")


class SmallPoolTest(ServiceTest):
    """A cache of 64 pages."""

    flags = ("--block-size", PAGE, "--kv-cache-memory-bytes", "512K", "--enable-log-requests", "--deterministic")

    def test_a_flag_for_the_cache_is_ignored(self):
        server = Server(self.model, *ALIKE, "fp8")
        halved = server.gauge("octavo:kv_bytes_per_token") * 2
        self.assertIn("fp8", server.block)
        server.stop()
        self.assertEqual(self.server.gauge("octavo:kv_bytes_per_token"), halved)

    def test_preempted_answers_are_cut_or_change(self):
        pages = self.server.gauge("octavo:kv_pages_free") + self.server.gauge("octavo:kv_pages_cached")
        length = int(pages * 5 // 8) * PAGE  # of each of eight requests: five times what there is
        requests = [{"prompt": ids(50 + i, length // 2), "max_tokens": length // 2, "request_id": f"r{i}"} | GREEDY
                    for i in range(8)]  # fmt: skip
        alone = [self.server.post("/v1/completions", request).json for request in requests]
        before = self.server.gauge("vllm:num_preemptions_total")

        def ask(i):
            body = self.server.post("/v1/completions", requests[i] | {"stream": i % 2 == 0}).body
            return events(body) if i % 2 == 0 else [json.loads(body)]

        for _ in range(20):  # on a busy machine they may come one by one
            with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
                together = list(pool.map(ask, range(len(requests))))
            for i, chunks in enumerate(together):
                self.assertEqual("".join(c["choices"][0]["text"] for c in chunks), alone[i]["choices"][0]["text"], i)
                self.assertEqual(chunks[-1]["choices"][0]["finish_reason"], "length")
            if self.server.gauge("vllm:num_preemptions_total") > before:
                break
        self.assertGreater(self.server.gauge("vllm:num_preemptions_total"), before)
        self.server.wait_for_log("preempted")
        told = [line for line in self.server.log.splitlines() if "preempted" in line]
        self.assertTrue(told and all("id=r" in line for line in told), "which request, and what it lost")
        self.assert_idle()

    def test_a_request_of_the_whole_pool_finds_no_room_or_its_length_is_misjudged(self):
        limit = self.server.get("/v1/models").json["data"][0]["max_model_len"]
        self.assertLessEqual(limit, 64 * PAGE)
        self.assertEqual(self.server.complete(ids(5, limit - 1), max_tokens=1).status, 200)
        prompt = ids(6, limit - 8)
        for asked in ({"max_tokens": 9}, {"max_tokens": 999999}):
            answer = self.server.complete(prompt, **GREEDY, **asked).json
            self.assertEqual(answer["usage"]["completion_tokens"], 8, "as many as the context holds")
            self.assertEqual(answer["choices"][0]["finish_reason"], "length")
        text = self.server.post("/detokenize", {"tokens": [262] * 20}).json["prompt"]
        answer = self.server.chat(text, **GREEDY).json["usage"]
        self.assertEqual(answer["total_tokens"], limit, "what is not said is what is left")
        for size in (limit, limit + 5):
            error = self.assert_error(self.server.complete(ids(7, size)), 400, "prompt")
            self.assertIn(f"maximum context length is {limit} tokens, but the prompt has {size} tokens", error["message"])
        self.assert_error(self.server.complete("hello", max_tokens=0), 400, "max_tokens")


class LongPrefillTest(ServiceTest):
    """A prompt is one step, however long it is: meanwhile none ends."""

    flags = ("--max-num-batched-tokens", "65536", "--threads", "1", *LONG_CONTEXT)

    def test_probes_fail_or_wait_while_a_long_prompt_is_computed(self):
        def prefill():
            before = self.server.gauge("octavo:step_seconds_count")
            self.assertEqual(self.server.complete(ids(time.monotonic(), 8000), max_tokens=1).status, 200)
            self.assertEqual(self.server.gauge("octavo:step_seconds_count") - before, 1)

        assert_probes_do_not_wait_for(self, prefill, "/live", "/health", "/ready", "/metrics")


class SpellingTest(ServiceTest):
    def test_one_rope_has_several_spellings_and_some_are_ignored(self):
        plain, _ = scored(self.server, ids(8, 200))
        scaling = {"factor": 2.0}
        answers = []
        for flag, value in (
            ("--rope-scaling", {"type": "linear"} | scaling),
            ("--rope-scaling", {"rope_type": "linear"} | scaling),
            ("--hf-overrides", {"rope_scaling": {"type": "linear"} | scaling}),
            ("--hf-overrides", {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0} | scaling}),
        ):
            server = Server(self.model, flag, json.dumps(value))
            answers.append(scored(server, ids(8, 200))[0])
            server.stop()
            self.assertIn('rope="linear theta=10000 factor=2"', server.log)
            self.assertIn("4096 tokens", server.block)
        self.assertNotEqual(answers[0], plain)
        self.assertEqual(answers, answers[:1] * len(answers))
        done = octavo("serve", self.model, "--rope-scaling", '{"type": "linear", "factor": 2, "fctor": 3}')
        self.assertEqual(done.code, 1)
        self.assertIn("fctor", done.err)

    def test_events_of_the_cache_change_their_form_under_consumers(self):
        self.assertEqual(self.server.get("/kv_event_sources").json, [], "there are none, and who asks is told")
        done = octavo("serve", self.model, "--kv-events-config", "{}")
        self.assertNotEqual(done.code, 0)
        self.assertIn("--kv-events-config", done.err)

    def test_a_killed_server_leaves_short_answers_that_look_whole(self):
        server = Server(self.model, "--max-num-seqs", "8", *LONG_CONTEXT)
        begun = threading.Semaphore(0)
        ends = [None] * 24

        def read(i):
            fields = {"prompt": ids(i, 20), "max_tokens": 60000 if i % 2 else 20, "stream": i % 3 > 0} | GREEDY
            connection = server.connect()
            try:
                connection.request("POST", "/v1/completions", json.dumps(fields))
                response = connection.getresponse()
                begun.release()
                body = response.read()
                ends[i] = "whole" if body.endswith((b"data: [DONE]\n\n", b"}")) else f"cut: {body[-80:]}"
            except (OSError, http.client.HTTPException):
                ends[i] = "broken"
            finally:
                connection.close()

        threads = [threading.Thread(target=read, args=(i,)) for i in range(len(ends))]
        for thread in threads:
            thread.start()
        for _ in range(4):
            self.assertTrue(begun.acquire(timeout=PATIENCE))
        server.process.kill()
        for thread in threads:
            thread.join()
        server.stop(-signal.SIGKILL)
        self.assertLessEqual(set(ends), {"broken", "whole"}, "an answer was cut and looks whole")
        self.assertIn("broken", ends)
        again = self.start_at(server.port)
        self.assertEqual(again.get("/ready").status, 200)
        self.assertEqual(again.complete(max_tokens=2).status, 200)
        again.stop()

    def start_at(self, port):
        """The port is free, but for a moment a client anywhere on this machine may have been given its number."""
        for _ in range(50):
            try:
                return Server(self.model, "--port", port)
            except AssertionError as failure:
                if "Address already in use" not in str(failure):
                    raise
        self.fail(f"port {port} stays in use")


if __name__ == "__main__":
    unittest.main()
