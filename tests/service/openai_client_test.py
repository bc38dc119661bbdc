"""The openai package against the server."""

import unittest

from client_python import client_folder, run_client
from served import ServiceTest


class OpenAiClientTest(ServiceTest):
    flags = ("--api-key", "secret", "--max-num-seqs", "4")

    def test_the_client_finds_what_it_expects(self):
        run_client(client_folder("openai", "openai==3.57.0") / "python3", "openai_client.py", self.server.url)
        self.assert_idle()


if __name__ == "__main__":
    unittest.main()
