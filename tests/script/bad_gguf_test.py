"""GGUF files that are truncated, damaged or contradict themselves:
each ends in one sentence that names the thing, and exit code 1."""

import struct
import unittest

import checkpoints
from bad_model import HUGE, BadModelTest


class GgufTest(BadModelTest):
    def setUp(self):
        super().setUp()
        self.file = self.folder / "tiny.gguf"
        self.keys, self.tensors = checkpoints.gguf_parts()

    def refuses_parts(self, keys=None, tensors=None, mention="tiny.gguf", **options):
        checkpoints.write_gguf(self.file, keys or self.keys, tensors or self.tensors, **options)
        self.assert_refuses(self.answer(self.file), mention)

    def test_a_truncated_file(self):
        checkpoints.write_gguf(self.file, self.keys, self.tensors)
        raw = self.file.read_bytes()
        self.assert_succeeds(self.answer(self.file))
        for size in (0, 3, 4, 8, 16, 23, 24, 100, 2000, 12000, len(raw) // 2, len(raw) - 64):
            with self.subTest(size):
                self.file.write_bytes(raw[:size])
                self.assert_refuses(self.answer(self.file), "tiny.gguf")

    def test_a_head_that_cannot_be(self):
        for options in (
            {"magic": b"GGML"},
            {"version": 99},
            {"version": 0},
            {"counts": (HUGE, len(self.keys))},
            {"counts": (len(self.tensors), HUGE)},
            {"counts": (2**64 - 1, 2**64 - 1)},
            {"counts": (len(self.tensors) + 1, len(self.keys))},
        ):
            with self.subTest(str(options)):
                self.refuses_parts(**options)

    def test_a_key_that_cannot_be(self):
        text = checkpoints.STRING
        for name, kind, value in (
            ("general.architecture", text, "house"),
            ("general.architecture", checkpoints.U32, 3),
            ("llama.block_count", text, "three"),
            ("llama.block_count", checkpoints.U32, 2**32 - 1),
            ("llama.embedding_length", checkpoints.U32, 0),
            ("llama.embedding_length", checkpoints.U32, 65),
            ("llama.attention.head_count_kv", checkpoints.U32, 3),
            ("llama.rope.freq_base", checkpoints.F32, float("nan")),
            ("llama.attention.layer_norm_rms_epsilon", checkpoints.F32, float("inf")),
            ("tokenizer.ggml.model", text, "abacus"),
            ("tokenizer.ggml.pre", text, "no-such-split"),
            ("tokenizer.ggml.tokens", checkpoints.ARRAY, (text, ["only one"])),
            ("tokenizer.ggml.tokens", text, "abc"),
            ("tokenizer.ggml.token_type", checkpoints.ARRAY, (checkpoints.I32, [1])),
            ("tokenizer.ggml.merges", checkpoints.ARRAY, (text, ["x"])),
            ("tokenizer.ggml.eos_token_id", checkpoints.U32, 9999),
            ("general.alignment", checkpoints.U32, 0),
            ("general.alignment", checkpoints.U32, 7),
        ):
            with self.subTest(f"{name}={value}"):
                keys = [key for key in self.keys if key[0] != name] + [(name, kind, value)]
                self.refuses_parts(keys=keys, mention="")

    def test_a_number_out_of_range_is_named_as_the_file_names_it(self):
        for name, kind, value in (
            ("llama.block_count", checkpoints.U32, 2**32 - 1),
            ("llama.embedding_length", checkpoints.U32, 0),
            ("llama.feed_forward_length", checkpoints.U32, 0),
            ("llama.attention.head_count_kv", checkpoints.U32, 3),
            ("llama.attention.layer_norm_rms_epsilon", checkpoints.F32, float("inf")),
            ("llama.rope.freq_base", checkpoints.F32, -1.0),
        ):
            with self.subTest(f"{name} {value}"):
                keys = [key for key in self.keys if key[0] != name] + [(name, kind, value)]
                self.refuses_parts(keys=keys, mention=name)

    def test_a_missing_key(self):
        for name in (
            "general.architecture",
            "llama.block_count",
            "llama.embedding_length",
            "llama.attention.head_count",
            "llama.attention.layer_norm_rms_epsilon",
            "tokenizer.ggml.tokens",
        ):
            with self.subTest(name):
                self.refuses_parts(keys=[key for key in self.keys if key[0] != name], mention=name)

    def test_a_key_twice(self):
        self.refuses_parts(keys=self.keys + [self.keys[2]], mention=self.keys[2][0])

    def test_lengths_beyond_the_file(self):
        checkpoints.write_gguf(self.file, self.keys, self.tensors)
        raw = bytearray(self.file.read_bytes())
        for place in (24, 24 + 8 + len("general.architecture") + 4):  # length of the first key's name, and of its value
            for length in (HUGE, 2**64 - 1, len(raw)):
                with self.subTest(f"{length} at {place}"):
                    damaged = bytearray(raw)
                    struct.pack_into("<Q", damaged, place, length)
                    self.file.write_bytes(damaged)
                    self.assert_refuses(self.answer(self.file), "tiny.gguf")

    def test_a_tensor_that_cannot_be(self):
        name, dims, kind, raw = self.tensors[0]
        for changed in (
            (name, dims, 77, raw),
            (name, dims, 2**32 - 1, raw),
            (name, [HUGE, 8], kind, raw),
            (name, [2**32, 2**32], kind, raw),
            (name, [0, 0], kind, raw),
            (name, [1] * 9, kind, raw),
            (name, dims, kind, raw, HUGE),
            (name, dims, kind, raw, 2**64 - 32),
            (name, dims, kind, raw, 7),
            (name, [dims[0] + 1, dims[1]], kind, raw),
            ("token_other", dims, kind, raw),
            (self.tensors[1][0], dims, kind, raw),
        ):
            with self.subTest(str(changed[:3] + changed[4:])):
                self.refuses_parts(tensors=[changed, *self.tensors[1:]])

    def test_two_tensors_in_the_same_place(self):
        first, second, *others = self.tensors
        self.refuses_parts(tensors=[first, (*second, 0), *others])

    def test_random_damage_never_crashes(self):
        checkpoints.write_gguf(self.file, self.keys, self.tensors)
        raw = self.file.read_bytes()
        for place in [*range(0, 1400, 41), *range(1400, 16000, 1777)]:
            for byte in (0, 0x7F, 0xFF):
                self.file.write_bytes(raw[:place] + bytes([byte]) + raw[place + 1 :])
                outcome = self.answer(self.file)
                if outcome.code == 0:
                    self.assert_succeeds(outcome)
                else:
                    self.assert_refuses(outcome)


if __name__ == "__main__":
    unittest.main()
