"""Wrong usage ends in one sentence and exit code 2; a flag whose value does not fit the model ends in 1."""

import unittest

import checkpoints
from octavo_program import ProgramTest, octavo


class BadFlagsTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = checkpoints.make_checkpoint(self.folder / "model")

    def run_with(self, *flags):
        return octavo("run", self.model, "-p", "hello", "--max-tokens", 2, *flags)

    def test_an_unknown_flag_names_the_nearest(self):
        for flag, nearest in (
            ("--kv-cache-dtpye", "--kv-cache-dtype"),
            ("--max-model-length", "--max-model-len"),
            ("--tempereture", "--temperature"),
            ("--kv_cache_dtyp=fp8", "--kv-cache-dtype"),
        ):
            with self.subTest(flag):
                self.assert_refuses(self.run_with(flag), nearest, code=2)

    def test_an_unknown_command_names_the_nearest(self):
        self.assert_refuses(octavo("inspekt", self.model), "inspect", code=2)
        self.assert_refuses(octavo("eval", "logit", self.model), "logits", code=2)

    def test_no_command(self):
        self.assert_refuses(octavo(), code=2)
        self.assert_refuses(octavo("eval"), "logits", code=2)

    def test_what_a_command_cannot_do_without(self):
        self.assert_refuses(octavo("inspect"), code=2)
        self.assert_refuses(octavo("tokenize"), code=2)
        self.assert_refuses(octavo("eval", "logits", self.model), "--input-ids-file", code=2)

    def test_a_flag_without_its_value(self):
        for flag in ("--dtype", "--max-tokens", "--kv-cache-dtype"):
            with self.subTest(flag):
                self.assert_refuses(self.run_with(flag), flag, code=2)

    def test_values_that_are_none(self):
        for flag, value in (
            ("--dtype", "float64"),
            ("--kv-cache-dtype", "fp4"),
            ("--kv-cache-dtype", "int8:"),
            ("--kv-cache-dtype", "int8:fp8:fp8"),
            ("--kv-cache-transform", "fourier"),
            ("--max-model-len", "many"),
            ("--max-model-len", "-1"),
            ("--max-model-len", "0"),
            ("--max-model-len", "99999999999999999999"),
            ("--max-model-len", "8kk"),
            ("--block-size", "0"),
            ("--block-size", "7"),
            ("--kv-cache-memory-bytes", "-5"),
            ("--max-num-batched-tokens", "0"),
            ("--max-num-seqs", "0"),
            ("--temperature", "-1"),
            ("--temperature", "nan"),
            ("--temperature", "warm"),
            ("--top-p", "1.5"),
            ("--top-p", "0"),
            ("--top-k", "-7"),
            ("--max-tokens", "0"),
            ("--threads", "0"),
            ("--threads", "-1"),
            ("--cpu-isa", "mmx"),
            ("--device", "tpu"),
            ("--load-format", "pickle"),
            ("--seed", "x"),
            ("--hf-overrides", "{"),
            ("--hf-overrides", "[1]"),
            ("--rope-scaling", "yarn"),
            ("--rope-scaling", "3"),
            ("--kv-cache-dtype-skip-layers", "first"),
            ("--kv-cache-dtype-skip-layers", "2-"),
            ("--kv-cache-dtype-skip-layers", ""),
        ):
            with self.subTest(f"{flag} {value}"):
                outcome = self.run_with(f"{flag}={value}")
                self.assertIn(outcome.code, (1, 2), outcome)
                self.assert_refuses(outcome, flag, code=outcome.code)

    def test_a_layer_that_is_not_there(self):
        for layers in ("3", "-4", "0,17", "1-3", "sliding_window"):
            with self.subTest(layers):
                outcome = self.run_with("--kv-cache-dtype", "fp8", f"--kv-cache-dtype-skip-layers={layers}")
                self.assertIn(outcome.code, (1, 2), outcome)
                self.assert_refuses(outcome, code=outcome.code)

    def test_values_that_do_not_fit_the_model(self):
        for flags in (
            ("--hf-overrides", '{"num_attention_heads": 3}'),
            ("--hf-overrides", '{"hidden_size": "wide"}'),
            ("--rope-scaling", '{"rope_type": "spiral", "factor": 2}'),
            ("--chat-template", "{% for %}"),
            ("--chat-template", "{{ messages | no_such_filter }}"),
            ("--load-format", "gguf"),
        ):
            with self.subTest(flags):
                outcome = self.run_with(*flags)
                self.assertIn(outcome.code, (1, 2), outcome)
                self.assert_refuses(outcome, code=outcome.code)


if __name__ == "__main__":
    unittest.main()
