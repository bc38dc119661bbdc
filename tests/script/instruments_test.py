"""eval nll, eval kld and bench on tiny checkpoints: their sums against sums of our own, their JSON, their page."""

import html.parser
import json
import math
import unittest

import checkpoints
from octavo_program import ProgramTest, octavo

TEXT = "hello world, held in the old world\n" * 40
SUMMARY_KEYS = {"positions", "mean", "p99", "max", "same_argmax"}
RESULT_KEYS = {"kv_cache_dtype", "input_len", "output_len", "ttft_ms", "prefill_tok_s", "itl_ms"}


class InstrumentTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = checkpoints.make_checkpoint(self.folder / "model")
        self.text = self.folder / "text"
        self.text.write_text(TEXT)
        self.json = self.folder / "out.json"

    def run_json(self, *arguments):
        outcome = self.assert_succeeds(octavo(*arguments, "--output-json", self.json))
        return json.loads(self.json.read_text()), outcome.text

    def logits(self, ids, *flags):
        ids_file, out = self.folder / "ids.json", self.folder / "logits.safetensors"
        checkpoints.write_json(ids_file, ids)
        self.assert_succeeds(
            octavo("eval", "logits", self.model, "--input-ids-file", ids_file, "--output", out, *flags)
        )
        shape, values = checkpoints.read_floats(out, "logits")
        return [list(values[row * shape[1] : (row + 1) * shape[1]]) for row in range(shape[0])]

    def token_ids(self):
        return json.loads(self.assert_succeeds(octavo("tokenize", self.model, stdin=TEXT.encode())).out)


def log_softmax(row):
    most = max(row)
    total = most + math.log(math.fsum(math.exp(x - most) for x in row))
    return [x - total for x in row]


class NllTest(InstrumentTest):
    def test_is_the_mean_over_the_windows(self):
        ids = self.token_ids()
        for context in (64, 300, 2048):
            with self.subTest(context):
                windows = [ids[at : at + context] for at in range(0, len(ids), context)]
                terms = []
                for window in windows:
                    if len(window) < 2:
                        continue
                    rows = self.logits(window, "--dtype", "float32")
                    terms += [-log_softmax(row)[token] for row, token in zip(rows, window[1:])]
                report, text = self.run_json(
                    "eval", "nll", self.model, "--text", self.text, "--context", context, "--dtype", "float32"
                )
                self.assertAlmostEqual(report["mean_nll"], math.fsum(terms) / len(terms), delta=1e-5)
                self.assertAlmostEqual(report["perplexity"], math.exp(report["mean_nll"]), places=6)
                self.assertEqual(report["predicted_tokens"], len(terms))
                self.assertEqual(report["tokens"], len(ids))
                self.assertIn(f"{report['mean_nll']:.6f}", text)
                self.assertEqual(len(text.splitlines()), 1)

    def test_tokens_may_be_fed_one_by_one(self):
        flags = ("--kv-cache-dtype", "fp8", "--decode-from", 100)
        ids = self.token_ids()[:301]
        self.text.write_text(octavo("tokenize", self.model, "--decode", stdin=json.dumps(ids).encode()).text)
        terms = [-log_softmax(row)[token] for row, token in zip(self.logits(ids, *flags), ids[1:])]
        report, _ = self.run_json("eval", "nll", self.model, "--text", self.text, *flags)
        self.assertAlmostEqual(report["mean_nll"], math.fsum(terms) / 300, delta=1e-9)
        in_chunks, _ = self.run_json("eval", "nll", self.model, "--text", self.text, "--kv-cache-dtype", "fp8")
        self.assertNotEqual(report["mean_nll"], in_chunks["mean_nll"])
        too_far = octavo("eval", "nll", self.model, "--text", self.text, "--context", 64, "--decode-from", 65)
        self.assert_refuses(too_far, "--decode-from 65", "64")

    def test_a_page_larger_than_a_block_changes_nothing(self):
        # Without --deterministic other chunks round otherwise.
        nll = ("eval", "nll", self.model, "--text", self.text, "--deterministic", "--block-size")
        small, _ = self.run_json(*nll, 8)
        large, _ = self.run_json(*nll, 1024)
        self.assertAlmostEqual(small["mean_nll"], large["mean_nll"], delta=1e-6)

    def test_bad_input(self):
        nll = ("eval", "nll", self.model)
        self.assert_refuses(octavo(*nll), "--text", code=2)
        self.assert_refuses(octavo(*nll, "--text", self.folder / "none"), self.folder / "none")
        self.text.write_text("")
        self.assert_refuses(octavo(*nll, "--text", self.text), "0 tokens")
        self.text.write_bytes(b"hello \xff")
        self.assert_refuses(octavo(*nll, "--text", self.text), "UTF-8 at byte 6")
        self.text.write_text(TEXT)
        self.assert_refuses(octavo(*nll, "--text", self.text, "--context", 1), "--context", code=2)
        self.assert_refuses(octavo(*nll, "--text", self.text, "--context", 4096), "--context 4096", "2048")
        nowhere = self.folder / "no/such/out.json"
        self.assert_refuses(octavo(*nll, "--text", self.text, "--output-json", nowhere), nowhere)


