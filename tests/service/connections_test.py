"""How a connection can be used and misused: each misuse ends by a bound, and nobody else notices."""

import http.client
import json
import socket
import struct
import time
import unittest

from served import LONG_CONTEXT, PATIENCE, ServiceTest, events, until_closed

LONG = {"prompt": "hello world", "max_tokens": 60000, "ignore_eos": True, "temperature": 0}


class ConnectionsTest(ServiceTest):
    """Nobody here is cut for being slow, as a test on a busy machine is."""

    flags = ("--header-timeout", "600", "--body-timeout", "600", "--reader-timeout", "600", "--idle-timeout", "600",
             "--max-body-bytes", "1M", "--max-connections", "40")  # fmt: skip

    def test_a_connection_serves_many_requests(self):
        connection = self.server.connect()
        for _ in range(3):
            connection.request("GET", "/v1/models")
            self.assertEqual(connection.getresponse().read()[:1], b"{")
        connection.request("POST", "/v1/completions", b"nonsense")
        self.assertEqual(connection.getresponse().read()[:1], b"{")
        connection.request("GET", "/nowhere")
        self.assertEqual(connection.getresponse().read()[:1], b"{")
        body = json.dumps({"prompt": "hello", "max_tokens": 2, "stream": True})
        connection.request("POST", "/v1/completions", body)
        self.assertTrue(connection.getresponse().read().endswith(b"[DONE]\n\n"))
        connection.request("GET", "/version")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def test_pipelined_requests_are_answered_in_order(self):
        body = json.dumps({"prompt": "hello", "max_tokens": 1}).encode()
        first = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        connection = self.server.raw(first + b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n"
                                     b"GET /nowhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        answer = until_closed(connection)
        self.assertEqual(answer.count(b"HTTP/1.1 "), 3)
        places = [answer.find(word) for word in (b"text_completion", b'"version"', b"404 Not Found")]
        self.assertEqual(places, sorted(places))
        self.assertGreater(places[0], 0)

    def test_http_1_0(self):
        connection = self.server.raw(b"GET /version HTTP/1.0\r\n\r\n")
        answer = until_closed(connection)
        self.assertIn(b"connection: close", answer)
        body = json.dumps({"prompt": "hello", "max_tokens": 3, "stream": True}).encode()
        connection = self.server.raw(b"POST /v1/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        answer = until_closed(connection)
        self.assertNotIn(b"chunked", answer)
        self.assertEqual(len(events(answer.partition(b"\r\n\r\n")[2])) >= 1, True)

    def test_expect_100_continue(self):
        body = json.dumps({"prompt": "hello", "max_tokens": 1}).encode()
        head = b"POST %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n"
        connection = self.server.raw(head % (b"/v1/completions", len(body)))
        self.assertEqual(connection.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
        connection.sendall(body)
        self.assertIn(b"HTTP/1.1 200 OK", until_closed(connection))
        refused = self.server.raw(head % (b"/nowhere", len(body)))
        self.assertTrue(until_closed(refused).startswith(b"HTTP/1.1 404"), "refused before the body is sent")

    def test_chunked_bodies(self):
        connection = self.server.connect()
        pieces = [b'{"prompt": "he', b'llo", "max_t', b'okens": 1}']
        connection.request("POST", "/v1/completions", iter(pieces), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()

    def ask_and_close_own_direction(self, *requests):
        """As `nc -N` does: all that comes, interim answers left out."""
        connection = self.server.raw(b"".join(requests))
        connection.shutdown(socket.SHUT_WR)
        return until_closed(connection).replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")

    def test_who_has_closed_its_own_direction_gets_its_answer(self):
        fields = {"prompt": "hello world", "max_tokens": 400, "ignore_eos": True, "temperature": 0}
        expected = self.server.post("/v1/completions", fields).json["choices"][0]["text"]
        for stream in (False, True):
            body = json.dumps(fields | {"stream": stream}).encode()
            post = b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            answer = self.ask_and_close_own_direction(post)
            self.assertTrue(answer.startswith(b"HTTP/1.1 200 OK\r\n"), answer[:200])
            head, _, rest = answer.partition(b"\r\n\r\n")
            if stream:
                self.assertIn(b"data: [DONE]", rest)
                self.assertTrue(rest.endswith(b"\r\n0\r\n\r\n"))
            else:
                self.assertEqual(json.loads(rest)["choices"][0]["text"], expected)
        quick = b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n"
        self.assertEqual(self.ask_and_close_own_direction(quick, post, quick).count(b"HTTP/1.1 200 OK"), 3)

    def test_headers_too_large(self):
        answer = until_closed(self.server.raw(b"GET /version HTTP/1.1\r\nx: " + b"a" * 100000 + b"\r\n\r\n"))
        self.assertTrue(answer.startswith(b"HTTP/1.1 431 "), answer[:100])

    def test_bodies_too_large(self):
        head = b"POST /tokenize HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n"
        answer = until_closed(self.server.raw(head))
        self.assertTrue(answer.startswith(b"HTTP/1.1 413 "), "by what is announced")
        self.assertIn(b'"code":413', answer)
        self.assertEqual(self.status_of_a_body_not_read(), 413)
        connection = self.server.raw(b"POST /tokenize HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(40):
                connection.sendall(b"10000\r\n" + b"a" * 65536 + b"\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass
        self.assertIn(b" 413 ", until_closed(connection)[:30] or b" 413 ")

    def status_of_a_body_not_read(self):
        """Whoever is too slow to send it all finds the connection closed, so several tries."""
        for _ in range(20):
            try:
                return self.server.post("/tokenize", b"a" * 2000000).status
            except (BrokenPipeError, ConnectionResetError):
                continue
        return None

    def test_too_many_connections_are_told(self):
        held = [self.server.raw() for _ in range(60)]
        answers = []
        for connection in held[45:]:
            connection.settimeout(PATIENCE)
            answers.append(until_closed(connection))
        self.assertTrue(all(answer.startswith(b"HTTP/1.1 503 ") for answer in answers), answers)
        for connection in held:
            connection.close()
        self.server.wait_until(lambda: self.alive())

    def alive(self):
        try:
            return self.server.get("/health").status == 200
        except (OSError, http.client.HTTPException):
            return False


class SlowClientsTest(ServiceTest):
    flags = ("--header-timeout", "2", "--body-timeout", "2", "--idle-timeout", "3")

    def test_slow_headers_bodies_and_idle_connections_are_cut(self):
        asked = (b"", b"GET /version HTTP/1.1\r\n", b"POST /tokenize HTTP/1.1\r\nContent-Length: 100\r\n\r\n{",
                 b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n")  # fmt: skip
        for _ in range(5):  # on a busy machine the test itself may be slow, as a client and as a clock
            begun = time.monotonic()
            nothing, headers, body, idle = map(until_closed, [self.server.raw(data) for data in asked])
            seconds = time.monotonic() - begun
            late = [answer.startswith(b"HTTP/1.1 408 ") for answer in (headers, body)]
            if nothing == b"" and all(late) and idle.startswith(b"HTTP/1.1 200 ") and seconds < 25:
                break
        else:
            self.fail(f"after {seconds} s, where without the flags it would be 30: {(nothing, headers, body, idle)}")
        for answer in (headers, body):
            self.assertIn(b"\r\nx-request-id: ", answer)
            self.assertIn(b"\r\nserver: octavo/", answer)


class StuckReaderTest(ServiceTest):
    flags = ("--reader-timeout", "2", *LONG_CONTEXT)

    def test_a_reader_that_does_not_read_is_cut_and_costs_the_others_nothing(self):
        body = json.dumps(LONG | {"stream": True, "logprobs": 20, "n": 8}).encode()
        stuck = socket.socket()
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(("127.0.0.1", self.server.port))
        stuck.sendall(b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        self.server.wait_until(lambda: self.server.gauge("vllm:num_requests_running") > 0)
        self.assertEqual(self.server.complete(max_tokens=5).status, 200)
        gone = ("octavo:requests_aborted_total", 'reason="client_gone"')
        self.server.wait_until(lambda: self.server.metrics()[gone] > 0)
        self.assert_idle()
        stuck.settimeout(PATIENCE)
        answer = until_closed(stuck, 1 << 26)
        self.assertFalse(b"[DONE]" in answer, "a stream that was cut does not end as if it were whole")


class StrangersTest(ServiceTest):
    flags = ("--header-timeout", "6000")  # who waits for it has failed

    def test_what_is_not_http_is_closed_at_once(self):
        for data in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"nonsense\r\n\r\n",
                     b"GET /version HTTP/1.1\r\nno colon\r\n\r\n", b"GET /version HTTP/3.0\r\n\r\n",
                     b"POST /tokenize HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                     b"POST /tokenize HTTP/1.1\r\nContent-Length: x\r\n\r\n"):
            with self.subTest(data):
                answer = until_closed(self.server.raw(data))
                self.assertTrue(answer.startswith(b"HTTP/1.1 400 "), answer)


    def test_a_body_in_a_coding_that_is_not_read_is_no_empty_one(self):
        body = b'{"prompt": "hello", "max_tokens": 1}'
        for coding, status in ((b"Transfer-Encoding: identity", b"501"), (b"Transfer-Encoding: gzip, chunked", b"501"),
                               (b"Content-Length: 36\r\nContent-Encoding: gzip", b"415")):  # fmt: skip
            with self.subTest(coding):
                answer = until_closed(self.server.raw(b"POST /v1/completions HTTP/1.1\r\n%s\r\n\r\n%s" % (coding, body)))
                self.assertTrue(answer.startswith(b"HTTP/1.1 %s " % status), answer)
                self.assertEqual(answer.count(b"HTTP/1.1 "), 1, "the body is no request")
                self.assertIn(b'"code":' + status, answer)

    def test_empty_lines_before_a_request_are_left_out(self):
        request = b"\r\nGET /version HTTP/1.1\r\nHost: a\r\n\r\n\r\n\r\n"
        last = b"GET /version HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        self.assertEqual(until_closed(self.server.raw(request * 2 + last)).count(b"HTTP/1.1 200 OK"), 3)


class ClientGoneTest(ServiceTest):
    flags = ("--max-num-seqs", "2", *LONG_CONTEXT)

    def test_streams_whole_answers_and_queued_requests_stop(self):
        before = self.server.metrics()["vllm:request_success_total", 'finished_reason="abort"']
        for reset in (False, True):
            connections = []
            for stream in (True, False, True, False):  # two run, two wait
                body = json.dumps(LONG | {"stream": stream}).encode()
                connections.append(self.server.raw(
                    b"POST /v1/completions HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)))
            self.server.wait_until(lambda: self.server.gauge("vllm:num_requests_running") == 2)
            self.server.wait_until(lambda: self.server.gauge("vllm:num_requests_waiting") == 2)
            self.assertGreater(self.server.gauge("vllm:kv_cache_usage_perc"), 0)
            for connection in connections:
                if reset:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
            self.assert_idle()
        after = self.server.metrics()
        self.assertEqual(after["vllm:request_success_total", 'finished_reason="abort"'] - before, 8)
        self.assertEqual(after["octavo:requests_aborted_total", 'reason="client_gone"'], 8)
        self.server.wait_for_log("client gone")

    def test_operators_abort_by_id(self):
        connection, response = self.server.begin("/v1/completions", LONG | {"stream": True, "request_id": "mine"})
        response.read(10)
        self.assertEqual(self.server.post("/abort_requests", {"request_ids": ["cmpl-mine"]}).json, {"aborted": 1})
        rest = response.read()
        self.assertIn(b'"code":499', rest)
        self.assertTrue(rest.endswith(b"data: [DONE]\n\n"))
        connection.close()
        self.assertEqual(self.server.post("/abort_requests", {"abort_all": True}).json, {"aborted": 0})
        self.assert_idle()


if __name__ == "__main__":
    unittest.main()
