"""Under load: gaps between tokens beside long prompts, with the default model, and thousands of streams whose readers are slow or
read nothing. Times are of a machine that does nothing else."""

import json
import os
import pathlib
import random
import resource
import selectors
import socket
import statistics
import threading
import time
import unittest

from served import PATIENCE, Server, ServiceTest

NUM_STREAMS = 2000
MODEL = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "octavo/SmolLM2-135M-Instruct.Q4_1.gguf"


def percentile(values, share):
    return sorted(values)[int(len(values) * share)]


def request(body):
    text = json.dumps(body).encode()
    return b"POST /v1/completions HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text)


class PacingTest(unittest.TestCase):
    """SmolLM2, four streams, a prompt of 8,000 tokens always being read, --max-itl-ms 100."""

    def setUp(self):
        self.server = Server(MODEL, "--max-itl-ms", "100", "--max-num-seqs", "8", "--max-num-queued-reqs", "8")
        self.addCleanup(self.server.stop)
        self.over = threading.Event()
        self.gaps = []

    def stream(self):
        connection, response = self.server.begin(
            "/v1/completions", {"prompt": "Once upon a time", "max_tokens": 4000, "ignore_eos": True, "stream": True}
        )
        last = None
        while not self.over.is_set() and (line := response.readline()):
            if not line.startswith(b"data: {"):
                continue
            now = time.monotonic()
            if last is not None and self.measuring:
                self.gaps.append(now - last)
            last = now
        connection.close()

    def feed(self):
        rng = random.Random(1)
        while not self.over.is_set():
            prompt = [rng.randrange(1000, 40000) for _ in range(8000)]
            connection = self.server.connect(timeout=600)
            connection.request("POST", "/v1/completions", json.dumps({"prompt": prompt, "max_tokens": 1}))
            while not self.over.is_set():
                connection.sock.settimeout(1)
                try:
                    connection.sock.recv(65536)
                    break
                except TimeoutError:
                    continue
            connection.close()

    def test_streams_go_on_beside_long_prompts(self):
        self.measuring = False
        threads = [threading.Thread(target=self.stream) for _ in range(4)] + [threading.Thread(target=self.feed)]
        for thread in threads[:4]:
            thread.start()
        self.server.wait_until(lambda: self.server.gauge("vllm:num_requests_running") == 4)
        threads[4].start()
        time.sleep(5)  # what steps take is being learned
        self.measuring, before = True, self.server.metrics()
        time.sleep(60)
        after = self.server.metrics()
        self.over.set()
        for thread in threads:
            thread.join()
        prefilled = after["octavo:prefill_tokens_total", ""] - before["octavo:prefill_tokens_total", ""]
        print(f"gaps: {len(self.gaps)}, median {statistics.median(self.gaps) * 1000:.0f} ms, 99th percentile "
              f"{percentile(self.gaps, 0.99) * 1000:.0f} ms, longest {max(self.gaps) * 1000:.0f} ms; {prefilled / 60:.0f} prompt "
              f"tokens a second")  # fmt: skip
        self.assertLess(percentile(self.gaps, 0.99), 0.150)
        self.assertGreater(prefilled, 60 * 20)
        self.assertGreater(len(self.gaps), 4 * 60 * 5)


class ManyStreamsTest(ServiceTest):
    flags = ("--max-num-seqs", "2048", "--max-num-queued-reqs", "4096", "--kv-cache-memory-bytes", "1200M", "--kv-cache-dtype", "fp8")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(limit[1], 8192), limit[1]))

    def memory(self):
        status = (pathlib.Path("/proc") / str(self.server.process.pid) / "status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024

    def open(self, tokens):
        body = request({"prompt": "hello world", "max_tokens": tokens, "ignore_eos": True, "stream": True})
        streams = []
        for _ in range(NUM_STREAMS):
            stream = socket.socket()
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stream.connect(("127.0.0.1", self.server.port))
            stream.sendall(body)
            streams.append(stream)
            self.addCleanup(stream.close)
        self.server.wait_until(lambda: self.server.gauge("vllm:num_requests_waiting") == 0, PATIENCE)
        return streams

    def probe(self, seconds):
        times = {"/health": [], "/metrics": []}
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for path, taken in times.items():
                begun = time.monotonic()
                self.assertEqual(self.server.get(path).status, 200)
                taken.append(time.monotonic() - begun)
                time.sleep(0.03)
        for path, taken in times.items():
            print(f"{path}: median {statistics.median(taken) * 1000:.1f} ms, 99th percentile {percentile(taken, 0.99) * 1000:.1f} ms")
            self.assertLess(statistics.median(taken), 0.020)

    def test_readers_that_are_slow(self):
        streams, over = self.open(1000), threading.Event()

        def read():
            with selectors.DefaultSelector() as selector:
                for stream in streams:
                    stream.setblocking(False)
                    selector.register(stream, selectors.EVENT_READ)
                while not over.is_set():
                    for key, _ in selector.select(0.1):
                        if not key.fileobj.recv(512):
                            selector.unregister(key.fileobj)
                    over.wait(0.2)

        reader = threading.Thread(target=read)
        reader.start()
        try:
            self.probe(10)
        finally:
            over.set()
            reader.join()


class UnreadStreamsTest(ManyStreamsTest):
    """Its own server, whose memory nothing has touched before."""

    test_readers_that_are_slow = None

    def test_readers_that_read_nothing(self):
        before = self.memory()
        self.open(600)
        self.probe(10)
        values = self.server.metrics()
        in_cache = values["vllm:prompt_tokens_total", ""] + values["vllm:generation_tokens_total", ""]
        above = self.memory() - before - in_cache * values["octavo:kv_bytes_per_token", ""] / 2**20
        print(f"memory above the model's and its cache's: {above:.0f} MB")
        self.assertLess(above, 200)


if __name__ == "__main__":
    unittest.main()
