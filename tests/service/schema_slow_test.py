"""schemathesis makes requests out of /openapi.json, good and bad ones: every answer is of a kind that is described, what
breaks the description is refused, and nothing is a 500."""

import os
import subprocess
import unittest

from client_python import client_folder
from served import SOURCE_DIR, ServiceTest

SECONDS = "60"


class SchemaTest(ServiceTest):
    flags = ("--max-model-len", "256")  # what is asked for without an end is soon answered

    def test_answers_are_as_described(self):
        program = client_folder("schemathesis", "schemathesis==4.32.5") / "st"
        # schema_checks has the check in the place of positive_data_acceptance: no schema says how many tokens a text has.
        command = [program, "run", self.server.url + "/openapi.json", "--phases", "coverage,fuzzing", "--max-time", SECONDS,
                   "--exclude-checks", "positive_data_acceptance", "--seed", "5", "--request-timeout", "20", "--no-color",
                   "--continue-on-failure"]  # fmt: skip
        done = subprocess.run(list(map(str, command)), cwd=self.folder, capture_output=True, text=True, timeout=300,
                              env=os.environ | {"SCHEMATHESIS_HOOKS": str(SOURCE_DIR / "tests/service/schema_checks.py")})
        self.assertEqual(done.returncode, 0, done.stdout[-5000:] + done.stderr[-1000:])
        self.assertIn("Selected: ", done.stdout)
        self.assert_idle()


if __name__ == "__main__":
    unittest.main()
