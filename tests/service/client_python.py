"""A Python with clients as they come from PyPI, pinned. Its environment is made once, in the build folder."""

import fcntl
import os
import pathlib
import subprocess
import sys

SOURCE_DIR = pathlib.Path(__file__).resolve().parents[2]


def client_folder(name, *pinned):
    """The folder of programs of an environment that has these packages. Tests that run at once make it once."""
    folder = SOURCE_DIR / "build" / "clients" / name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        make_environment(folder, pinned)
    return folder / "bin"


def make_environment(folder, pinned):
    marker = folder / "complete"
    wanted = "\n".join(pinned)
    if not marker.exists() or marker.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin/python3"), "-m", "pip", "install", "--quiet", "--retries", "1",
               "--disable-pip-version-check", *pinned]  # fmt: skip
        done = subprocess.run(pip, capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"the Python registry did not give {', '.join(pinned)}: {done.stderr[-500:]}")
        marker.write_text(wanted)


def run_client(python, script, *arguments, timeout=500):
    """Runs a script of this folder without the caller's proxies; its output, or what went wrong."""
    clean = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    command = [str(python), str(SOURCE_DIR / "tests/service" / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=clean)
    if done.returncode != 0 or "all good" not in done.stdout:
        raise AssertionError(done.stdout[-2000:] + done.stderr[-3000:])
