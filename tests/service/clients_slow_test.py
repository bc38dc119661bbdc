"""More clients from PyPI: langchain-openai, lm-eval with the server's own tokenizer, vllm-router before two servers."""

import concurrent.futures
import http.client
import json
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from client_python import client_folder, run_client
from served import PATIENCE, Server, ServiceTest, checkpoints, events


class PythonClientsTest(ServiceTest):
    flags = ("--deterministic",)

    def test_langchain(self):
        python = client_folder("langchain", "langchain-openai==1.7.4") / "python3"
        run_client(python, "langchain_client.py", self.server.url)

    def test_lm_eval(self):
        python = client_folder("lm-eval", "lm-eval[api]==0.4.13") / "python3"
        run_client(python, "lm_eval_client.py", self.server.url)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Router:
    def __init__(self, policy, *servers):
        program = client_folder("vllm-router", "vllm-router==0.1.17") / "vllm-router"
        self.port = free_port()
        command = [program, "--host", "127.0.0.1", "--port", self.port, "--prometheus-port", free_port(), "--policy", policy,
                   "--worker-urls", *(server.url for server in servers)]  # fmt: skip
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([str(part) for part in command], stdout=self.log, stderr=self.log)
        self.wait_for_servers()

    def wait_for_servers(self):
        end = time.monotonic() + PATIENCE  # where a server was slow to answer it looks again after half a minute
        while self.ask("GET", "/v1/models")[0] != 200:
            if time.monotonic() > end:
                self.stop()
                raise AssertionError("the router did not find its servers")
            time.sleep(0.1)

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body and json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        except OSError:
            return 0, b""
        finally:
            connection.close()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


class RouterTest(ServiceTest):
    def chat(self, router, number, stream):
        body = {"model": "tiny", "messages": [{"role": "user", "content": f"hello {number}"}], "max_tokens": 6,
                "stream": stream, "ignore_eos": True}  # fmt: skip
        status, answer = router.ask("POST", "/v1/chat/completions", body)
        if status == 200 and stream:
            self.assertEqual(events(answer)[-1]["choices"][0]["finish_reason"], "length")
        elif status == 200:
            self.assertEqual(json.loads(answer)["usage"]["completion_tokens"], 6)
        return status

    def test_every_policy_and_a_server_that_is_killed(self):
        for policy in ("round_robin", "power_of_two", "cache_aware"):
            with self.subTest(policy):
                other = Server(checkpoints.make_checkpoint(self.folder / policy), "--served-model-name", "tiny")
                self.addCleanup(other.process.kill)
                router = Router(policy, self.server, other)
                try:
                    with concurrent.futures.ThreadPoolExecutor(8) as pool:
                        statuses = list(pool.map(lambda i: self.chat(router, i, i % 2 == 0), range(24)))
                    self.assertEqual(statuses, [200] * 24)
                    other.process.kill()
                    other.process.wait()
                    for number in range(12):  # as clients do that retry what may be retried
                        tries = [self.chat(router, number, False)]
                        while tries[-1] != 200 and len(tries) < 3:
                            self.assertIn(tries[-1], (0, 408, 429, 500, 502, 503, 504))
                            tries.append(self.chat(router, number, False))
                        self.assertEqual(tries[-1], 200, tries)
                finally:
                    router.stop()
                    other.stop(-signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
