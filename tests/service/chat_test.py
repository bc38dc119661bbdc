"""`octavo chat` at a terminal, against the built server and against servers that misbehave."""

import http.server
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios
import threading
import time
import unittest

from served import LONG_CONTEXT, PATIENCE, ServiceTest, environment, octavo

PIECE = b'data: {"choices":[{"index":0,"delta":{"content":"half"}}]}\n\n'


class Chat:
    """The program on a terminal of its own."""

    def __init__(self, *flags):
        self.terminal, inner = pty.openpty()
        quiet = termios.tcgetattr(inner)
        quiet[3] &= ~termios.ECHO
        termios.tcsetattr(inner, termios.TCSANOW, quiet)
        command = [os.environ["OCTAVO_BINARY"], "chat", *map(str, flags)]
        self.program = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=environment())
        os.close(inner)
        self.start = self.wait_for("> ")

    def wait_for(self, end, seconds=PATIENCE):
        """What the program writes until this is the end of it."""
        seen = ""
        deadline = time.monotonic() + seconds
        while not seen.endswith(end):
            assert time.monotonic() < deadline, seen
            if select.select([self.terminal], [], [], 0.1)[0]:
                seen += os.read(self.terminal, 4096).decode(errors="replace")
        return seen.replace("\r\n", "\n")

    def say(self, line):
        os.write(self.terminal, line.encode() + b"\n")
        return self.wait_for("\n> ") if not line.startswith("/clear") else self.wait_for("> ")

    def leave(self, how=b"\x04"):
        os.write(self.terminal, how)
        code = self.program.wait(PATIENCE)
        os.close(self.terminal)
        return code


class ChatTest(ServiceTest):
    def test_a_conversation(self):
        chat = Chat("--base-url", self.server.url, "--temperature", "0", "--max-tokens", "5")
        self.addCleanup(chat.program.kill)
        self.assertIn("Chatting with tiny at " + self.server.url, chat.start)
        self.assertIn("no answer yet", chat.say("/stats"))
        self.assertIn("no question yet", chat.say("/retry"))
        first = chat.say("hello world")
        stats = chat.say("/stats")
        found = re.search(r"first token after \d+ ms, then [\d.]+ tokens/s\n(\d+) tokens of prompt .*, 5 of answer; "
                          r"context (\d+) of 2048 ", stats)  # fmt: skip
        self.assertTrue(found, stats)
        self.assertEqual(int(found[2]), int(found[1]) + 5)
        self.assertEqual(chat.say("/retry"), first, "the same question after the same history")
        self.assertEqual(chat.say("/stats").split("tokens of prompt")[0][-3:], stats.split("tokens of prompt")[0][-3:])
        chat.say("hello again")
        longer = re.search(r"\n(\d+) tokens of prompt", chat.say("/stats"))
        self.assertGreater(int(longer[1]), int(found[1]) + 5, "the history is sent")
        chat.say("/clear")
        self.assertEqual(chat.say("hello world"), first, "nothing is left of the history")
        self.assertIn("system message: be brief", chat.say("/system be brief"))
        chat.say("hello world")
        self.assertGreater(int(re.search(r"\n(\d+) tokens of prompt", chat.say("/stats"))[1]), int(found[1]))
        self.assertIn("no command /nonsense", chat.say("/nonsense"))
        self.assertIn("/retry", chat.say("/help"))
        self.assertEqual(chat.leave(b"/exit\n"), 0)

    def test_one_prompt(self):
        flags = ("--base-url", self.server.url, "--temperature", "0", "--max-tokens", "3")
        done = octavo("chat", *flags, "-p", "hello world")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(octavo("chat", *flags, stdin=b"hello world").out, done.out)
        whole = self.server.chat(max_tokens=3, temperature=0).json["choices"][0]["message"]["content"]
        self.assertEqual(done.text, whole + "\n")

    def test_what_cannot_be_is_one_sentence(self):
        for flags, mention in ((("--base-url", "http://127.0.0.1:1"), "is a server running there?"),
                               (("--base-url", "http://no.such.host.invalid"), "cannot reach"),
                               (("--base-url", "ftp://x"), "neither http:// nor https://"),
                               (("--base-url", self.server.url, "--model", "other"), "it has tiny"),
                               (("--base-url", self.server.url, "--system", "word " * 3000), "(400): "),
                               (("--base-url", self.server.url.replace("http", "https")), "TLS")):  # fmt: skip
            with self.subTest(flags):
                done = octavo("chat", *flags, "-p", "hi")
                self.assertIn(done.code, (1, 2), done)
                self.assertIn(mention, done.err)
                self.assertEqual(done.err.count("\n"), 1, done.err)


