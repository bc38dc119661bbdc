"""What scripts/bench-serve measures: the server's own cost, and what its streams and probes notice of other work. Each
figure stands beside the bound that the project set itself."""

import argparse
import dataclasses
import json
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import threading
import time

import serve_load as load
from serve_load import SOURCE_DIR, Streams, checkpoints, percentile, post_bytes, processor_seconds, serving

STREAMS, STREAM_TOKENS = 256, 120  # of the server's cost
IDLE_STREAMS = 2000
CACHE_LAYER_BYTES = 100 << 20  # a layer of the cache beside idle streams is larger, and nothing else is
WORDS = "river stone amber cloud forest engine paper winter signal harbor copper meadow lantern orbit velvet".split()
LARGE_BYTES = 900_000


@dataclasses.dataclass
class Row:
    name: str
    value: float
    unit: str
    bound: float | None = None
    at_least: bool = False

    def cells(self):
        sign = "≥" if self.at_least else "<"
        holds = self.bound is None or (self.value >= self.bound if self.at_least else self.value < self.bound)
        bound = "" if self.bound is None else f"{sign} {self.bound:g}"
        verdict = "" if self.bound is None else ("yes" if holds else "**no**")
        return [self.name, f"{self.value:.3g} {self.unit}".strip(), bound, verdict]


def measure_overhead(tiny):
    """Processor time of the whole server for each streamed token, many streams at once; the model's layers are tiny."""
    with serving(tiny, "--kv-cache-dtype", "fp8", "--max-num-seqs", STREAMS, "--threads", 1) as server:
        command = [os.environ["OCTAVO_BINARY"], "bench", "serve", "--base-url", server.url, "--num-prompts", STREAMS]
        command += ["--max-concurrency", STREAMS, "--random-input-len", 16, "--random-output-len", STREAM_TOKENS, "--ignore-eos"]
        whole, loop, engine_host = [], [], []
        for _ in range(3):
            before, counted = processor_seconds(server.process.pid), server.metrics()
            subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            after, recounted = processor_seconds(server.process.pid), server.metrics()
            grown = {name: recounted[name, ""] - counted[name, ""] for name in
                     ("vllm:generation_tokens_total", "octavo:host_seconds_total")}  # fmt: skip
            tokens = grown["vllm:generation_tokens_total"]
            whole.append(1e6 * sum(after[thread] - before.get(thread, 0) for thread in after) / tokens)
            loop.append(1e6 * (after[server.process.pid] - before[server.process.pid]) / tokens)
            engine_host.append(1e6 * grown["octavo:host_seconds_total"] / tokens)
    name = f"CPU a streamed token at {STREAMS} streams, steps of a tiny model included"
    yield Row(name, statistics.median(whole), "µs", 60)
    yield Row("of which the thread of all connections", statistics.median(loop), "µs")
    yield Row("of which the engine's thread beside its steps", statistics.median(engine_host), "µs")


