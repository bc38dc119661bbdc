"""advise --kernels and bench kernels: what they say in a program with and without a table of kernels, and bad input.

What a GPU alone can show is checked on one; here a program with the NVIDIA wing lists its rows without a device.
"""

import json
import unittest

from octavo_program import ProgramTest, octavo

WITHOUT_CUDA = "without CUDA"


class AdviseKernelsTest(ProgramTest):
    def inventory(self):
        file = self.folder / "kernels.json"
        out = self.assert_succeeds(octavo("advise", "--kernels", "--output-json", file)).text
        return json.loads(file.read_text()), out

    def test_lists_what_the_program_brings_or_says_that_there_is_nothing(self):
        report, out = self.inventory()
        self.assertEqual(set(report), {"kernels", "note"})
        if not report["kernels"]:
            self.assertIn(WITHOUT_CUDA, report["note"])
            self.assertEqual(out, report["note"] + "\n")
            return
        names = [row["row"] for row in report["kernels"]]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("portable.decode.d128.e4m3", names)
        for row in report["kernels"]:
            self.assertIn(row["row"], out)
            self.assertIn(row["phase"], ("decode", "prefill", "kv_write", "linear"))
            # Without a device the note says why its figures are missing.
            if row["architecture"].startswith("sm_"):
                self.assertEqual(row["registers"] is None, report["note"] != "", row)

    def test_bad_input(self):
        self.assert_refuses(octavo("advise"), "--kernels", code=2)
        self.assert_refuses(octavo("advise", "--kernel"), "--kernels", code=2)
        self.assert_refuses(octavo("advise", "--kernels", self.folder), self.folder, code=2)
        nowhere = self.folder / "no/such/out.json"
        self.assert_refuses(octavo("advise", "--kernels", "--output-json", nowhere), nowhere)


class BenchKernelsTest(ProgramTest):
    def test_the_processor_has_another_bench(self):
        self.assert_refuses(octavo("bench", "kernels", "--device", "cpu"), "bench verbs")

    def test_bad_input(self):
        self.assert_refuses(octavo("bench", "kernels", self.folder), self.folder, code=2)
        self.assert_refuses(octavo("bench", "kernels", "--row", "x"), "--rows", code=2)
        self.assert_refuses(octavo("bench", "kernels", "--device", "tpu"), "--device", code=2)
        nowhere = self.folder / "no/such/out"
        for flag in ("--output-json", "--report"):
            self.assert_refuses(octavo("bench", "kernels", "--device", "cpu", flag, nowhere), nowhere)

    def test_a_gpu_that_is_asked_for_is_there_or_the_reason_is(self):
        outcome = octavo("bench", "kernels", "--device", "cuda", "--rows", "no such row")
        self.assert_refuses(outcome)


class HelpTest(ProgramTest):
    def test_both_explain_themselves(self):
        for words, flags in (("advise", ("--kernels", "--output-json")), ("bench kernels", ("--rows", "--report"))):
            out = self.assert_succeeds(octavo(*words.split(), "--help")).text
            for flag in flags:
                self.assertIn(flag, out)
            self.assertNotIn("MODEL", out)
        self.assertIn("kernels", self.assert_succeeds(octavo("bench", "--help")).text)


if __name__ == "__main__":
    unittest.main()
