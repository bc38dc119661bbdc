"""scripts/demo and scripts/test: their usage, and how the reports of the test runs are read."""

import pathlib
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
REPORT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="x">
\t<testcase name="Ledger.Shares  # GetParam() = &quot;a b&quot;" classname="a" time="0.1" status="run">
\t\t<system-out>&lt;testcase status="fail"</system-out>
\t</testcase>
\t<testcase name="Ledger.Fails" classname="b" time="0.1" status="fail">
\t\t<failure message=""/>
\t</testcase>
\t<testcase name="engine_test_NOT_BUILT" classname="c" time="0" status="notrun">
\t\t<skipped message="Unable to find executable"/>
\t</testcase>
\t<testcase name="Amx.Needs" classname="d" time="0.1" status="notrun">
\t\t<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
\t</testcase>
\t<testcase name="script.off" classname="e" time="0" status="disabled">
\t</testcase>
</testsuite>
"""


def run(*arguments):
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60)


class ScriptsTest(unittest.TestCase):
    def test_help_says_how_they_are_called(self):
        for script in ("demo", "test", "bench-cpu", "bench-serve"):
            done = run(SCRIPTS / script, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(f"scripts/{script} [", done.stdout)

    def test_wrong_usage_is_one_sentence(self):
        for arguments in (("demo", "--quick"), ("test", "--quick"), ("test", "--only"), ("test", "--only", "gpu"),
                          ("bench-serve", "--only"), ("bench-serve", "--quick")):
            done = run(SCRIPTS / arguments[0], *arguments[1:])
            self.assertEqual((done.returncode, done.stdout), (2, ""), arguments)
            self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_a_report_of_ctest_is_read_test_by_test(self):
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as report:
            report.write(REPORT)
            report.flush()
            function = run("sed", "-n", "/^read_report() {/,/^}/p", SCRIPTS / "test").stdout
            done = run("bash", "-c", f'{function}\nread_report "$1"', "bash", report.name)
        self.assertEqual(
            done.stdout.splitlines(),
            [
                "passed Ledger.Shares",
                "failed Ledger.Fails",
                "failed engine_test_NOT_BUILT",
                "skipped Amx.Needs",
                "skipped script.off",
            ],
        )


if __name__ == "__main__":
    unittest.main()
