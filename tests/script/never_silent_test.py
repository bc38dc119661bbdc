"""What would be silently wrong or destroyed: damaged weights, half a pair of scales, layers left over, an output over the model."""

import os
import pathlib
import pty
import select
import subprocess
import termios
import time
import unittest

import checkpoints
from octavo_program import Outcome, ProgramTest, environment, octavo

NAN_BF16 = b"\xc0\x7f"


class NeverSilentTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = checkpoints.make_checkpoint(self.folder / "model")
        self.ids = self.folder / "ids.json"
        checkpoints.write_json(self.ids, [5, 6, 7])

    def change_weights(self, model, change):
        header, data = checkpoints.read_safetensors(model / "model.safetensors")
        data = bytearray(data)
        change(header, data)
        checkpoints.write_safetensors(model / "model.safetensors", header, bytes(data))

    def logits(self, model, output):
        return octavo("eval", "logits", model, "--input-ids-file", self.ids, "--output", output)

    def test_weights_that_are_not_numbers(self):
        for name in ("model.layers.0.self_attn.k_proj.weight", "model.layers.1.mlp.down_proj.weight"):
            with self.subTest(name):
                model = checkpoints.make_checkpoint(self.folder / name)

                def damage(header, data, name=name):
                    at = header[name]["data_offsets"][0]
                    data[at : at + 2] = NAN_BF16

                self.change_weights(model, damage)
                self.assert_refuses(octavo("run", model, "-p", "hello", "--max-tokens", 4), "not finite")
                self.assert_refuses(self.logits(model, self.folder / "out"), "not finite")

    def test_layers_left_out_of_nothing(self):
        done = octavo("run", self.model, "-p", "hello", "--max-tokens", 1, "--kv-cache-dtype-skip-layers", "0")
        self.assertIn("--kv-cache-dtype-skip-layers", done.err)
        self.assertIn("no effect", done.err)

    def test_half_a_pair_of_scales(self):
        model = checkpoints.make_checkpoint(self.folder / "scaled", "llama-fp8-tensor-kv")
        self.change_weights(model, lambda header, data: header.update(inv_freq=header.pop("model.layers.0.self_attn.k_scale")))
        self.assert_refuses(octavo("run", model, "-p", "hello", "--kv-cache-dtype", "fp8"), "layers.0", "K")

    def test_layers_that_the_config_leaves_out(self):
        checkpoints.change_json(self.model / "config.json", num_hidden_layers=2)
        self.assert_refuses(octavo("inspect", self.model), "layers.2", "disagree")

    def test_an_output_that_would_destroy_something(self):
        weights = self.model / "model.safetensors"
        before = weights.read_bytes()
        self.assert_refuses(self.logits(self.model, weights), "is a file of the model")
        text = self.folder / "text"
        text.write_text("hello world")
        for command in (
            ("eval", "nll", self.model, "--text", text, "--output-json", weights),
            ("eval", "kld", self.model, "--text", text, "--kv-cache-dtype", "fp8", "--output-json", weights),
            ("bench", "latency", self.model, "--report", weights),
            ("bench", "throughput", self.model, "--output-json", weights),
            ("bench", "verbs", self.model, "--output-json", weights),
        ):
            with self.subTest(command[:2]):
                self.assert_refuses(octavo(*command), "is a file of the model")
        self.assertEqual(weights.read_bytes(), before)

    def commands_that_write(self, output):
        """Each command that writes a file, with little to do."""
        text = self.folder / "text"
        text.write_text("hello world " * 20)
        small = ("--input-len", 8, "--output-len", 4)
        yield ("eval", "logits", self.model, "--input-ids-file", self.ids, "--output", output)
        yield ("eval", "nll", self.model, "--text", text, "--output-json", output)
        yield ("eval", "kld", self.model, "--text", text, "--kv-cache-dtype", "fp8", "--output-json", output)
        for flag in ("--output-json", "--report"):
            yield ("bench", "latency", self.model, *small, "--num-iters", 1, "--num-iters-warmup", 0, flag, output)
        yield ("bench", "throughput", self.model, *small, "--num-prompts", 2, "--output-json", output)
        yield ("bench", "verbs", self.model, *small, "--num-iters", 1, "--output-json", output)
        yield ("advise", "--kernels", "--output-json", output)

    def test_an_output_that_is_no_file(self):
        for device in ("/dev/null", "/dev/full"):
            for command in self.commands_that_write(device):
                with self.subTest(f"{command[:2]} {device}"):
                    self.assert_refuses(octavo(*command), "not a regular file")
            self.assertTrue(pathlib.Path(device).is_char_device())

    def test_a_full_disk(self):
        """A limit of 0 bytes a file stands for it: nothing is left of what was begun, and what was there stays."""
        output = self.folder / "out"
        for before in (None, "precious"):
            for command in self.commands_that_write(output):
                with self.subTest(f"{command[:2]} {before}"):
                    if before:
                        output.write_text(before)
                    done = subprocess.run(
                        ["bash", "-c", 'ulimit -f 0; exec "$@"', "bash", os.environ["OCTAVO_BINARY"], *map(str, command)],
                        capture_output=True,
                        env=environment(),
                        timeout=60,
                    )
                    self.assert_refuses(Outcome(command, done.returncode, done.stdout, done.stderr.decode()), "cannot write", output)
                    self.assertEqual([path.name for path in self.folder.glob("out*")], ["out"] if before else [])
                    self.assertTrue(not before or output.read_text() == before)


class ChatTest(ProgramTest):
    """`octavo run` at a terminal."""

    def setUp(self):
        super().setUp()
        model = checkpoints.make_checkpoint(self.folder / "model")
        self.terminal, inner = pty.openpty()
        quiet = termios.tcgetattr(inner)
        quiet[3] &= ~termios.ECHO
        termios.tcsetattr(inner, termios.TCSANOW, quiet)
        flags = ("--max-tokens", "2", "--max-model-len", "256", "--temperature", "0")
        self.program = subprocess.Popen(
            [os.environ["OCTAVO_BINARY"], "run", str(model), *flags],
            stdin=inner,
            stdout=inner,
            stderr=inner,
            env=environment(),
        )
        os.close(inner)
        self.addCleanup(self.program.kill)
        self.wait_for_prompt()

    def wait_for_prompt(self, seconds=30):
        """What the program writes until it asks again."""
        seen = b""
        end = time.monotonic() + seconds
        while not seen.endswith(b"> "):
            self.assertLess(time.monotonic(), end, seen)
            if select.select([self.terminal], [], [], 0.1)[0]:
                seen += os.read(self.terminal, 4096)
        return seen.decode(errors="replace")

    def say(self, line):
        os.write(self.terminal, line + b"\n")
        return self.wait_for_prompt()

    def test_turns_refusals_and_the_end(self):
        self.assertIn("answered", self.say(b"hello"))
        self.assertIn("maximum context length", self.say(b"word " * 200))
        self.assertIn("answered", self.say(b"hi"), "a refused message must not burden the next")
        self.assertIn("not valid UTF-8", self.say(b"\xff\xfe"))
        self.say(b"/new")
        self.assertIn("answered", self.say(b"hello"))
        os.write(self.terminal, b"\x04")
        self.assertEqual(self.program.wait(timeout=20), 0)


if __name__ == "__main__":
    unittest.main()
