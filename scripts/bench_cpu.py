"""What scripts/bench-cpu measures: octavo and llama.cpp in turns, round by round, and the table of their ratios.

Figures are medians over the rounds; of llama.cpp's caches (f16 and q8_0) the better one counts in each row. The bounds
are those of processors with AMX, or with AVX-512 without AMX; others have none."""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import http_bench

CACHES = ("auto", "fp8", "int8:fp8")  # octavo's: bfloat16 where activations are
PEER_CACHES = ("f16", "q8_0")
POSITIONS = 16384  # the default model was made for 8,192
SEQUENCES, SEQUENCE_DEPTH, SEQUENCE_TOKENS = 8, 1024, 64
CLIENTS, CLIENT_TOKENS, CLIENT_POSITIONS = 32, 64, 1024
CACHE_BYTES = 512 << 20  # of octavo's server; what the clients need is less
# Beside a busy process the peer makes half a token a second, octavo some hundred.
BESIDE_TOKENS, PEER_BESIDE_TOKENS = 256, 16
STEP_SECONDS = 3600


def fail(sentence):
    print(f"scripts/bench-cpu: {sentence}", file=sys.stderr)
    sys.exit(1)


def processor():
    """(name, flags) of the first CPU."""
    text = pathlib.Path("/proc/cpuinfo").read_text().split("\n\n")[0]
    fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in text.splitlines())}
    return fields.get("model name", "unknown processor"), set(fields.get("flags", "").split())


