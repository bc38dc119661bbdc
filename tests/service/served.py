"""Starts `octavo serve` on a tiny checkpoint and talks to it, with http.client and plain sockets."""

import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "script"))

import checkpoints  # noqa: E402, F401  (its folder was named just now)
from octavo_program import SOURCE_DIR, environment, octavo  # noqa: E402, F401  (tests take them from here)

PATIENCE = 240  # seconds that nothing takes but a fault: a sanitizer's build on a busy machine is slow
# For answers that last until they are stopped, however slow the test is beside the server.
LONG_CONTEXT = ("--hf-overrides", json.dumps({"max_position_embeddings": 65536}))
# Ids of the checkpoint's tokenizer: three special tokens, then the bytes, of which the printable ones come first.
HELLO_WORLD = [262, 267]


class Reply:
    def __init__(self, response, body):
        self.status, self.body = response.status, body
        self.headers = {name.lower(): value for name, value in response.getheaders()}

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        return self.json["error"]


class Server:
    """A running server. Its log is kept for messages of failed tests."""

    def __init__(self, model, *flags):
        command = [os.environ["OCTAVO_BINARY"], "serve", *([str(model)] if model else []), *map(str, flags)]
        if "--uds" not in flags and "--port" not in flags:
            command += ["--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        self.log, self.block = "", ""
        self.reader = threading.Thread(target=self.read_log, daemon=True)
        self.reader.start()
        watchdog = threading.Timer(PATIENCE, self.process.kill)
        watchdog.start()
        for line in self.process.stdout:
            if line == b"ready\n":
                break
            self.block += line.decode()
        else:
            watchdog.cancel()
            self.process.wait()
            self.reader.join(PATIENCE)
            raise AssertionError(f"the server did not start: {self.block}\n{self.log}")
        watchdog.cancel()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", self.block)
        self.port = int(found[1]) if found else 0
        self.url = f"http://127.0.0.1:{self.port}"

    def read_log(self):
        for line in self.process.stderr:
            self.log += line.decode(errors="replace")

    def stop(self, expected=0):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
        code = self.process.wait()
        self.reader.join(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()
        assert code == expected, f"exit code {code}\n{self.log[-3000:]}"

    def connect(self, timeout=PATIENCE):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def raw(self, data=b"", timeout=PATIENCE):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout)
        connection.sendall(data)
        return connection

    def ask(self, method, path, body=None, headers=None):
        connection = self.connect()
        try:
            text = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": "application/json"} | (headers or {}))
            response = connection.getresponse()
            return Reply(response, response.read())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.ask("GET", path, None, headers)

    def post(self, path, body, headers=None):
        return self.ask("POST", path, body, headers)

    def chat(self, text="hello world", **fields):
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}]} | fields)

    def complete(self, prompt="hello world", **fields):
        return self.post("/v1/completions", {"prompt": prompt} | fields)

    def begin(self, path, body):
        """A connection and its response, of which only the headers were read."""
        connection = self.connect()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        close = connection.close
        connection.close = lambda: (response.close(), close())
        return connection, response

    def metrics(self):
        """{(name, labels but model and engine): value}."""
        values = {}
        for line in self.get("/metrics").body.decode().splitlines():
            if line.startswith("#"):
                continue
            name, labels, value = re.fullmatch(r"([\w:]+)\{(.*)\} (\S+)", line).groups()
            rest = [part for part in labels.split(",") if not part.startswith(("model_name=", "engine="))]
            values[name, ",".join(rest)] = float(value)
        return values

    def gauge(self, name):
        return self.metrics()[name, ""]

    def wait_until(self, condition, seconds=PATIENCE):
        """Looks until it holds; fails after so long."""
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, f"not within {seconds} s\n{self.log[-2000:]}"
            time.sleep(0.01)

    def wait_for_log(self, text):
        """What the server has said reaches us a little later than what it has done."""
        self.wait_until(lambda: text in self.log)


def until_closed(connection, limit=1 << 20):
    """All that comes until the other side closes, or resets."""
    data = b""
    try:
        while len(data) < limit:
            piece = connection.recv(65536)
            if not piece:
                break
            data += piece
    except ConnectionResetError:
        pass
    finally:
        connection.close()
    return data


def events(body):
    """The data of a whole stream, [DONE] left out; asserts that it is there."""
    text = body.decode()
    assert text.endswith("data: [DONE]\n\n"), text[-200:]
    blocks = [block for block in text.split("\n\n") if block and not block.startswith(":")]
    assert all(block.startswith("data: ") for block in blocks), text[:500]
    return [json.loads(block[6:]) for block in blocks[:-1]]


class ServiceTest(unittest.TestCase):
    """One server for all tests of a class."""

    flags = ()

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.model = cls.make_model()
        cls.server = cls.start_server("--served-model-name", "tiny", *cls.flags)
        cls.addClassCleanup(cls.server.stop)

    @classmethod
    def make_model(cls):
        return checkpoints.make_checkpoint(cls.folder / "tiny")

    @classmethod
    def start_server(cls, *flags):
        return Server(cls.model, *flags)

    def assert_error(self, reply, status, param=None, *mentions):
        self.assertEqual(reply.status, status, reply.body)
        self.assertTrue(reply.headers["content-type"].startswith("application/json"), reply.headers)
        error = reply.error
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertEqual(error["code"], status)
        self.assertEqual(error["param"], param, error)
        for mention in mentions:
            self.assertIn(mention, error["message"])
        return error

    def assert_idle(self, seconds=PATIENCE):
        """Nothing runs, waits or holds pages."""
        names = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")

        def idle():
            values = self.server.metrics()
            return all(values[name, ""] == 0 for name in names)

        self.server.wait_until(idle, seconds)