class LongAnswerTest(ServiceTest):
    flags = LONG_CONTEXT

    def test_ctrl_c_ends_the_answer_and_not_the_chat(self):
        chat = Chat("--base-url", self.server.url + "/v1", "--temperature", "0")
        self.addCleanup(chat.program.kill)
        os.write(chat.terminal, b"hello world\n")
        self.server.wait_until(lambda: self.server.gauge("vllm:num_requests_running") == 1)
        self.assertTrue(os.read(chat.terminal, 1), "the answer has begun")
        chat.program.send_signal(signal.SIGINT)
        chat.wait_for("\n> ")
        self.assert_idle()
        chat.program.send_signal(signal.SIGINT)
        self.assertIn("Ctrl-D leaves", chat.wait_for("> "))
        chat.say("/clear")
        self.assertEqual(chat.leave(), 0)


class KeyedTest(ServiceTest):
    flags = ("--api-key", "secret")

    def test_a_key_is_asked_for_and_sent(self):
        without = octavo("chat", "--base-url", self.server.url, "-p", "hi", OPENAI_API_KEY="")
        self.assertEqual(without.code, 1)
        self.assertIn("wants a key that it knows (401)", without.err)
        self.assertIn("--api-key", without.err)
        limit = ("--max-tokens", "1", "-p", "hi")
        self.assertEqual(octavo("chat", "--base-url", self.server.url, "--api-key", "secret", *limit).code, 0)
        self.assertEqual(octavo("chat", "--base-url", self.server.url, *limit, OPENAI_API_KEY="secret").code, 0)


class Misbehaving(http.server.BaseHTTPRequestHandler):
    """Answers a chat as its `mode` says."""

    protocol_version = "HTTP/1.1"
    mode = ""

    def log_message(self, *_):
        pass

    def reply(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        body = json.dumps({"object": "list", "data": [{"id": "m"}]}).encode()
        self.reply(200, body, Content_Length=str(len(body)), Content_Type="application/json")

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.mode == "busy":
            body = b'{"error":{"message":"the queue is full"}}'
            return self.reply(429, body, Content_Length=str(len(body)), Retry_After="7")
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        if self.mode in ("cut", "whole"):
            self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        data = PIECE
        if self.mode == "error":
            data += b'data: {"error":{"message":"it overflowed","code":500}}\n\ndata: [DONE]\n\n'
        if self.mode == "whole":
            data += b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        if self.mode in ("cut", "whole"):
            data = b"%x\r\n%s\r\n" % (len(data), data) + (b"0\r\n\r\n" if self.mode == "whole" else b"")
        self.wfile.write(data)
        self.close_connection = self.mode != "whole"


class OtherServersTest(unittest.TestCase):
    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Misbehaving)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)

    def ask(self, mode):
        Misbehaving.mode = mode
        return octavo("chat", "--base-url", f"http://127.0.0.1:{self.server.server_port}", "-p", "hi")

    def test_an_answer_is_whole_only_if_it_says_so(self):
        done = self.ask("whole")
        self.assertEqual((done.code, done.text, done.err), (0, "half\n", ""))
        for mode, mention in (("cut", "broke off: the connection"), ("stopped", "without saying that it was complete"),
                              ("error", "broke off: it overflowed")):  # fmt: skip
            with self.subTest(mode):
                done = self.ask(mode)
                self.assertEqual((done.code, done.text), (1, "half\n"), done)
                self.assertIn(mention, done.err)

    def test_a_busy_server_says_when_to_come_back(self):
        done = self.ask("busy")
        self.assertEqual(done.code, 1)
        self.assertIn("the server is busy (429): the queue is full; it says to come back in 7 s", done.err)


if __name__ == "__main__":
    unittest.main()
