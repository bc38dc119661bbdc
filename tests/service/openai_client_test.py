"""The openai package as it comes from PyPI, against the server. Its environment is made once, in the build folder."""

import os
import pathlib
import subprocess
import sys
import unittest

from served import ServiceTest

PINNED = "openai==3.57.0"
SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]
CLIENT = pathlib.Path(__file__).resolve().parent / "openai_client.py"


def client_python():
    """A Python that has the package."""
    folder = SOURCE_DIR / "build" / "clients" / PINNED.replace("==", "-")
    python = folder / "bin" / "python3"
    marker = folder / "complete"
    if not marker.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--retries", "1", "--disable-pip-version-check", PINNED]
        done = subprocess.run(pip, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"the Python registry did not give {PINNED}: {done.stderr[-500:]}")
        marker.write_text("")
    return python


class OpenAiClientTest(ServiceTest):
    flags = ("--api-key", "secret", "--max-num-seqs", "4")

    def test_the_client_finds_what_it_expects(self):
        python = client_python()
        clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        done = subprocess.run([str(python), str(CLIENT), self.server.url], capture_output=True, text=True, timeout=150,
                              env=clean)
        self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr[-3000:])
        self.assertIn("all good", done.stdout)
        self.assert_idle()


if __name__ == "__main__":
    unittest.main()
