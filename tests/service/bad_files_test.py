"""A model's file that becomes shorter while it is in use, and stop strings of ten thousand tokens."""

import http.client
import os
import pathlib
import pty
import select
import subprocess
import tempfile
import time
import unittest

from served import PATIENCE, Server, ServiceTest, checkpoints, environment

GREEDY = {"temperature": 0, "ignore_eos": True}


class ShrinkingTest(unittest.TestCase):
    """The program ends with exit code 1, and its last word is a sentence that names the file."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def models(self):
        """(what to run, the file that is mapped) of each container."""
        folder = checkpoints.make_checkpoint(self.folder / "folder")
        yield folder, folder / "model.safetensors"
        file = self.folder / "tiny.gguf"
        checkpoints.write_gguf(file, *checkpoints.gguf_parts())
        yield file, file

    def assert_names(self, code, text, file):
        self.assertEqual(code, 1, text)
        last = text.strip().splitlines()[-1]
        self.assertTrue(last.startswith(f"octavo: {file}: became shorter"), text)
        self.assertEqual(text.count("became shorter"), 1, text)  # however many threads were reading

    def test_under_a_server(self):
        for model, file in self.models():
            with self.subTest(file.name):
                server = Server(model)
                self.addCleanup(server.process.kill)
                self.assertEqual(server.complete(max_tokens=4, **GREEDY).status, 200)
                os.truncate(file, 4096)
                with self.assertRaises((http.client.HTTPException, OSError)):
                    server.complete("hello again", max_tokens=64, **GREEDY)
                server.stop(expected=1)
                self.assert_names(1, server.log, file)

    def test_under_a_chat(self):
        for model, file in self.models():
            with self.subTest(file.name):
                outer, inner = pty.openpty()
                command = [os.environ["OCTAVO_BINARY"], "run", str(model), "--max-tokens", "2"]
                program = subprocess.Popen(command, stdin=inner, stdout=inner, stderr=inner, env=environment())
                self.addCleanup(program.kill)
                os.close(inner)
                self.read(outer, b"> ")
                os.truncate(file, 0)
                os.write(outer, b"hello\n")
                seen = self.read(outer, None)
                self.assert_names(program.wait(PATIENCE), seen.decode(errors="replace"), file)
                os.close(outer)

    def test_under_a_measurement(self):
        for model, file in self.models():
            with self.subTest(file.name):
                text = self.folder / "text"
                text.write_text("hello world, held in the old world\n" * 20000)
                command = ("eval", "nll", model, "--text", text, "--cpu-isa", "plain", "--threads", "1")
                program = subprocess.Popen(
                    [os.environ["OCTAVO_BINARY"], *map(str, command)],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment(),
                )
                self.addCleanup(program.kill)
                lines = []
                for line in program.stderr:  # until it works
                    lines.append(line)
                    if b"kv cache" in line:
                        break
                os.truncate(file, 0)
                out, rest = program.communicate(timeout=PATIENCE)
                self.assertEqual(out, b"")
                self.assert_names(program.returncode, (b"".join(lines) + rest).decode(), file)

    def read(self, terminal, end):
        """What the program writes until this; None: until it has gone."""
        seen, until = b"", time.monotonic() + PATIENCE
        while end is None or not seen.endswith(end):
            self.assertLess(time.monotonic(), until, seen)
            if not select.select([terminal], [], [], 0.1)[0]:
                continue
            try:
                more = os.read(terminal, 4096)
            except OSError:  # how a terminal says that nobody is there
                more = b""
            if not more:
                return seen
            seen += more
        return seen


class LongStopsTest(ServiceTest):
    def text(self, **fields):
        reply = self.server.complete(max_tokens=120, **GREEDY, **fields)
        self.assertEqual(reply.status, 200, reply.body[:300])
        choice = reply.json["choices"][0]
        return choice["text"], choice["finish_reason"], choice["stop_reason"]

    def test_ten_thousand_tokens(self):
        whole, _, _ = self.text()
        beyond = "hello world 12 " * 2500  # ten thousand tokens of this vocabulary and more
        self.assertGreater(self.server.post("/tokenize", {"prompt": beyond}).json["count"], 10000)
        # What ends the text may begin a stop string, and is held back to the end: none of it is lost.
        for at in (0, len(whole) // 2, len(whole) - 1):
            stop = whole[at:] + beyond
            self.assertEqual(self.text(stop=[stop]), (whole, "length", None))
            self.assertEqual(self.text(stop=[stop, beyond, whole[1:] + beyond]), (whole, "length", None))
        found = whole[20:90]
        expected = whole[: whole.index(found)]
        self.assertEqual(self.text(stop=[whole + beyond, found]), (expected, "stop", found))

    def test_more_than_the_limit(self):
        self.assert_error(self.server.complete(stop="x" * (2**18 + 1)), 400, "stop", "262145", "262144")
        self.assert_error(self.server.complete(stop=["x" * 2**17, "y" * 2**17, "z"]), 400, "stop", "262145")
        self.assertEqual(self.server.complete(stop="x" * 2**18, max_tokens=1).status, 200)


if __name__ == "__main__":
    unittest.main()
