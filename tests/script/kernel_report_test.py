"""scripts/kernel_report.py on made-up words of ptxas: what passes, and each kind of offence; and how reports are kept."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/kernel_report.py"
# octavo::cuda::portable::decode_kernel<128, (octavo::KvElem)2>(int), and one in a nameless namespace of octavo::cuda.
DECODE = "_ZN6octavo4cuda8portable13decode_kernelILi128ELNS_6KvElemE2EEEvi"
COPY = "_ZN6octavo4cuda39_GLOBAL__N__7499e3d9_7_norm_cu_7774a50711copy_kernelIfEEvi"
BUDGETS = """\
# a comment, and a line without words

128 0 portable::decode_kernel<128,2>
40  0 copy_kernel<*>
"""
SERIALISED = (
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
    f"insufficient register resources for the wgmma pipeline in the function '{DECODE}'\n"
)


def said(symbol, registers=128, stores=0, loads=0, architecture="sm_90a"):
    return (
        "ptxas info    : 0 bytes gmem\n"
        f"ptxas info    : Compiling entry function '{symbol}' for '{architecture}'\n"
        f"ptxas info    : Function properties for {symbol}\n"
        f"    {stores + loads} bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"
        f"ptxas info    : Used {registers} registers, used 1 barriers, 128 bytes smem, 456 bytes cmem[0]\n"
        "ptxas info    : Compile time = 23.996 ms\n"
    )


CLEAN = said(DECODE) + said(DECODE, architecture="sm_100") + said(COPY, registers=32)


class KernelReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_script(self, *arguments):
        return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=60)

    def report(self, log, budgets=BUDGETS, *flags):
        """The exit code and the lines for one log."""
        log_file, table = self.folder / "build.log", self.folder / "budgets.txt"
        log_file.write_text(log)
        table.write_text(budgets)
        done = self.run_script("--budgets", table, *flags, log_file)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def assert_offence(self, log, *mentions, budgets=BUDGETS):
        code, lines = self.report(log, budgets)
        self.assertEqual((code, len(lines)), (1, 2), lines)
        for mention in mentions:
            self.assertIn(mention, lines[0])
        self.assertIn("one offence", lines[1])

    def test_kernels_within_their_budgets_pass(self):
        code, lines = self.report(CLEAN)
        self.assertEqual((code, lines), (0, ["kernel_report.py: 3 kernels for sm_100, sm_90a, no offence"]))

    def test_a_table_on_request(self):
        _, lines = self.report(CLEAN, BUDGETS, "--table")
        self.assertEqual(lines[0].split(), ["32", "registers", "0", "spilled", "sm_90a", "copy_kernel<float>"])
        self.assertEqual(len(lines), 4)

    def test_spills(self):
        for spilt in ({"stores": 8, "loads": 4}, {"stores": 4, "loads": 8}):
            self.assert_offence(
                CLEAN + said(DECODE, architecture="sm_80", **spilt), "portable::decode_kernel<128,2> (sm_80)", "8 bytes"
            )

    def test_spills_that_are_stated_pass_up_to_what_is_stated(self):
        stated = BUDGETS.replace("128 0 ", "128 8 ").replace("<128,2>", "<128,2> waits for narrower tiles")
        self.assertEqual(self.report(CLEAN + said(DECODE, stores=8), stated)[0], 0)
        self.assert_offence(CLEAN + said(DECODE, stores=12), "12 bytes", "is 8", budgets=stated)
        self.assert_offence(CLEAN, "reason", budgets=BUDGETS.replace("128 0 ", "128 8 "))

    def test_more_registers_than_stated(self):
        self.assert_offence(CLEAN + said(COPY, registers=41), "copy_kernel<float>", "41 registers", "40")

    def test_a_serialised_product(self):
        self.assert_offence(CLEAN + SERIALISED, "portable::decode_kernel<128,2>", "C7510")
        # Without its function's name a note still counts.
        self.assert_offence(CLEAN + "ptxas info : (C7514) wgmma serialized\n", "C7514")

    def test_a_kernel_without_a_row(self):
        self.assert_offence(CLEAN + said(DECODE.replace("128", "256")), "decode_kernel<256,2>", "no row")

    def test_a_row_without_a_kernel(self):
        self.assert_offence(CLEAN, "budgets.txt:5", "gone_kernel", budgets=BUDGETS + "64 0 gone_kernel\n")

    def test_a_row_that_is_none(self):
        for row in ("many 0 gone_kernel", "64 gone_kernel", "64 0"):
            self.assert_offence(CLEAN, "budgets.txt:5", row, budgets=BUDGETS + row + "\n")

    def test_a_kernel_of_which_nothing_is_said(self):
        silent = f"ptxas info    : Compiling entry function '{COPY}' for 'sm_80'\n"
        self.assert_offence(CLEAN + silent, "copy_kernel<float> (sm_80)", "-Xptxas=-v")

    def test_an_empty_log_is_no_report(self):
        for log in ("", "[1/2] Building CUDA object norm.cu.o\n"):
            self.assert_offence(log, "no kernel is reported")

    def test_a_file_that_is_not_there(self):
        done = self.run_script(self.folder / "none")
        self.assertEqual((done.returncode, done.stdout, len(done.stderr.splitlines())), (1, "", 1))

    def test_the_compilers_words_are_kept_beside_the_object(self):
        folder, table = self.folder / "build", self.folder / "budgets.txt"
        folder.mkdir()
        table.write_text(BUDGETS)
        compiler = "import sys; sys.stderr.write(sys.argv[1]); open(sys.argv[3], 'w').close(); sys.exit(int(sys.argv[4]))"
        build = ("--keep", sys.executable, "-c", compiler)
        done = self.run_script(*build, CLEAN + "a warning\n" + SERIALISED, "-o", folder / "a.o", "0")
        self.assertEqual((done.returncode, done.stderr), (0, "a warning\n" + SERIALISED))
        self.assertEqual((folder / "a.o.ptxas").read_text(), CLEAN + SERIALISED)
        self.assertEqual(self.run_script("--budgets", table, folder).returncode, 1)
        self.run_script(*build, CLEAN, "-o", folder / "a.o", "0")
        self.assertEqual(self.run_script("--budgets", table, folder).returncode, 0)
        # A compiler that fails says why, and ends as it ended.
        done = self.run_script(*build, "an error\n", "-o", folder / "b.o", "3")
        self.assertEqual((done.returncode, done.stderr), (3, "an error\n"))
        # What an object that is gone had reported counts no more.
        (folder / "a.o").unlink()
        self.assertIn("no kernel is reported", self.run_script("--budgets", table, folder).stdout)


if __name__ == "__main__":
    unittest.main()