def measure_first_step(model):
    """From the first byte sent to the last received, without the one step that the engine took."""
    with serving(model) as server:
        sizes, left = [], []
        for number in range(60):
            text = f"{number} " + " ".join(WORDS[(number * 7 + i * (number % 11 + 2)) % len(WORDS)] for i in range(66))
            raw = post_bytes("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], "max_tokens": 1})
            before = server.metrics()["octavo:step_seconds_sum", ""]
            connection = server.raw()
            time.sleep(0.01)  # it is accepted
            begun = time.perf_counter()
            connection.sendall(raw)
            answer = connection.recv(65536)
            taken = time.perf_counter() - begun
            connection.close()
            sizes.append(json.loads(answer[answer.index(b"{") :])["usage"]["prompt_tokens"])
            left.append(1000 * (taken - (server.metrics()["octavo:step_seconds_sum", ""] - before)))
    name = f"a request of {statistics.median(sizes):.0f} prompt tokens and its answer without the engine's step"
    yield Row(name + ", median", statistics.median(left), "ms", 1)
    yield Row("the same, 90th percentile", percentile(left, 0.9), "ms")


def large_text():
    """Prose and code: this repository's."""
    text = ""
    for path in sorted([*SOURCE_DIR.glob("docs/*.md"), *SOURCE_DIR.glob("src/**/*.cc")]):
        text += path.read_text()
        if len(text) > LARGE_BYTES:
            return text.encode().decode("ascii", "ignore")[:LARGE_BYTES]
    raise SystemExit("scripts/bench-serve: there is too little text in docs and src")


def tokenize_rates(server, raw, count, rest):
    """(begun, ended, megabytes a second, the same by the whole server's processor time) of one request after another."""
    for _ in range(count):
        begun, before = time.monotonic(), sum(processor_seconds(server.process.pid).values())
        connection = server.raw(raw)
        connection.recv(4096)
        ended = time.monotonic()
        taken = sum(processor_seconds(server.process.pid).values()) - before
        connection.close()
        yield begun, ended, LARGE_BYTES / (ended - begun) / 1e6, LARGE_BYTES / taken / 1e6
        time.sleep(rest)


def measure_tokenizing(model):
    """A large prompt through /tokenize, alone and while a stream goes on; one core is the engine's."""
    raw = post_bytes("/tokenize", {"prompt": large_text()})
    with serving(model, "--threads", 1) as server:
        _, _, rates, processor_rates = zip(*tokenize_rates(server, raw, 15, 0.1))
        with Streams(server, 1, 4000) as streams:
            time.sleep(1)
            spans = [(begun, ended) for begun, ended, *_ in tokenize_rates(server, raw, 15, 0.7)]
        beside = [1000 * max(streams.gaps(*span)) for span in spans]
        # As long a time a little later, when nothing is tokenised.
        alone = [1000 * max(streams.gaps(ended + 0.1, ended + 0.1 + ended - begun)) for begun, ended in spans]
    name = "a prompt of 0.9 MB is tokenised, request to first byte of the answer, median"
    yield Row(name, statistics.median(rates), "MB/s", 10, at_least=True)
    yield Row("the same by the server's processor time", statistics.median(processor_rates), "MB/s", 10, at_least=True)
    name = "it lengthens a stream's longest gap of that time, medians of 15"
    yield Row(name, statistics.median(beside) - statistics.median(alone), "ms", 5)
    yield Row("that gap, median of 15 beside it", statistics.median(beside), "ms")
    yield Row("the same without it", statistics.median(alone), "ms")


def probe_rows(kind, taken):
    for path, times in taken.items():
        name = f"{path} beside {IDLE_STREAMS:,} {kind} streams"
        yield Row(f"{name}, median", statistics.median(times), "ms")
        yield Row(f"{name}, 99th percentile", percentile(times, 0.99), "ms", 20)


def measure_idle(tiny):
    """Streams that read nothing, then, in another server, streams that read slowly."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    flags = ("--max-num-seqs", 2048, "--max-num-queued-reqs", 4096, "--kv-cache-memory-bytes", "1200M", "--kv-cache-dtype", "fp8")
    with serving(tiny, *flags) as server:
        before = load.resident_bytes(server.process.pid, CACHE_LAYER_BYTES)
        streams = load.open_unread(server, IDLE_STREAMS, 300)
        yield from probe_rows("unread", load.probe(server, 10))
        above = (load.resident_bytes(server.process.pid, CACHE_LAYER_BYTES) - before) / 2**20
        yield Row(f"memory above the model's and its cache's with {IDLE_STREAMS:,} unread streams", above, "MiB", 200)
        server.wait_until(lambda: server.gauge("vllm:num_requests_running") == 0)
        yield Row(f"CPU of a scrape with {IDLE_STREAMS:,} unread streams", load.scrape_cost(server), "ms", 1)
        for stream in streams:
            stream.close()
    with serving(tiny, *flags) as server:
        streams, over = load.open_unread(server, IDLE_STREAMS, 600), threading.Event()
        reader = threading.Thread(target=load.read_slowly, args=(streams, over))
        reader.start()
        try:
            rows = list(probe_rows("slow", load.probe(server, 10)))
        finally:
            over.set()
            reader.join()
        for stream in streams:
            stream.close()
    yield from rows


def measure_pacing(model, seconds=60):
    """Four streams, a prompt of 8,000 tokens always being read, --max-itl-ms 100."""
    flags = ("--max-itl-ms", 100, "--max-num-seqs", 8, "--max-num-queued-reqs", 8)
    with serving(model, *flags) as server, Streams(server, 4, 4000) as streams:
        feeder = threading.Thread(target=load.feed_prompts, args=(server, streams.over))
        feeder.start()
        time.sleep(5)  # what steps take is being learned
        begun, before = time.monotonic(), server.metrics()
        time.sleep(seconds)
        gaps, after = streams.gaps(begun, time.monotonic()), server.metrics()
        streams.over.set()
        feeder.join()
    prefilled = (after["octavo:prefill_tokens_total", ""] - before["octavo:prefill_tokens_total", ""]) / seconds
    name = "four streams beside a prompt of 8,000 tokens, --max-itl-ms 100: gaps, 99th percentile"
    yield Row(name, 1000 * percentile(gaps, 0.99), "ms", 150)
    yield Row("the same, median", 1000 * statistics.median(gaps), "ms")
    yield Row("gaps measured", len(gaps), "")
    yield Row("prompt tokens meanwhile", prefilled, "tokens/s")


PARTS = {"overhead": measure_overhead, "first-step": measure_first_step, "tokenizing": measure_tokenizing,
         "idle": measure_idle, "pacing": measure_pacing}  # fmt: skip
TINY_PARTS = ("overhead", "idle")


def parse_arguments():
    parser = argparse.ArgumentParser(prog="scripts/bench-serve")
    for name in ("octavo", "model"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS))
    options = parser.parse_args()
    unknown = [part for part in options.only if part not in PARTS]
    if unknown:
        parser.error(f"there is no part {unknown[0]}: parts are {', '.join(PARTS)}")
    return options


def main():
    options = parse_arguments()
    os.environ["OCTAVO_BINARY"] = str(options.octavo.resolve())
    print("| | measured | bound | holds |\n| --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        tiny = checkpoints.make_checkpoint(pathlib.Path(folder) / "tiny")
        for part in options.only:
            for row in PARTS[part](tiny if part in TINY_PARTS else options.model):
                print("| " + " | ".join(row.cells()) + " |", flush=True)


if __name__ == "__main__":
    main()
