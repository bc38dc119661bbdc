"""Runs the built program and asserts how it ends. Its path is in the environment variable OCTAVO_BINARY."""

import dataclasses
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
LOG_LINE = re.compile(r"^\d\d:\d\d:\d\d (debug|info|warning|error) ")


@dataclasses.dataclass
class Outcome:
    arguments: list
    code: int
    out: bytes
    err: str

    @property
    def text(self):
        return self.out.decode()

    def __str__(self):
        command = " ".join(map(str, self.arguments))
        return f"octavo {command}\nexit code {self.code}\nstdout: {self.out[:500]!r}\nstderr: {self.err[-1500:]}"


def environment(**changes):
    """Ours, without what would let octavo find the caller's own models."""
    merged = os.environ | {"HF_HOME": "/nonexistent", "XDG_CACHE_HOME": "/nonexistent"} | changes
    if "HF_HUB_CACHE" not in changes:
        merged.pop("HF_HUB_CACHE", None)
    return merged


def octavo(*arguments, stdin=b"", stdout=subprocess.PIPE, timeout=240, **changes):
    done = subprocess.run(
        [os.environ["OCTAVO_BINARY"], *map(str, arguments)],
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=timeout,
        env=environment(**changes),
    )
    return Outcome(list(arguments), done.returncode, done.stdout or b"", done.stderr.decode(errors="replace"))


class ProgramTest(unittest.TestCase):
    """A test with a folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_refuses(self, outcome, *mentions, code=1):
        """One sentence on stderr beside log lines, this exit code, and each of these in the sentence."""
        self.assertEqual(outcome.code, code, outcome)
        rest = [line for line in outcome.err.splitlines() if not LOG_LINE.match(line)]
        self.assertEqual(len(rest), 1, outcome)
        self.assertTrue(rest[0].startswith("octavo: "), outcome)
        self.assertGreater(len(rest[0].split()), 3, outcome)
        self.assertLess(len(rest[0]), 1000, outcome)
        self.assertNotRegex(rest[0], r"([^\s:/]{2,}): \1\b", outcome)  # a name that two floors have added
        for mention in mentions:
            self.assertIn(str(mention), rest[0], outcome)
        return rest[0]

    def assert_succeeds(self, outcome):
        self.assertEqual(outcome.code, 0, outcome)
        strange = [line for line in outcome.err.splitlines() if line.startswith("octavo: ")]
        self.assertFalse(strange, outcome)
        return outcome
