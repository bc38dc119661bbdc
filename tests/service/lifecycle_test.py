"""Keys, queues and time limits, and how a server comes and goes."""

import concurrent.futures
import http.client
import json
import pathlib
import signal
import socket
import tempfile
import time
import unittest

from served import LONG_CONTEXT, PATIENCE, Server, ServiceTest, checkpoints, events, octavo, until_closed

LONG = {"prompt": "hello world", "max_tokens": 60000, "ignore_eos": True, "temperature": 0}

ENDLESS = LONG | {"n": 64}  # one after another, where one runs at a time


class KeysTest(ServiceTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.key_file = pathlib.Path(folder.name) / "keys"
        cls.key_file.write_text("from-file\n")
        cls.flags = ("--api-key", "one", "--api-key", "two", "--api-key-file", cls.key_file, "--metrics-key", "scrape",
                     "--open-route", "/tokenize")  # fmt: skip
        super().setUpClass()

    def test_every_route_but_the_probes_needs_a_key(self):
        for path in ("/health", "/ping", "/live", "/ready", "/version", "/get_load"):
            self.assertEqual(self.server.get(path).status, 200, path)
        self.assertEqual(self.server.post("/tokenize", {"prompt": "a"}).status, 200)
        for method, path in (("GET", "/v1/models"), ("POST", "/v1/chat/completions"), ("POST", "/v1/completions"),
                             ("POST", "/detokenize"), ("GET", "/tokenizer_info"), ("GET", "/load"), ("GET", "/metrics"),
                             ("GET", "/server_info"), ("GET", "/model_info"), ("POST", "/abort_requests"),
                             ("POST", "/reset_prefix_cache"), ("GET", "/nowhere"), ("POST", "/v1/completions/render")):
            for wrong in ({}, {"Authorization": "Bearer on"}, {"Authorization": "one"}):
                self.assert_error(self.server.ask(method, path, {} if method == "POST" else None, wrong), 401)
        for key in ("one", "two", "from-file"):
            self.assertEqual(self.server.get("/v1/models", Authorization=f"Bearer {key}").status, 200)
        self.assertEqual(self.server.get("/metrics", Authorization="Bearer scrape").status, 200)
        self.assertEqual(self.server.get("/v1/models", Authorization="Bearer scrape").status, 401)

    def test_the_key_file_is_read_anew_on_sighup(self):
        self.key_file.write_text("changed\n")
        self.server.process.send_signal(signal.SIGHUP)
        self.server.wait_until(lambda: self.server.get("/v1/models", Authorization="Bearer changed").status == 200)
        self.assertEqual(self.server.get("/v1/models", Authorization="Bearer from-file").status, 401)

    def test_no_key_is_in_the_log(self):
        for secret in ("Bearer", "from-file", "scrape"):
            self.assertNotIn(secret, self.server.log + self.server.block)


class QueueTest(ServiceTest):
    flags = ("--max-num-seqs", "1", "--max-num-queued-reqs", "3", *LONG_CONTEXT)

    def test_what_does_not_fit_is_turned_away_at_once(self):
        held = [self.server.begin("/v1/completions", LONG | {"stream": True})[0]]
        for _ in range(3):
            connection = self.server.connect()
            connection.request("POST", "/v1/completions", json.dumps(LONG))
            held.append(connection)
        self.server.wait_until(lambda: self.server.get("/get_load").json["load"] == 4)

        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            for reply in pool.map(lambda _: self.server.complete(**LONG | {"prompt": "x"}), range(16)):
                self.assert_error(reply, 429, None, "queue is full")
                self.assertGreaterEqual(int(reply.headers["retry-after"]), 1)
        self.assertEqual(self.server.metrics()["octavo:requests_rejected_total", 'status="429"'], 16)
        for connection in held:
            connection.close()
        self.assert_idle()
        self.assertEqual(self.server.complete(max_tokens=1).status, 200)

    def test_more_answers_than_there_will_ever_be_room_for(self):
        self.assert_error(self.server.complete(n=5, max_tokens=1), 400, "n")
        self.assert_error(self.server.complete(["a"] * 5, max_tokens=1), 400, "prompt")


class StrictLengthTest(ServiceTest):
    flags = ("--strict-max-tokens", "--max-model-len", "100")

    def test_what_the_context_cannot_hold_is_refused_with_true_numbers(self):
        self.assertEqual(self.server.complete([10] * 90, max_tokens=10).status, 200)
        for asked in (11, 999999):
            self.assert_error(self.server.complete([10] * 90, max_tokens=asked), 400, "max_tokens",
                              "maximum context length is 100 tokens", "90 tokens", str(asked))  # fmt: skip
        self.assertEqual(self.server.chat("hello").status, 200, "absent: what is left")


class TimeLimitTest(ServiceTest):
    flags = ("--request-timeout", "3", "--max-num-seqs", "1")

    def test_long_requests_end_with_an_error(self):
        for _ in range(10):  # on a busy machine the first token may come later than that
            connection, response = self.server.begin("/v1/completions", ENDLESS | {"stream": True})
            if response.status == 200:
                break
            self.assertEqual(response.status, 504)
            connection.close()
        self.assert_error(self.server.complete(**ENDLESS), 504)  # behind the other
        body = response.read()
        self.assertIn(b'"code":504', body)
        self.assertTrue(body.endswith(b"data: [DONE]\n\n"))
        connection.close()
        self.assert_idle()


class PingTest(ServiceTest):
    flags = ("--ping-interval", "0.1", "--max-num-seqs", "1")

    def test_streams_that_wait_hear_pings(self):
        connection, response = self.server.begin("/v1/completions", ENDLESS | {"stream": True})
        response.read(10)
        behind, answer = self.server.begin("/v1/completions", LONG | {"max_tokens": 3, "stream": True})
        ping = b": ping\n\n"
        self.assertEqual(answer.read(len(ping)), ping)
        connection.close()
        rest = answer.read()
        self.assertEqual(events(rest.replace(ping, b""))[-1]["choices"][0]["finish_reason"], "length")
        behind.close()


class ComingAndGoingTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.model = checkpoints.make_checkpoint(self.folder / "tiny")

    def serve(self, *flags):
        server = Server(self.model, *flags)
        self.addCleanup(lambda: server.process.poll() is None and server.process.kill())
        return server

    def test_sigterm_lets_running_requests_finish(self):
        for tokens in (2000, 8000, 32000):  # on a busy machine an answer may be over before anything was asked beside it
            server = self.serve("--shutdown-timeout", "600", *LONG_CONTEXT)
            connection, response = server.begin("/v1/completions", LONG | {"stream": True, "max_tokens": tokens})
            start = response.read(100)
            server.process.send_signal(signal.SIGTERM)
            server.wait_for_log("shutting down")
            try:
                replies = [server.get(path) for path in ("/live", "/ready", "/health")] + [server.complete("x")]
            except (OSError, http.client.HTTPException):
                replies = None
            stream = events(start + response.read())
            self.assertEqual(stream[-1]["choices"][0]["finish_reason"], "length")
            connection.close()
            server.stop()
            if replies:
                break
        self.assertTrue(replies, "nothing is answered beside what runs")
        self.assertEqual([reply.status for reply in replies], [200, 503, 503, 503])
        self.assertIn("retry-after", replies[-1].headers)

    def test_an_answer_that_is_still_being_read_is_no_less_in_work(self):
        server = self.serve("--shutdown-timeout", "600", "--reader-timeout", "600")
        fields = LONG | {"max_tokens": 500, "n": 16, "logprobs": 20}
        connection = server.connect()
        connection.sock = socket.socket()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sock.connect(("127.0.0.1", server.port))
        connection.request("POST", "/v1/completions", json.dumps(fields))
        done = ("vllm:request_success_total", 'finished_reason="length"')
        server.wait_until(lambda: server.metrics()[done] == 16)
        server.process.send_signal(signal.SIGTERM)
        server.wait_for_log("shutting down")
        time.sleep(2)  # nothing is read meanwhile, though all is computed
        usage = json.loads(connection.getresponse().read())["usage"]
        self.assertEqual(usage["completion_tokens"], 16 * 500)
        connection.close()
        server.stop()

    def test_the_time_to_finish_is_bounded_and_a_second_signal_cuts_it(self):
        for timeout, signals in (("0.2", 1), ("6000", 2)):
            server = self.serve("--shutdown-timeout", timeout, "--max-num-seqs", "1", *LONG_CONTEXT)
            running, answer = server.begin("/v1/completions", LONG | {"stream": True})
            waiting = [server.connect() for _ in range(3)]
            for connection in waiting:
                connection.request("POST", "/v1/completions", json.dumps(LONG))
            server.wait_until(lambda: server.get("/get_load").json["load"] == 4)
            for word in ("shutting down", "stopping now")[:signals]:
                server.process.send_signal(signal.SIGTERM)
                server.wait_for_log(word)  # two signals at once would be one
            self.assertEqual([connection.getresponse().status for connection in waiting], [503] * 3, "they are told")
            try:
                self.assertIn(b'"code":503', answer.read())
            except (http.client.HTTPException, OSError):
                pass  # broken, where more was on its way than could be sent
            server.process.wait(PATIENCE)
            server.stop()
            for connection in (running, *waiting):
                connection.close()

    def test_a_killed_server_breaks_its_streams(self):
        server = self.serve(*LONG_CONTEXT)
        connection, response = server.begin("/v1/completions", LONG | {"stream": True, "n": 8})
        response.read(100)
        server.process.kill()
        with self.assertRaises((http.client.HTTPException, OSError), msg="a short answer passed for a whole one"):
            response.read()
        connection.close()
        server.process.wait()
        server.stop(-signal.SIGKILL)

    def test_a_unix_socket(self):
        path = self.folder / "socket"
        server = self.serve("--uds", path)
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(path))
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        self.assertTrue(until_closed(connection).startswith(b"HTTP/1.1 200 OK"))
        done = octavo("serve", self.model, "--uds", path)
        self.assertEqual(done.code, 1)
        self.assertIn("another server listens there", done.err)
        server.stop()
        self.assertFalse(path.exists())

    def test_a_port_in_use_is_said_before_the_model_is_loaded(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            done = octavo("serve", self.model, "--port", taken.getsockname()[1])
        self.assertEqual(done.code, 1)
        self.assertIn("--port", done.err)
        self.assertNotIn("capacity", done.err)

    def test_an_answer_that_is_not_finite_is_an_error_and_the_server_goes_on(self):
        header, data = checkpoints.read_safetensors(self.model / "model.safetensors")
        begin, end = header["model.norm.weight"]["data_offsets"]
        data = bytearray(data)
        data[begin:end] = b"\x7f\x7f" * ((end - begin) // 2)  # the largest bfloat16: logits overflow
        checkpoints.write_safetensors(self.model / "model.safetensors", header, bytes(data))
        server = self.serve()
        reply = server.complete(max_tokens=3)
        self.assertEqual(reply.status, 500, reply.body)
        self.assertIn("not finite", reply.error["message"])
        self.assertEqual(server.complete(max_tokens=3, stream=True).status, 500)
        self.assertEqual(server.get("/health").status, 200)
        self.assertIn(("vllm:request_success_total", 'finished_reason="error"'), server.metrics())
        server.stop()

    def test_the_start_block_says_what_is_served(self):
        server = self.serve("--served-model-name", "a", "b", "--kv-cache-dtype", "fp8")
        for word in ("serves a, b", "fp8", "2048 tokens", "64 requests at once", server.url):
            self.assertIn(word, server.block)
        self.assertEqual([m["id"] for m in server.get("/v1/models").json["data"]], ["a", "b"])
        self.assertEqual(server.complete(model="b", max_tokens=1).json["model"], "b")
        server.stop()

    def test_a_public_address_without_a_key_is_warned_of(self):
        for flags, warned in ((("--host", "0.0.0.0"), 1), (("--host", "0.0.0.0", "--api-key", "k"), 0), ((), 0)):
            with self.subTest(flags):
                server = self.serve(*flags)
                server.stop()
                self.assertEqual(server.log.count("open to everybody"), warned, server.log)

    def test_fewer_requests_run_at_once_where_a_step_has_no_token_for_each(self):
        server = self.serve("--max-num-seqs", "100", "--max-num-batched-tokens", "16")
        self.assertIn("16 requests at once", server.block)
        self.assertIn("16 tokens a step", server.block)
        self.assertEqual(server.get("/server_info").json["max_running_requests"], 16)
        server.wait_for_log("fewer requests at once than --max-num-seqs")
        server.stop()

    def test_wrong_starts_say_why(self):
        wrong_usage = (("--port", "99999"), ("--ssl-keyfile", "k"), ("--tool-call-parser", "x"), ("--api-key", ""),
                       ("--api-key", " "), ("--open-route", "tokenize"), ("--open-route", "/nope"),
                       ("--open-route", "/health,/nope"), ("--allowed-origins", "page"),
                       ("--allowed-origins", '["http://page/with/path"]'), ("--allowed-methods", "GET POST"),
                       ("--allowed-headers", '["a:b"]'))  # fmt: skip
        not_there = (("--api-key-file", "/nonexistent"), ("--host", "no.such.host.invalid"),
                     ("--chat-template", "/nonexistent"))
        for code, starts in ((2, wrong_usage), (1, not_there)):
            for flags in starts:
                with self.subTest(flags):
                    done = octavo("serve", self.model, *flags)
                    self.assertEqual(done.code, code)
                    self.assertIn(flags[0], done.err)

    def test_a_vllm_start_command_works_with_one_word_changed(self):
        server = self.serve("--host", "127.0.0.1", "--served_model_name", "tiny", "--max-model-len", "1024",
                            "--max-num-seqs", "8", "--max-num-batched-tokens", "256", "--kv-cache-dtype", "fp8_e4m3",
                            "--disable-log-requests", "--enforce-eager", "--trust-remote-code", "--api-key", "k",
                            "--tensor-parallel-size", "1", "--dtype", "bfloat16", "--seed", "3",
                            "--enable-prefix-caching", "--enable-chunked-prefill")  # fmt: skip
        self.assertEqual(server.get("/v1/models", Authorization="Bearer k").json["data"][0]["max_model_len"], 1024)
        server.stop()


if __name__ == "__main__":
    unittest.main()
