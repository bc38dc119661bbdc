"""A checkpoint to be damaged, and the command that reads it whole.

Every case is tried with run, which reads everything, so nothing passes because it was never looked at.
"""

import shutil

import checkpoints
from octavo_program import ProgramTest, octavo

HUGE = 2**62


class BadModelTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = checkpoints.make_checkpoint(self.folder / "model")
        self.config = self.model / "config.json"
        self.weights = self.model / "model.safetensors"

    def again(self, name="llama-base"):
        """The whole checkpoint again, before the next case damages it."""
        shutil.rmtree(self.model)
        checkpoints.make_checkpoint(self.model, name)

    def answer(self, model=None, *flags):
        return octavo("run", model or self.model, "-p", "hello", "--max-tokens", 2, *flags)

    def refuses(self, *mentions):
        self.assert_refuses(self.answer(), *mentions)
