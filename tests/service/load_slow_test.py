"""Under load: streams beside long prompts, and thousands of streams whose readers are slow or read nothing. All are answered and
memory is bounded; how quickly they are is measured by scripts/bench-serve, whose parts these are."""

import os
import pathlib
import sys
import tempfile
import unittest

from served import SOURCE_DIR, checkpoints

sys.path.insert(0, str(SOURCE_DIR / "scripts"))
import bench_serve  # noqa: E402

MODEL = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "octavo/SmolLM2-135M-Instruct.Q4_1.gguf"


class LoadTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tiny = checkpoints.make_checkpoint(pathlib.Path(folder.name) / "tiny")

    def figures(self, rows):
        found = {row.name: row.value for row in rows}
        print("\n".join(f"{name}: {value:.3g}" for name, value in found.items()))
        return found

    def test_streams_that_nobody_reads_take_no_memory_and_probes_are_answered(self):
        found = self.figures(bench_serve.measure_idle(self.tiny))
        (above,) = (value for name, value in found.items() if name.startswith("memory above"))
        self.assertLess(above, 200)

    def test_streams_and_long_prompts_both_go_on(self):
        found = self.figures(bench_serve.measure_pacing(MODEL, seconds=20))
        self.assertGreater(found["gaps measured"], 4 * 20)
        self.assertGreater(found["prompt tokens meanwhile"], 0)

    def test_what_the_server_itself_costs_can_be_told(self):
        parts = (bench_serve.measure_overhead(self.tiny), bench_serve.measure_first_step(MODEL), bench_serve.measure_tokenizing(MODEL))
        for part in parts:
            self.assertTrue(self.figures(part))


if __name__ == "__main__":
    unittest.main()
