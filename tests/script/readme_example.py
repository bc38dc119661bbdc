"""README's C++ example answers on a tiny checkpoint, the same twice, and says in one sentence what it cannot open."""

import pathlib
import subprocess
import sys
import tempfile

import checkpoints

with tempfile.TemporaryDirectory() as folder:
    model = checkpoints.make_checkpoint(pathlib.Path(folder) / "model")

    def example(*arguments):
        return subprocess.run([sys.argv[1], *arguments], capture_output=True, timeout=60)

    first, second = example(model, "hello world"), example(model, "hello world")
    assert first.returncode == 0, first
    assert len(first.stdout) > 0 and first.stdout == second.stdout, (first.stdout, second.stdout)
    missing = example("nowhere", "hello")
    assert missing.returncode == 1 and b"nowhere" in missing.stderr, missing
