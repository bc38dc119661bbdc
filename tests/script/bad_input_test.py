"""Bad text, too long prompts, too little memory, a closed stdout, Ctrl-C: one sentence, no crash, hang or silence."""

import os
import re
import signal
import subprocess
import unittest

import checkpoints
from octavo_program import Outcome, ProgramTest, environment, octavo


class BadInputTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = checkpoints.make_checkpoint(self.folder / "model")

    def numbers(self, sentence):
        return [int(number) for number in re.findall(r"\d+", sentence.replace(",", ""))]


class TextTest(BadInputTest):
    def test_invalid_utf8(self):
        for raw in (b"\xff", b"hello \xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"ok\n\x80"):
            with self.subTest(raw):
                self.assert_refuses(octavo("tokenize", self.model, stdin=raw), "UTF-8")
                self.assert_refuses(
                    octavo("template", self.model, stdin=b'{"messages": [{"role": "user", "content": "' + raw + b'"}]}')
                )
                self.assert_refuses(octavo("run", self.model, "--max-tokens", 2, stdin=raw), "UTF-8")

    def test_stdin_that_is_not_what_the_command_reads(self):
        for command, text in (
            ("template", ""),
            ("template", "hello"),
            ("template", "[]"),
            ("template", "{}"),
            ("template", '{"messages": 3}'),
            ("template", '{"messages": [3]}'),
            ("tokenize --decode", "hello"),
            ("tokenize --decode", "[1.5]"),
            ("tokenize --decode", "[-1]"),
            ("tokenize --decode", "[512]"),
            ("tokenize --decode", '{"ids": 1}'),
            ("tokenize --decode", "[99999999999999999999]"),
            ("tokenize --jsonl", "{}"),
            ("tokenize --jsonl", '{"text": 1}'),
            ("tokenize --jsonl", '{"ids": ["a"]}'),
            ("tokenize --jsonl", "[" * 100000),
        ):
            with self.subTest(f"{command} {text[:30]}"):
                name, *flags = command.split()
                self.assert_refuses(octavo(name, self.model, *flags, stdin=text.encode()))

    def test_ids_that_are_none(self):
        ids, out = self.folder / "ids.json", self.folder / "out.safetensors"
        flags = ("eval", "logits", self.model, "--input-ids-file", ids, "--output", out)
        for text in ("", "{}", "[]", "[1, -1]", "[1, 512]", "[1.5]", '["a"]', "[1", "[99999999999999999999]"):
            with self.subTest(text):
                ids.write_text(text)
                self.assert_refuses(octavo(*flags), "ids.json")
        ids.unlink()
        self.assert_refuses(octavo(*flags), "ids.json")
        ids.write_text("[5, 6, 7]")
        self.assert_refuses(octavo(*flags, "--decode-from", 4), 3, 4)
        self.assert_refuses(octavo(*flags[:-1], self.folder / "none/out.safetensors"), "none")
        self.assertFalse(out.exists())


class SizeTest(BadInputTest):
    def test_a_prompt_too_long_names_both_numbers(self):
        outcome = octavo("run", self.model, "-p", "x y z " * 200, "--max-model-len", 64)
        numbers = self.numbers(self.assert_refuses(outcome))
        self.assertIn(64, numbers)
        self.assertGreater(max(numbers), 600)

    def test_ids_too_many_name_both_numbers(self):
        ids = self.folder / "ids.json"
        checkpoints.write_json(ids, [7] * 96)
        self.assert_refuses(
            octavo(
                "eval",
                "logits",
                self.model,
                "--input-ids-file",
                ids,
                "--output",
                self.folder / "out",
                "--max-model-len",
                64,
            ),
            96,
            64,
        )

    def test_a_cache_that_does_not_hold_one_request(self):
        # 768 elements of bfloat16 a token: 2048 tokens need 3 MiB.
        self.assert_refuses(
            octavo("run", self.model, "-p", "hello", "--kv-cache-memory-bytes", "100k", "--max-model-len", 2048), "2048"
        )

    def test_a_context_beyond_all_memory(self):
        checkpoints.change_json(self.model / "config.json", max_position_embeddings=2**40)
        self.assert_refuses(octavo("run", self.model, "-p", "hello", "--max-model-len", 2**40))

    def test_weights_beyond_all_memory(self):
        """One tensor too large, and many that would each fit: known before the first is made."""
        large = dict(vocab_size=32000, head_dim=128)
        for sizes in (
            dict(hidden_size=65536, intermediate_size=262144, num_hidden_layers=400, num_attention_heads=512),
            dict(hidden_size=8192, intermediate_size=28672, num_hidden_layers=400, num_attention_heads=64),
        ):
            with self.subTest(sizes["hidden_size"]):
                checkpoints.change_json(self.model / "config.json", **large, **sizes, num_key_value_heads=8)
                self.assert_refuses(
                    octavo("run", self.model, "-p", "hello", "--load-format", "dummy", timeout=20), "GiB", "weights"
                )


class StreamTest(BadInputTest):
    COMMANDS = (
        ("--help",),
        ("run", "--help"),
        ("inspect",),
        ("tokenize",),
        ("template",),
        ("run", "-p", "hello", "--max-tokens", 20),
    )
    STDIN = {"tokenize": b"hello", "template": b'{"messages": [{"role": "user", "content": "hello"}]}'}

    def start(self, command):
        name, *flags = command
        return [name, *([self.model] if name in ("inspect", "tokenize", "template") or "-p" in flags else []), *flags]

    def test_a_full_disk(self):
        for command in self.COMMANDS:
            with self.subTest(command), open("/dev/full", "wb") as full:
                self.assert_refuses(
                    octavo(*self.start(command), stdin=self.STDIN.get(command[0], b""), stdout=full), "stdout"
                )

    def test_a_reader_that_went_away(self):
        for command in self.COMMANDS:
            with self.subTest(command):
                reading, writing = os.pipe()
                os.close(reading)
                try:
                    self.assert_refuses(
                        octavo(*self.start(command), stdin=self.STDIN.get(command[0], b""), stdout=writing), "stdout"
                    )
                finally:
                    os.close(writing)

    def test_a_stdout_that_is_closed(self):
        for command in self.COMMANDS:
            with self.subTest(command):
                arguments = [os.environ["OCTAVO_BINARY"], *map(str, self.start(command))]
                done = subprocess.run(
                    ["bash", "-c", 'exec "$@" >&-', "bash", *arguments],
                    input=self.STDIN.get(command[0], b""),
                    stderr=subprocess.PIPE,
                    timeout=60,
                    env=environment(),
                )
                self.assert_refuses(Outcome(arguments[1:], done.returncode, b"", done.stderr.decode()), "stdout")

    def test_control_c(self):
        """While it answers, and while it waits for text: it ends at once, with one sentence."""
        for command in (
            ("run", self.model, "-p", "hello", "--max-tokens", 2000, "--cpu-isa", "plain", "--threads", 1),
            ("tokenize", self.model),
        ):
            with self.subTest(command[0]):
                with subprocess.Popen(
                    [os.environ["OCTAVO_BINARY"], *map(str, command)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=environment(),
                ) as program:
                    if command[0] == "run":
                        program.stdout.read(1)
                    else:
                        program.stdin.write(b"hello")
                        program.stdin.flush()
                        self.assertRaises(subprocess.TimeoutExpired, program.wait, 0.3)
                    program.send_signal(signal.SIGINT)
                    program.wait(timeout=20)  # stdin stays open: only the signal can have ended it
                    out, err = program.stdout.read(), program.stderr.read()
                if command[0] == "run" and program.returncode == 0:
                    continue  # it had finished before the signal came
                self.assert_refuses(Outcome(command, program.returncode, out, err.decode()))


if __name__ == "__main__":
    unittest.main()
