"""`octavo bench serve` against the built server: what it counts is true, and its results have vLLM's keys."""

import json
import math
import statistics
import unittest

from served import ServiceTest, octavo

# Of `vllm bench serve --save-result`, without what speaks of drafts, audio and ramps.
KEYS = {"date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts", "request_rate",
        "burstiness", "max_concurrency", "duration", "completed", "failed", "total_input_tokens", "total_output_tokens",
        "request_throughput", "request_goodput", "output_throughput", "total_token_throughput",
        "max_output_tokens_per_s", "max_concurrent_requests"}  # fmt: skip
DETAILS = {"input_lens", "output_lens", "ttfts", "itls", "start_times", "generated_texts", "errors"}


def percentile(values, percent):
    values = sorted(values)
    rank = percent / 100 * (len(values) - 1)
    low = math.floor(rank)
    return values[low] + (rank - low) * (values[min(low + 1, len(values) - 1)] - values[low])


class BenchServeTest(ServiceTest):
    def bench(self, *flags, name="result.json"):
        done = octavo("bench", "serve", "--base-url", self.server.url, "--save-result", "--result-dir",
                      self.folder / "results", "--result-filename", name, *flags)  # fmt: skip
        path = self.folder / "results" / name
        return done, json.loads(path.read_text()) if path.exists() else None

    def test_results_are_what_was_measured(self):
        before = self.server.metrics()
        done, result = self.bench("--num-prompts", "12", "--max-concurrency", "3", "--random-input-len", "30",
                                  "--random-output-len", "10", "--random-range-ratio", "0.5", "--seed", "5",
                                  "--ignore-eos", "--temperature", "0", "--save-detailed", "--metadata", "a=b", "c=d",
                                  "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,99",
                                  "--goodput", "ttft:600000", "e2el:600000")  # fmt: skip
        self.assertEqual(done.code, 0, done)
        self.assertLessEqual(KEYS | DETAILS, set(result))
        self.assertEqual((result["completed"], result["failed"], result["model_id"]), (12, 0, "tiny"))
        self.assertEqual((result["a"], result["c"], result["request_rate"]), ("b", "d", "inf"))
        self.assertLessEqual(result["max_concurrent_requests"], 3)
        after = self.server.metrics()
        for key, metric in (("total_input_tokens", "vllm:prompt_tokens_total"),
                            ("total_output_tokens", "vllm:generation_tokens_total")):  # fmt: skip
            self.assertEqual(result[key], after[metric, ""] - before[metric, ""], key)
        self.assertEqual(sum(result["input_lens"]), result["total_input_tokens"])
        self.assertTrue(all(15 <= length <= 45 for length in result["input_lens"]), result["input_lens"])
        self.assertTrue(all(5 <= length <= 15 for length in result["output_lens"]), result["output_lens"])
        seconds = result["duration"]
        self.assertAlmostEqual(result["request_throughput"], 12 / seconds)
        self.assertAlmostEqual(result["request_goodput"], 12 / seconds)
        self.assertAlmostEqual(result["output_throughput"], sum(result["output_lens"]) / seconds)
        for name, values in (("ttft", result["ttfts"]), ("itl", sum(result["itls"], []))):
            values = [1000 * value for value in values]
            self.assertAlmostEqual(result[f"mean_{name}_ms"], statistics.fmean(values))
            self.assertAlmostEqual(result[f"median_{name}_ms"], statistics.median(values))
            self.assertAlmostEqual(result[f"std_{name}_ms"], statistics.pstdev(values))
            self.assertAlmostEqual(result[f"p99_{name}_ms"], percentile(values, 99))
        for name in ("tpot", "e2el"):
            self.assertLessEqual(result[f"p50_{name}_ms"], result[f"p99_{name}_ms"])
        self.assertIn("Mean TTFT (ms):", done.text)
        self.assertIn("] 12/12", done.err)

    def test_chat_at_a_rate(self):
        done, result = self.bench("--backend", "openai-chat", "--num-prompts", "6", "--request-rate", "20",
                                  "--burstiness", "0.5", "--random-input-len", "12", "--random-output-len", "4", "--disable-tqdm",
                                  "--num-warmups", "1", name="chat.json")  # fmt: skip
        self.assertEqual(done.code, 0, done)
        self.assertFalse(DETAILS & set(result))
        self.assertEqual((result["completed"], result["total_output_tokens"]), (6, 24))
        self.assertEqual((result["request_rate"], result["burstiness"], result["max_concurrency"]), (20, 0.5, None))
        self.assertGreater(result["duration"], 0.3)  # the last of 6 comes after 6/20 s
        self.assertNotIn("6/6", done.err)

    def test_what_fails_is_counted_and_named(self):
        done, result = self.bench("--num-prompts", "4", "--random-input-len", "3000", name="failed.json")
        self.assertEqual(done.code, 1, done)
        self.assertIn("no request was answered: 4 of 4 requests failed", done.err)
        self.assertIn("maximum context length", done.err)
        self.assertEqual((result["completed"], result["failed"], result["mean_ttft_ms"]), (0, 4, 0))
        done, result = self.bench("--num-prompts", "8", "--random-input-len", "1500", "--random-output-len", "2",
                                  "--random-range-ratio", "0.9", "--seed", "1", name="some.json")  # fmt: skip
        self.assertEqual(done.code, 0, done)
        self.assertEqual(result["completed"] + result["failed"], 8)
        self.assertGreater(result["failed"], 0)
        self.assertIn("of 8 requests failed: the server refuses (400)", done.err)

    def test_wrong_usage_says_why(self):
        for flags, mention in ((("--dataset-name", "sharegpt"), "only random"), (("--backend", "tgi"), "openai-chat"),
                               (("--percentile-metrics", "ttf"), "ttft, tpot"), (("--goodput", "ttft"), "MILLISECONDS"),
                               (("--request-rate", "0"), "inf"), (("--metric-percentiles", "101"), "percentile"),
                               (("--extra-body", "[]"), "JSON object"),
                               (("--random-range-ratio", "1"), "below 1")):  # fmt: skip
            with self.subTest(flags):
                done = octavo("bench", "serve", *flags)
                self.assertEqual(done.code, 2, done)
                self.assertIn(flags[0], done.err)
                self.assertIn(mention, done.err)
        done = octavo("bench", "serve", "--base-url", "http://127.0.0.1:1")
        self.assertEqual(done.code, 1)
        self.assertIn("is a server running there?", done.err)


if __name__ == "__main__":
    unittest.main()
