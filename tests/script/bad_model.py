"""A checkpoint to be damaged, and the command that reads it whole.

Every case is tried with run, which reads everything, so nothing passes because it was never looked at.
"""

import shutil

import checkpoints
from octavo_program import ProgramTest, octavo

HUGE = 2**62


class BadModelTest(ProgramTest):
    golden = "llama-base"

    def setUp(self):
        super().setUp()
        self.model = checkpoints.make_checkpoint(self.folder / "model", self.golden)
        self.config = self.model / "config.json"
        self.weights = self.model / "model.safetensors"

    def again(self, name=None):
        """The whole checkpoint again, before the next case damages it."""
        shutil.rmtree(self.model)
        checkpoints.make_checkpoint(self.model, name or self.golden)

    def change_config(self, **changes):
        """The whole checkpoint again, with other keys in its config, or in the text part of that; None removes one."""
        self.again()
        config = checkpoints.read_json(self.config)
        part = config.get("text_config", config)
        for key, value in changes.items():
            part.pop(key, None)
            if value is not None:
                part[key] = value
        checkpoints.write_json(self.config, config)

    def refuses_without(self, *keys):
        """Each of these keys is missed by name."""
        for key in keys:
            with self.subTest(key):
                self.change_config(**{key: None})
                self.refuses(key)

    def answer(self, model=None, *flags):
        return octavo("run", model or self.model, "-p", "hello", "--max-tokens", 2, *flags)

    def refuses(self, *mentions):
        self.assert_refuses(self.answer(), *mentions)
