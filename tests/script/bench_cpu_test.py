"""scripts/bench_cpu.py with stand-ins for both programs, whose rates are known: what is asked of them, and which ratio
stands in which row."""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
import bench_cpu  # noqa: E402
import http_bench  # noqa: E402

# Every program in one: seconds a token at 0 and for each token of context, by cache; tokens a second of prompts.
STAND_IN = """#!{python}
import http.server, json, pathlib, sys

DECODE = {"auto": (0.010, 4e-6), "fp8": (0.010, 1e-6), "int8:fp8": (0.010, 1.05e-6)}
DECODE |= {"f16": (0.012, 8e-6), "q8_0": (0.013, 1e-5)}
PREFILL = {"auto": 1000, "fp8": 990, "int8:fp8": 900, "f16": 200, "q8_0": 100}
name, flags = pathlib.Path(sys.argv[0]).name, sys.argv[1:]
(pathlib.Path(sys.argv[0]).parent / "asked").open("a").write(" ".join([name, *flags]) + "\\n")

def value(flag):
    return flags[flags.index(flag) + 1]

def decode(cache, depth):
    at_zero, slope = DECODE[cache]
    return 1 / (at_zero + slope * depth)

class Server(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.end_headers()
        for i in range(body["max_tokens"]):
            self.wfile.write(b'data: {"choices":[{"delta":{"content":"x"}}]}\\n\\n')
        usage = {"completion_tokens": body["max_tokens"]}
        self.wfile.write(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\\n\\ndata: [DONE]\\n\\n")

class Listener(http.server.ThreadingHTTPServer):
    request_queue_size = 64

if "--port" in flags:
    Listener(("127.0.0.1", int(value("--port"))), Server).serve_forever()
elif name == "octavo" and flags[1] == "latency":
    lengths = [int(x) for x in value("--input-len").split(",")]
    assert min(lengths) > 0
    results = []
    for c in value("--kv-cache-dtype").split(","):
        for n in lengths:
            itl = 1000 / decode(c, 0 if n == 1 else n)
            results.append({"kv_cache_dtype": c, "input_len": n, "prefill_tok_s": PREFILL[c], "itl_ms": itl})
    pathlib.Path(value("--output-json")).write_text(json.dumps({"results": results}))
elif name == "octavo":
    pathlib.Path(value("--output-json")).write_text(json.dumps({"median_itl_ms": 20}))
elif name == "llama-bench":
    print(json.dumps({"samples_ts": [decode(value("-ctk"), 0)]}))
else:
    cache, sequences = value("-ctk"), int(value("-npl"))
    print("a line of its log")
    for n in map(int, value("-npp").split(",")):
        assert n > 0
        rate = decode(cache, n) if sequences == 1 else 100
        print(json.dumps({"pp": n, "speed_pp": PREFILL[cache], "speed_tg": rate}))
"""


class BenchCpuTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("octavo", "llama-bench", "llama-batched-bench", "llama-server"):
            program = self.folder / name
            program.write_text(STAND_IN.replace("{python}", sys.executable))
            program.chmod(0o755)
        (self.folder / "model.gguf").write_bytes(b"x")

    def measure(self, *flags):
        command = [sys.executable, SCRIPTS / "bench_cpu.py", "--octavo", self.folder / "octavo", "--peer", self.folder]
        command += ["--model", self.folder / "model.gguf", "--results", self.folder / "results", *flags]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def test_a_quick_round_has_every_row_with_its_ratio(self):
        done = self.measure("--quick", "--rounds", "1")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        table = [line.strip("| ").split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
        ratios = {cells[0]: cells[3] for cells in table}
        expected = {
            "decode, depth 0": 0.012 / 0.010,
            "decode, depth 2,048": (0.012 + 8e-6 * 2048) / (0.010 + 1e-6 * 2048),
            "8 sequences, each 1,024 deep, in all": 400 / 100,
            "prefill, 512": 990 / 200,
            "slope over context, e4m3": 1 / 8,
            "the same against our own bfloat16": 1 / 4,
            "slope of int8:fp8 against e4m3": 1.05,
            "prefill of 2,048, e4m3 against our own bfloat16": 0.99,
            "beside a busy process decode falls by (f16: by 1.0)": 1.0,
            "8 sequences against one of ours": 400 * (0.010 + 1e-6 * 1024),
        }
        for name, ratio in expected.items():
            self.assertEqual(ratios.get(name), f"{ratio:.2f}", name)
        self.assertIn("server: 99th percentile of gaps", ratios)
        self.assertRegex(done.stdout.splitlines()[-1], r"^bench-cpu: .*, 1 rounds; everything measured is in .*\.json$")
        (report,) = (self.folder / "results").glob("2*.json")
        self.assertEqual(len(json.loads(report.read_text())["rows"]), len(table) - 2)
        asked = (self.folder / "asked").read_text().splitlines()
        self.assertFalse([line for line in asked if "8192" in line and "--port" not in line])

    def test_the_peer_repacks_only_where_it_has_tiles_of_its_own(self):
        for repacks in (False, True):
            options = argparse.Namespace(octavo="o", peer=self.folder, model="m", results=self.folder)
            programs = bench_cpu.Programs(options, 2, repacks)
            for program in ("llama-bench", "llama-batched-bench"):
                asked = " ".join(programs.peer(program, "f16"))
                self.assertEqual("repack" in asked, not repacks, asked)

    def test_a_program_that_fails_is_one_sentence(self):
        (self.folder / "llama-batched-bench").write_text("#!/bin/sh\nexit 3\n")
        done = self.measure("--rounds", "1")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"^scripts/bench-cpu: llama-batched-bench ended with exit code 3 \(.*\)\n$")

    def test_a_server_that_ends_is_one_sentence(self):
        (self.folder / "llama-server").write_text("#!/bin/sh\nexit 4\n")
        with self.assertRaisesRegex(ConnectionError, "llama-server: the server ended with exit code 4"):
            http_bench.measure_server([self.folder / "llama-server"], self.folder / "log")

    def test_bounds_follow_the_processor_and_the_depth(self):
        samples = {}
        for who, caches in (("octavo", bench_cpu.CACHES), ("peer", bench_cpu.PEER_CACHES)):
            for cache in caches:
                for depth, rate in ((0, 10.0), (1024, 8.0), (2048, 5.0), (8192, 2.0)):
                    samples[who, cache, f"decode {depth}"] = [rate]
                    samples[who, cache, f"prefill {depth or 512}"] = [1.0]
                for what in ("batch", "tokens_s", "gap_p99_s", "first_token_s", "beside", "start_s", "peak_bytes"):
                    samples[who, cache, what] = [1.0]
        for column, bound in ((0, 6), (1, 5), (None, None)):
            rows = bench_cpu.Comparison(samples, [0, 2048, 8192], column).compare(100)
            (row,) = (row for row in rows if row.name == "decode, depth 8,192")
            self.assertEqual((row.ratio, row.bound, row.holds()), (1.0, bound, bound is None))

    def test_wrong_usage_of_the_script_is_one_sentence(self):
        for flags in (("--fast",), ("--rounds",), ("--rounds", "0"), ("--rounds", "x")):
            done = subprocess.run([SCRIPTS / "bench-cpu", *flags], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (2, "", 1), flags)


if __name__ == "__main__":
    unittest.main()
