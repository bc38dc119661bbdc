"""A server under load, for bench_serve.py: streams that are read, read slowly or not at all, probes, long prompts, and what the
processor did meanwhile."""

import contextlib
import json
import pathlib
import selectors
import socket
import sys
import threading
import time

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(SOURCE_DIR / "tests/service"))
from served import Server, checkpoints  # noqa: E402, F401  (bench_serve.py takes them from here)


def percentile(values, share):
    return sorted(values)[int(len(values) * share)]


def processor_seconds(pid):
    """{thread: seconds of the processor that it has had}, of those that live."""
    taken = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            taken[int(task.name)] = int((task / "schedstat").read_text().split()[0]) / 1e9
    return taken


def resident_bytes(pid, largest):
    """Without unnamed mappings of `largest` bytes and more, which are the cache."""
    total, counted = 0, True
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *fields = line.split()
        if not first.endswith(":"):
            begin, end = (int(address, 16) for address in first.split("-"))
            counted = len(fields) > 4 or end - begin < largest
        elif first == "Rss:" and counted:
            total += 1024 * int(fields[0])
    return total


def post_bytes(path, body):
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return b"POST %s HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(raw), raw)


@contextlib.contextmanager
def serving(model, *flags):
    server = Server(model, *flags)
    try:
        yield server
    finally:
        server.stop()


class Streams:
    """Streams that are read as they come; the times of their events."""

    def __init__(self, server, count, tokens):
        self.over = threading.Event()
        self.times = [[] for _ in range(count)]
        self.server = server
        self.tokens = tokens
        self.threads = [threading.Thread(target=self.read, args=(times,)) for times in self.times]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.server.wait_until(lambda: self.server.gauge("vllm:num_requests_running") == len(self.threads))
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()

    def read(self, times):
        body = {"prompt": "Once upon a time", "max_tokens": self.tokens, "ignore_eos": True, "stream": True}
        connection, response = self.server.begin("/v1/completions", body)
        while not self.over.is_set() and (line := response.readline()):
            if line.startswith(b"data: {"):
                times.append(time.monotonic())
        connection.close()

    def gaps(self, begin, end):
        """Those that end after `begin` and begin before `end`."""
        pairs = [pair for times in self.times for pair in zip(list(times), times[1:])]
        return [b - a for a, b in pairs if b >= begin and a <= end]


def open_unread(server, count, tokens):
    """Streams that nobody reads."""
    streams = []
    body = {"prompt": "hello world", "max_tokens": tokens, "ignore_eos": True, "stream": True}
    raw = post_bytes("/v1/completions", body)
    for _ in range(count):
        stream = socket.socket()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stream.connect(("127.0.0.1", server.port))
        stream.sendall(raw)
        streams.append(stream)
    server.wait_until(lambda: server.gauge("vllm:num_requests_waiting") == 0)
    return streams


def read_slowly(streams, over):
    with selectors.DefaultSelector() as selector:
        for stream in streams:
            stream.setblocking(False)
            selector.register(stream, selectors.EVENT_READ)
        while not over.is_set():
            for key, _ in selector.select(0.1):
                if not key.fileobj.recv(512):
                    selector.unregister(key.fileobj)
            over.wait(0.2)


def probe(server, seconds):
    """Milliseconds that /health and /metrics took."""
    taken = {"/health": [], "/metrics": []}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for path, times in taken.items():
            begun = time.monotonic()
            if (status := server.get(path).status) != 200:
                raise SystemExit(f"scripts/bench-serve: {path} answered {status}")
            times.append(1000 * (time.monotonic() - begun))
            time.sleep(0.03)
    return taken


def scrape_cost(server, count=300):
    """Milliseconds of the processor for a scrape, whatever else the server does meanwhile included."""
    before = sum(processor_seconds(server.process.pid).values())
    connection = server.connect()
    for _ in range(count):
        connection.request("GET", "/metrics")
        connection.getresponse().read()
    connection.close()
    return 1000 * (sum(processor_seconds(server.process.pid).values()) - before) / count


def feed_prompts(server, over):
    """One prompt of 8,000 tokens after another."""
    number = 0
    while not over.is_set():
        number += 1
        prompt = [1000 + (number * 7919 + i * 6007) % 39000 for i in range(8000)]
        connection = server.raw(post_bytes("/v1/completions", {"prompt": prompt, "max_tokens": 1}), 1)
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                connection.recv(65536)
                break
        connection.close()