@contextlib.contextmanager
def busy_process():
    """Another session's process that never rests."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True)
    try:
        yield
    finally:
        process.kill()
        process.wait()


class Programs:
    """Runs the programs of both sides; each method returns rates in tokens a second."""

    def __init__(self, options, threads, repacks):
        self.options = options
        self.threads = str(threads)
        self.repacks = repacks
        self.log = options.results / "last.log"

    def output_of(self, command):
        with open(self.log, "w") as log:
            try:
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=log, text=True, timeout=STEP_SECONDS)
            except subprocess.TimeoutExpired:
                fail(f"{pathlib.Path(command[0]).name} took more than an hour for one measurement")
        if done.returncode != 0:
            fail(f"{pathlib.Path(command[0]).name} ended with exit code {done.returncode} ({self.log})")
        return done.stdout

    def octavo(self, *arguments):
        report = self.options.results / "last.json"
        program = [self.options.octavo, "bench", arguments[0], self.options.model, "--device", "cpu"]
        self.output_of([*program, "--threads", self.threads, "--output-json", report, *arguments[1:]])
        return json.loads(report.read_text())

    def octavo_latency(self, caches, lengths, tokens):
        """{cache: {length: (prefill, decode)}}"""
        overrides = json.dumps({"max_position_embeddings": POSITIONS})
        flags = ["--kv-cache-dtype", ",".join(caches), "--input-len", ",".join(map(str, lengths)), "--num-iters", "1"]
        report = self.octavo("latency", *flags, "--output-len", str(tokens), "--hf-overrides", overrides)
        rates = {}
        for x in report["results"]:
            rates.setdefault(x["kv_cache_dtype"], {})[x["input_len"]] = (x["prefill_tok_s"], 1000 / x["itl_ms"])
        return rates

    def octavo_batch(self):
        """Steps of all sequences together; those that also read prompts are few, and the median leaves them out."""
        flags = ["--num-prompts", str(SEQUENCES), "--max-concurrency", str(SEQUENCES), "--kv-cache-dtype", "fp8"]
        flags += ["--input-len", str(SEQUENCE_DEPTH), "--output-len", str(SEQUENCE_TOKENS)]
        return 1000 * SEQUENCES / self.octavo("throughput", *flags)["median_itl_ms"]

    def octavo_server(self):
        command = [self.options.octavo, "serve", self.options.model, "--device", "cpu", "--threads", self.threads]
        command += ["--kv-cache-dtype", "fp8", "--max-num-seqs", str(CLIENTS), "--max-model-len", str(CLIENT_POSITIONS)]
        return [*command, "--kv-cache-memory-bytes", str(CACHE_BYTES), "--served-model-name", http_bench.MODEL_NAME]

    def peer(self, program, cache, *arguments):
        flags = ["-m", self.options.model, "-t", self.threads, "-fa", "on", "-ctk", cache, "-ctv", cache, *arguments]
        if not self.repacks:
            flags += ["--repack", "0"] if program == "llama-bench" else ["--no-repack"]
        return [str(self.options.peer / program), *map(str, flags)]

    def peer_lines(self, *command):
        lines = self.output_of(self.peer(*command)).splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def peer_batches(self, cache, prompts, tokens, sequences):
        """{prompt tokens: (prefill, decode of all sequences)}"""
        room = sequences * (max(prompts) + tokens) + 256
        flags = ["-c", room, "-b", 2048, "-ub", 512, "-tb", self.threads, "-npp", ",".join(map(str, prompts))]
        flags += ["-ntg", tokens, "-npl", sequences, "--output-format", "jsonl"]
        lines = self.peer_lines("llama-batched-bench", cache, *flags)
        return {x["pp"]: (x["speed_pp"], x["speed_tg"]) for x in lines}

    def peer_decode(self, cache, tokens):
        (line,) = self.peer_lines("llama-bench", cache, "-o", "jsonl", "-p", 0, "-n", tokens, "-d", 0, "-r", 1)
        return statistics.median(line["samples_ts"])

    def peer_server(self, cache):
        return self.peer("llama-server", cache, "-np", CLIENTS, "-c", CLIENTS * CLIENT_POSITIONS)

    def server(self, command):
        try:
            return http_bench.measure_server(command, self.log, CLIENTS, CLIENT_TOKENS)
        except ConnectionError as error:
            fail(str(error))


class Rounds:
    """Samples by (who, cache, what): the cache is None where there is one only."""

    def __init__(self, programs, rounds, depths, tokens):
        self.programs = programs
        self.rounds = rounds
        self.depths = depths
        self.tokens = tokens
        self.samples = {}
        self.done = 0

    def note(self, who, cache, what, value):
        self.samples.setdefault((who, cache, what), []).append(value)

    def steps(self):
        """(what is said of it, what is done), in turns."""
        yield "octavo: prompts and decodes of each length", self.octavo_lengths
        for cache in PEER_CACHES:
            yield f"llama.cpp, {cache} cache: the same", lambda cache=cache: self.peer_lengths(cache)
        yield f"octavo: {SEQUENCES} sequences", self.octavo_batch
        for cache in PEER_CACHES:
            yield f"llama.cpp, {cache} cache: the same", lambda cache=cache: self.peer_batch(cache)
        yield "octavo beside a busy process", self.octavo_beside
        for cache in PEER_CACHES:
            yield f"llama.cpp, {cache} cache: the same", lambda cache=cache: self.peer_beside(cache)
        command = self.programs.octavo_server()
        yield f"octavo: server with {CLIENTS} clients", lambda x=command: self.server("octavo", "fp8", x)
        for cache in PEER_CACHES:
            command = self.programs.peer_server(cache)
            yield f"llama.cpp, {cache} cache: the same", lambda c=cache, x=command: self.server("peer", c, x)

    def octavo_lengths(self):
        lengths = sorted({1, 512, SEQUENCE_DEPTH, *self.depths[1:]})
        for cache, rates in self.programs.octavo_latency(CACHES, lengths, self.tokens).items():
            for length, (prefill, decode) in rates.items():
                self.note("octavo", cache, f"decode {0 if length == 1 else length}", decode)
                self.note("octavo", cache, f"prefill {length}", prefill)

    def peer_lengths(self, cache):
        self.note("peer", cache, "decode 0", self.programs.peer_decode(cache, self.tokens))
        prompts = sorted({512, *self.depths[1:]})
        for length, (prefill, decode) in self.programs.peer_batches(cache, prompts, self.tokens, 1).items():
            self.note("peer", cache, f"decode {length}", decode)
            self.note("peer", cache, f"prefill {length}", prefill)

    def octavo_batch(self):
        self.note("octavo", "fp8", "batch", self.programs.octavo_batch())

    def peer_batch(self, cache):
        rates = self.programs.peer_batches(cache, [SEQUENCE_DEPTH], SEQUENCE_TOKENS, SEQUENCES)
        self.note("peer", cache, "batch", rates[SEQUENCE_DEPTH][1])

    def octavo_beside(self):
        with busy_process():
            rates = self.programs.octavo_latency(["fp8"], [1], BESIDE_TOKENS)
        self.note("octavo", "fp8", "beside", rates["fp8"][1][1])

    def peer_beside(self, cache):
        with busy_process():
            self.note("peer", cache, "beside", self.programs.peer_decode(cache, PEER_BESIDE_TOKENS))

    def server(self, who, cache, command):
        for what, value in self.programs.server(command).items():
            self.note(who, cache, what, value)

    def run(self):
        steps = list(self.steps())
        for number in range(1, self.rounds + 1):
            for said, work in steps:
                self.done += 1
                head = f"      [{self.done}/{self.rounds * len(steps)}] round {number} of {self.rounds}: {said}"
                begun = time.monotonic()
                print(f"{head} ...", flush=True)
                work()
                print(f"{head}: {time.monotonic() - begun:.0f} s", flush=True)


@dataclasses.dataclass
class Row:
    name: str
    unit: str
    octavo: list  # samples
    other: list
    other_name: str
    ratio: float
    at_least: bool
    bound: float | None

    def holds(self):
        return self.bound is None or (self.ratio >= self.bound if self.at_least else self.ratio <= self.bound)

    def cells(self):
        def figure(values, name=""):
            if not values:
                return ""
            low, middle, high = min(values), statistics.median(values), max(values)
            return f"{middle:.3g} ({low:.3g} to {high:.3g}) {self.unit}{name and ', ' + name}"

        bound = "" if self.bound is None else f"{'≥' if self.at_least else '≤'} {self.bound:g}"
        verdict = "" if self.bound is None else ("yes" if self.holds() else "**no**")
        figures = [figure(self.octavo), figure(self.other, self.other_name), f"{self.ratio:.2f}"]
        return [self.name, *figures, bound, verdict]


class Comparison:
    """Rows from samples. column: 0 with AMX, 1 with AVX-512 alone, None for others."""

    def __init__(self, samples, depths, column):
        self.samples = samples
        self.depths = depths
        self.column = column
        self.rows = []

    def add(self, name, unit, ours, theirs, bounds, at_least, ratio=None, theirs_name=""):
        bound = None if self.column is None else bounds[self.column]
        if ratio is None:
            ratio = statistics.median(ours) / statistics.median(theirs)
        self.rows.append(Row(name, unit, ours, theirs, theirs_name, ratio, at_least, bound))

    def best_peer(self, what, larger):
        caches = {cache: self.samples["peer", cache, what] for cache in PEER_CACHES}
        return (max if larger else min)(caches.items(), key=lambda item: statistics.median(item[1]))

    def against_peer(self, name, unit, what, bounds, at_least=True):
        cache, theirs = self.best_peer(what, at_least)
        self.add(name, unit, self.samples["octavo", "fp8", what], theirs, bounds, at_least, theirs_name=cache)

    def slopes(self, who, cache):
        """ms for each 1,000 tokens of context, round by round."""
        deepest = self.depths[-1]
        shallow, deep = (self.samples[who, cache, f"decode {depth}"] for depth in (0, deepest))
        return [1e6 * (1 / slow - 1 / fast) / deepest for fast, slow in zip(shallow, deep)]

    def add_slopes(self):
        unit = "ms/1,000 tokens"
        ours = {cache: self.slopes("octavo", cache) for cache in CACHES}
        peers = {cache: self.slopes("peer", cache) for cache in PEER_CACHES}
        cache, theirs = min(peers.items(), key=lambda item: statistics.median(item[1]))
        self.add("slope over context, e4m3", unit, ours["fp8"], theirs, (0.2, 0.2), False, theirs_name=cache)
        name = "the same against our own bfloat16"
        self.add(name, unit, ours["fp8"], ours["auto"], (0.6, 0.6), False, theirs_name="octavo")
        name = "slope of int8:fp8 against e4m3"
        self.add(name, unit, ours["int8:fp8"], ours["fp8"], (1.1, 1.1), False, theirs_name="octavo")

    def add_beside(self):
        alone, beside = (self.samples["octavo", "fp8", what] for what in ("decode 0", "beside"))
        fall = statistics.median(alone) / statistics.median(beside)
        cache, theirs = self.best_peer("beside", True)
        peer_fall = statistics.median(self.samples["peer", cache, "decode 0"]) / statistics.median(theirs)
        name = f"beside a busy process decode falls by ({cache}: by {peer_fall:.1f})"
        self.add(name, "tokens/s", beside, theirs, (2.5, 2.5), False, ratio=fall, theirs_name=cache)

    def add_own(self, model_bytes):
        alone = self.samples["octavo", "fp8", f"decode {SEQUENCE_DEPTH}"]
        name = f"{SEQUENCES} sequences against one of ours"
        together = self.samples["octavo", "fp8", "batch"]
        self.add(name, "tokens/s", together, alone, (3.5, 3.5), True, theirs_name="octavo")
        cache, theirs = self.best_peer("start_s", False)
        ours = self.samples["octavo", "fp8", "start_s"]
        name = "server: start to first token, s"
        self.add(name, "s", ours, theirs, (0.6, 0.6), False, statistics.median(ours), cache)
        cache, theirs = self.best_peer("peak_bytes", False)
        peak = self.samples["octavo", "fp8", "peak_bytes"]
        share = statistics.median(peak) / (model_bytes + CACHE_BYTES)
        ours, theirs = ([value / 1e6 for value in values] for values in (peak, theirs))
        self.add("server: peak memory against file and cache", "MB", ours, theirs, (1.25, 1.25), False, share, cache)

    def compare(self, model_bytes):
        decode = {0: (1.2, 1.2), 2048: (3, 2.5), 8192: (6, 5)}
        prefill = {512: (3, 2.5), 2048: (4, 3), 8192: (6, 4)}
        for depth in self.depths:
            self.against_peer(f"decode, depth {depth:,}", "tokens/s", f"decode {depth}", decode[depth])
        name = f"{SEQUENCES} sequences, each {SEQUENCE_DEPTH:,} deep, in all"
        self.against_peer(name, "tokens/s", "batch", (4, 3))
        lengths = sorted({512, *self.depths[1:]})
        for length in lengths:
            self.against_peer(f"prefill, {length:,}", "tokens/s", f"prefill {length}", prefill[length])
        self.add_slopes()
        for length in lengths:
            ours, own = (self.samples["octavo", cache, f"prefill {length}"] for cache in ("fp8", "auto"))
            name = f"prefill of {length:,}, e4m3 against our own bfloat16"
            self.add(name, "tokens/s", ours, own, (0.98, 0.95), True, theirs_name="octavo")
        self.against_peer(f"server: {CLIENTS} clients, in all", "tokens/s", "tokens_s", (4, 3))
        self.against_peer("server: 99th percentile of gaps", "s", "gap_p99_s", (0.25, 0.35), False)
        self.against_peer("server: median first token", "s", "first_token_s", (0.4, 0.5), False)
        self.add_beside()
        self.add_own(model_bytes)
        return self.rows


def as_markdown(rows):
    lines = [["", "octavo", "other", "ratio", "bound", "holds"], ["---"] * 6, *(row.cells() for row in rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def parse_arguments():
    parser = argparse.ArgumentParser()
    for name in ("octavo", "peer", "model", "results"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


def main():
    options = parse_arguments()
    options.results.mkdir(parents=True, exist_ok=True)
    name, flags = processor()
    column = 0 if "amx_tile" in flags else 1 if "avx512bw" in flags else None
    kinds = sorted(flag for flag in flags if flag.startswith(("avx", "amx", "fma")))
    threads = len(os.sched_getaffinity(0))
    print(f"      {name}, {threads} threads ({' '.join(kinds)})")
    depths = [0, 2048] if options.quick else [0, 2048, 8192]
    programs = Programs(options, threads, repacks=column == 0)
    rounds = Rounds(programs, options.rounds, depths, 16 if options.quick else 48)
    rounds.run()
    rows = Comparison(rounds.samples, depths, column).compare(options.model.stat().st_size)
    print(as_markdown(rows))
    result = options.results / f"{time.strftime('%Y-%m-%d-%H%M%S')}.json"
    samples = {" ".join(key): values for key, values in rounds.samples.items()}
    table = [dataclasses.asdict(row) for row in rows]
    report = {"processor": name, "kinds": kinds, "threads": threads, "rounds": options.rounds}
    result.write_text(json.dumps(report | {"rows": table, "samples": samples}, indent=1) + "\n")
    bounded = [row for row in rows if row.bound is not None]
    held = sum(row.holds() for row in bounded)
    verdict = f"{held} of {len(bounded)} rows are within their bounds" if bounded else "this processor has no bounds"
    print(f"bench-cpu: {verdict}, {options.rounds} rounds; everything measured is in {result}")


if __name__ == "__main__":
    main()
