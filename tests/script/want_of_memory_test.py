"""A process that may have only so much memory, from less than it needs to begin to more than it needs to answer:
one sentence wherever it ends, and no answer that is not whole."""

import os
import subprocess
import unittest

import checkpoints
from octavo_program import Outcome, ProgramTest, environment

KIB = range(24000, 72000, 1600)


class WantOfMemoryTest(ProgramTest):
    def run_within(self, kib, *arguments):
        done = subprocess.run(
            ["bash", "-c", f'ulimit -v {kib}; exec "$@"', "bash", os.environ["OCTAVO_BINARY"], *map(str, arguments)],
            capture_output=True,
            env=environment(),
            timeout=60,
        )
        return Outcome(arguments, done.returncode, done.stdout, done.stderr.decode(errors="replace"))

    def test_at_any_point(self):
        model = checkpoints.make_checkpoint(self.folder / "model")
        flags = ("--max-tokens", 4, "--temperature", 0, "--threads", 2, "--kv-cache-memory-bytes", "8M")
        answers, refusals = set(), 0
        for kib in (*KIB, 4000000):
            outcome = self.run_within(kib, "run", model, "-p", "hello", *flags)
            if outcome.code == 0:
                answers.add(outcome.out)
                continue
            with self.subTest(kib):
                self.assert_refuses(outcome)
                self.assertEqual(outcome.out, b"")
                refusals += 1
        self.assertEqual(len(answers), 1)
        self.assertGreater(refusals, 3)


if __name__ == "__main__":
    unittest.main()
