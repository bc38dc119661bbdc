"""Minutes of everything at once: connects, cancels, slow readers, malformed and oversized requests. Afterwards no text was
wrong, no stream was lost, and pages, memory and files are as before. OCTAVO_SOAK_SECONDS says how long (300)."""

import json
import os
import pathlib
import random
import threading
import time
import unittest

from served import ServiceTest, events

SECONDS = float(os.environ.get("OCTAVO_SOAK_SECONDS", "300"))
WORKERS = 12
GREEDY = {"temperature": 0, "ignore_eos": True}


class SoakTest(ServiceTest):
    flags = ("--max-num-seqs", "8", "--max-body-bytes", "1M", "--reader-timeout", "2", "--kv-cache-dtype", "fp8",
             "--deterministic")  # fmt: skip

    def setUp(self):
        self.prompts = [[10 + i, 20 + i, 30] + [40 + i] * (i * 20) for i in range(8)]
        self.texts = [self.server.complete(p, max_tokens=40, **GREEDY).json["choices"][0]["text"] for p in self.prompts]
        self.failures = []
        self.counts = {}

    def streamed(self, rng):
        i = rng.randrange(len(self.prompts))
        reply = self.server.complete(self.prompts[i], max_tokens=40, stream=True, **GREEDY)
        text = "".join(event["choices"][0]["text"] for event in events(reply.body))
        assert text == self.texts[i], f"stream of prompt {i} is wrong"

    def whole(self, rng):
        i = rng.randrange(len(self.prompts))
        reply = self.server.complete(self.prompts[i], max_tokens=40, n=rng.choice((1, 3)), **GREEDY).json
        assert all(choice["text"] == self.texts[i] for choice in reply["choices"]), f"answer to prompt {i} is wrong"

    def cancelled(self, rng):
        fields = {"prompt": rng.choice(self.prompts), "max_tokens": 1500, "stream": rng.random() < 0.5} | GREEDY
        body = json.dumps(fields).encode()
        connection = self.server.raw(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        time.sleep(rng.random() * 0.2)
        connection.close()

    def slow_reader(self, rng):
        i = rng.randrange(len(self.prompts))
        fields = {"prompt": self.prompts[i], "max_tokens": 40, "stream": True} | GREEDY
        connection, response = self.server.begin("/v1/completions", fields)
        body = b""
        while piece := response.read(200):
            body += piece
            time.sleep(0.001)
        connection.close()
        assert "".join(event["choices"][0]["text"] for event in events(body)) == self.texts[i], "slowly read: wrong"

    def malformed(self, rng):
        noise = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 400)))
        data = rng.choice((noise, b"POST /v1/completions HTTP/1.1\r\nContent-Length: 40\r\n\r\n" + noise, b"GET / HTT",
                           b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + noise))
        connection = self.server.raw(data)
        connection.settimeout(0.2)
        try:
            connection.recv(1000)
        except OSError:
            pass
        connection.close()

    def oversized(self, rng):
        try:
            reply = self.server.post("/v1/completions", b"a" * (1 << 21))
            assert reply.status == 413, reply.status
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert self.server.complete("hello " * 100000).status == 400

    def probes(self, rng):
        for path in ("/health", "/live", "/metrics"):
            assert self.server.get(path).status == 200, path

    def work(self, seed, end):
        rng = random.Random(seed)
        kinds = (self.streamed, self.whole, self.cancelled, self.slow_reader, self.malformed, self.oversized, self.probes)
        while time.monotonic() < end and not self.failures:
            kind = rng.choice(kinds)
            try:
                kind(rng)
                self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
            except Exception as failure:  # told by the test's own thread
                self.failures.append(f"{kind.__name__}: {failure!r}")

    def resources(self):
        folder = pathlib.Path("/proc") / str(self.server.process.pid)
        status = (folder / "status").read_text()
        memory = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
        return len(list((folder / "fd").iterdir())), memory

    def rounds(self, seconds):
        end = time.monotonic() + seconds
        threads = [threading.Thread(target=self.work, args=(seed, end)) for seed in range(WORKERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertFalse(self.failures, self.server.log[-2000:])
        self.assert_idle()

    def test_everything_at_once(self):
        self.rounds(min(5, SECONDS))  # what is allocated once
        files, memory = self.resources()
        self.rounds(SECONDS)
        self.server.wait_until(lambda: self.resources()[0] <= files)
        self.assertLess(self.resources()[1], memory + 30000, "kilobytes")
        self.assertGreater(min(self.counts.values()), 3, self.counts)


if __name__ == "__main__":
    unittest.main()