class KldTest(InstrumentTest):
    def test_is_the_divergence_of_the_two_caches(self):
        ids = self.token_ids()[:300]
        self.text.write_text(octavo("tokenize", self.model, "--decode", stdin=json.dumps(ids).encode()).text)
        flags = ("--kv-cache-dtype", "fp8", "--dtype", "float32")
        pairs = zip(self.logits(ids, "--dtype", "float32"), self.logits(ids, *flags))
        expected, same = [], 0
        for one, other in pairs:
            p, q = log_softmax(one), log_softmax(other)
            expected.append(math.fsum(math.exp(a) * (a - b) for a, b in zip(p, q)))
            same += p.index(max(p)) == q.index(max(q))
        report, text = self.run_json("eval", "kld", self.model, "--text", self.text, *flags)
        self.assertEqual(report["kv_cache_dtype"], "fp8")
        self.assertEqual(report["reference_kv_cache_dtype"], "auto")
        self.assertEqual(set(report["all"]), SUMMARY_KEYS)
        self.assertEqual(report["all"]["positions"], 300)
        self.assertAlmostEqual(report["all"]["mean"], math.fsum(expected) / 300, delta=1e-9)
        self.assertAlmostEqual(report["all"]["max"], max(expected), delta=1e-9)
        self.assertAlmostEqual(report["all"]["same_argmax"], same / 300)
        first, second = report["buckets"]
        self.assertEqual((first["first"], first["last"], first["positions"]), (0, 255, 256))
        self.assertEqual((second["first"], second["last"], second["positions"]), (256, 1023, 44))
        self.assertAlmostEqual(first["mean"], math.fsum(expected[:256]) / 256, delta=1e-9)
        for name in ("0-255", "256-1k", "all"):
            self.assertIn(name, text)

    def test_a_cache_does_not_differ_from_itself(self):
        same = ("--kv-cache-dtype", "int8", "--reference-kv-cache-dtype", "int8")
        report, _ = self.run_json("eval", "kld", self.model, "--text", self.text, *same)
        self.assertEqual((report["all"]["max"], report["all"]["same_argmax"]), (0, 1))

    def test_bad_input(self):
        kld = ("eval", "kld", self.model)
        self.assert_refuses(octavo(*kld, "--kv-cache-dtype", "fp8"), "--text", code=2)
        self.assert_refuses(
            octavo(*kld, "--text", self.text, "--reference-kv-cache-dtype", "fp9"), "--reference-kv-cache-dtype", code=2
        )
        self.assert_refuses(octavo(*kld, "--text", self.folder), self.folder)


class WellFormed(html.parser.HTMLParser):
    """Every element closed in order; counts them, and keeps what would be fetched."""

    VOID = {"meta", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.counts, self.outside, self.text = [], {}, [], ""

    def handle_starttag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.outside += [value for name, value in attributes if name in ("src", "href", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.text += data


def fitted(points):
    """Least squares: intercept and slope."""
    x, y = zip(*points)
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mean_x) * (b - mean_y) for a, b in points) / sum((a - mean_x) ** 2 for a in x)
    return mean_y - slope * mean_x, slope


class LatencyTest(InstrumentTest):
    def bench(self, command, *flags):
        return self.run_json("bench", command, self.model, "--output-len", 4, "--num-iters", 1, *flags)

    def test_measures_every_cache_at_every_length(self):
        report, text = self.bench("latency", "--input-len", "16,64,256", "--kv-cache-dtype", "auto,fp8")
        self.assertEqual(set(report), {"results", "fits", "break_even_tokens"})
        self.assertEqual(
            [(r["kv_cache_dtype"], r["input_len"]) for r in report["results"]],
            [(cache, length) for cache in ("auto", "fp8") for length in (16, 64, 256)],
        )
        for result in report["results"]:
            self.assertEqual(set(result), RESULT_KEYS)
            self.assertEqual(result["output_len"], 4)
            self.assertGreater(result["itl_ms"], 0)
            self.assertAlmostEqual(result["prefill_tok_s"] * result["ttft_ms"] / 1000 / result["input_len"], 1)
        for number, fit in enumerate(report["fits"]):
            points = [(r["input_len"], r["itl_ms"]) for r in report["results"][3 * number : 3 * number + 3]]
            intercept, slope = fitted(points)
            self.assertAlmostEqual(fit["intercept_ms"], intercept, delta=1e-9)
            self.assertAlmostEqual(fit["slope_ms_per_token"], slope, delta=1e-12)
        self.assertIn("fp8", text)

    def test_one_length_has_no_line(self):
        report, _ = self.bench("latency", "--input-len", "16")
        self.assertEqual((report["fits"], report["break_even_tokens"]), ([], None))

    def test_a_sweep_goes_as_far_as_the_model_and_through_the_skipped_layers(self):
        page = self.folder / "page.html"
        report, _ = self.bench(
            "sweep", "--kv-cache-dtype", "auto,int8", "--kv-cache-dtype-skip-layers", "0,-1;1", "--report", page
        )
        names = ["auto", "int8", "int8 skip 0,-1", "int8 skip 1"]
        self.assertEqual(
            [(r["kv_cache_dtype"], r["input_len"]) for r in report["results"]],
            [(name, length) for name in names for length in (256, 1024)],
        )
        parser = WellFormed()
        parser.feed(page.read_text())
        parser.close()
        self.assertEqual((parser.open, parser.outside), ([], []))
        self.assertEqual(parser.counts["svg"], 2)
        self.assertEqual(parser.counts["polyline"], 2 * len(names))
        self.assertNotIn("script", parser.counts)
        for name in names:
            self.assertIn(name, parser.text)

    def test_bad_input(self):
        latency = ("bench", "latency", self.model)
        for flags in (
            ("--input-len", ","),
            ("--input-len", "16,x"),
            ("--input-len", "0"),
            ("--input-len", "-5"),
            ("--kv-cache-dtype", "auto,fp9"),
            ("--kv-cache-dtype", "fp8,fp8"),
            ("--kv-cache-dtype", ","),
            ("--output-len", "1"),
            ("--num-iters", "0"),
        ):
            with self.subTest(flags):
                self.assert_refuses(octavo(*latency, *flags), flags[0], code=2)
        self.assert_refuses(octavo(*latency, "--input-len", "2048"), "2176", "2048")
        self.assert_refuses(octavo(*latency, "--report", self.folder, "--input-len", 8, "--output-len", 2), self.folder)
        nowhere = self.folder / "no/such/out.json"
        for command in ("latency", "sweep", "throughput", "verbs"):
            self.assert_refuses(octavo("bench", command, self.model, "--output-json", nowhere), nowhere)
        self.assert_refuses(octavo("bench"), "latency", "sweep", "throughput", "verbs", "kernels", code=2)
        self.assert_refuses(octavo("bench", "latancy", self.model), "latency", code=2)
        self.assert_refuses(octavo("bench", "latency", self.folder / "none"), self.folder / "none")


class ThroughputTest(InstrumentTest):
    def test_runs_all_requests_and_counts_their_tokens(self):
        flags = ("--num-prompts", 12, "--max-concurrency", 3, "--input-len", 20, "--output-len", 6)
        report, text = self.run_json("bench", "throughput", self.model, *flags)
        self.assertEqual(report["completed"], 12)
        self.assertEqual(report["total_input_tokens"], 240)
        self.assertEqual(report["total_output_tokens"], 72)
        self.assertAlmostEqual(report["output_throughput"] * report["duration"], 72, places=6)
        for name in ("ttft", "itl"):
            self.assertLessEqual(report[f"median_{name}_ms"], report[f"p99_{name}_ms"])
            self.assertGreater(report[f"mean_{name}_ms"], 0)
        self.assertIn("output tok/s", text)

    def test_the_spread_depends_on_the_seed_alone(self):
        flags = ("--num-prompts", 10, "--input-len", 20, "--output-len", 6, "--random-range-ratio", 0.5)
        totals = []
        for seed, concurrency in ((1, 1), (1, 4), (2, 1)):
            report, _ = self.run_json(
                "bench", "throughput", self.model, *flags, "--seed", seed, "--max-concurrency", concurrency
            )
            totals.append((report["total_input_tokens"], report["total_output_tokens"]))
        self.assertEqual(totals[0], totals[1])
        self.assertNotEqual(totals[0], totals[2])
        for inputs, outputs in totals:
            self.assertTrue(100 <= inputs <= 300 and 30 <= outputs <= 90)

    def test_bad_input(self):
        throughput = ("bench", "throughput", self.model)
        self.assert_refuses(octavo(*throughput, "--num-prompts", 0), "--num-prompts", code=2)
        self.assert_refuses(octavo(*throughput, "--random-range-ratio", 1.5), "--random-range-ratio", code=2)
        self.assert_refuses(octavo(*throughput, "--input-len", "8,16"), "--input-len", code=2)
        self.assert_refuses(octavo(*throughput, "--input-len", 5000), "2048")
        self.assert_refuses(octavo(*throughput, "--input-len", 64, "--max-model-len", 32), "32")


class VerbsTest(InstrumentTest):
    def test_names_the_verbs_of_both_kinds_of_step(self):
        report, text = self.run_json(
            "bench", "verbs", self.model, "--input-len", 40, "--output-len", 4, "--num-iters", 2
        )
        self.assertEqual((report["prefill"]["tokens"], report["decode"]["tokens"]), (40, 1))
        for kind in ("prefill", "decode"):
            verbs = {verb["verb"]: verb for verb in report[kind]["verbs"]}
            matrices = {verb["kind"]: verb for verb in report[kind]["verbs"] if verb["verb"].endswith("linear")}
            for name in ("plan_attention", "embed", "linear", "kv_write", "attention", "gated_linear", "sample"):
                self.assertIn(name, verbs)
                self.assertIn(name, text)
            self.assertEqual(verbs["attention"]["calls"], 3)
            self.assertGreaterEqual(report[kind]["ms"] * 1.5 + 1, sum(verb["ms"] for verb in report[kind]["verbs"]))
            self.assertGreaterEqual(len(matrices), 4)  # of attention in and out, of the MLP up and down, of the vocabulary
            self.assertEqual(verbs["attention"]["kind"], "full")
            self.assertGreater(report[kind]["ceilings"]["read_gb_s"], 0)
            for matrix in matrices.values():
                self.assertGreater(matrix["percent_of_read"], 0)
                self.assertGreater(matrix["operations"], 0)
        # 43 tokens of context at the last step, K and V, 2 heads of 64 in 2 bytes; q and out of 4 heads beside.
        attention = next(v for v in report["decode"]["verbs"] if v["verb"] == "attention")
        self.assertGreater(attention["bytes"], 3 * 41 * 2 * 2 * 64 * 2)

    def test_bad_input(self):
        self.assert_refuses(octavo("bench", "verbs", self.model, "--output-len", 1), "--output-len", code=2)
        self.assert_refuses(octavo("bench", "verbs", self.model, "--input-len", 4000), "2048")


class HelpTest(ProgramTest):
    def test_every_instrument_explains_itself(self):
        for words in ("eval nll", "eval kld", "bench latency", "bench sweep", "bench throughput", "bench verbs"):
            out = self.assert_succeeds(octavo(*words.split(), "--help")).text
            self.assertIn("--output-json", out)
        out = self.assert_succeeds(octavo("bench", "--help")).text
        for word in ("latency", "sweep", "throughput", "verbs"):
            self.assertIn(word, out)


if __name__ == "__main__":
    unittest.main()
