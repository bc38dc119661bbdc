"""Safetensors files that are truncated, damaged or contradict the config:
each ends in one sentence that names the thing, and exit code 1."""

import json
import struct
import unittest

import checkpoints
from bad_model import HUGE, BadModelTest

EMBEDDING = "model.embed_tokens.weight"
UP = "model.layers.1.mlp.up_proj.weight"


class SafetensorsTest(BadModelTest):
    def rewrite(self, change):
        header, data = checkpoints.read_safetensors(self.weights)
        data = bytearray(data)
        change(header, data)
        checkpoints.write_safetensors(self.weights, header, bytes(data))

    def test_a_truncated_file(self):
        raw = self.weights.read_bytes()
        for size in (0, 1, 7, 8, 9, 100, len(raw) // 2, len(raw) - 1):
            with self.subTest(size):
                self.weights.write_bytes(raw[:size])
                self.refuses("model.safetensors")

    def test_bytes_behind_the_last_tensor(self):
        self.weights.write_bytes(self.weights.read_bytes() + b"\0" * 64)
        self.refuses("model.safetensors")

    def test_a_header_length_that_cannot_be(self):
        raw = self.weights.read_bytes()
        for size in (0, 1, len(raw), HUGE, 2**64 - 1, 2**63):
            with self.subTest(size):
                self.weights.write_bytes(struct.pack("<Q", size) + raw[8:])
                self.refuses("model.safetensors")

    def test_a_header_that_is_no_table_of_tensors(self):
        _, data = checkpoints.read_safetensors(self.weights)
        for text in (
            "{}",
            "[]",
            "{",
            '"x"',
            '{"a": 1}',
            '{"a": {}}',
            '{"a": {"dtype": "F32", "shape": [1]}}',
            "[" * 100000,
            '{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0]}}',
            '{"a": {"dtype": 1, "shape": [1], "data_offsets": [0, 4]}}',
        ):
            with self.subTest(text[:60]):
                checkpoints.write_safetensors(self.weights, text, data)
                self.refuses("model.safetensors")

    def test_an_entry_that_cannot_be(self):
        for field, value in (
            ("dtype", "F31"),
            ("dtype", None),
            ("shape", [512, 65]),
            ("shape", [512, -64]),
            ("shape", [HUGE, 4]),
            ("shape", [2**32, 2**32]),
            ("shape", [512, 64.5]),
            ("shape", "512"),
            ("shape", [512] * 40),
            ("data_offsets", [0, HUGE]),
            ("data_offsets", [100, 4]),
            ("data_offsets", [-4, 65532]),
            ("data_offsets", [2**64 - 65536, 2**64]),
            ("data_offsets", [0, 1, 2]),
        ):
            with self.subTest(f"{field}={value}"):
                self.again()
                self.rewrite(lambda header, data: header[EMBEDDING].__setitem__(field, value))
                self.refuses("model.safetensors", EMBEDDING)

    def test_two_tensors_in_the_same_place(self):
        def overlap(header, data):
            header["model.layers.0.self_attn.q_proj.weight"]["data_offsets"] = header[
                "model.layers.1.self_attn.q_proj.weight"
            ]["data_offsets"]

        self.rewrite(overlap)
        self.refuses("model.safetensors")

    def test_a_name_twice(self):
        header, data = checkpoints.read_safetensors(self.weights)
        text = json.dumps(header)
        checkpoints.write_safetensors(self.weights, text[:-1] + f', "{UP}": {json.dumps(header[UP])}}}', data)
        self.refuses(UP)

    def test_a_missing_tensor(self):
        self.rewrite(lambda header, data: header.__setitem__("model.layers.1.mlp.other.weight", header.pop(UP)))
        self.refuses("model.layers.1.mlp")

    def test_a_shape_that_the_model_does_not_have(self):
        self.rewrite(lambda header, data: header[UP].__setitem__("shape", header[UP]["shape"][::-1]))
        self.refuses(UP)

    def test_a_scale_that_belongs_nowhere_or_cannot_be(self):
        for name, shape, numbers in (
            ("model.layers.9.self_attn.k_scale", [], [1.0]),
            ("model.layers.0.self_attn.k_scale", [7], [1.0] * 7),
            ("model.layers.0.self_attn.k_scale", [], [float("nan")]),
            ("model.layers.0.self_attn.v_scale", [], [0.0]),
            ("model.layers.0.self_attn.k_scale", [], [-1.0]),
            ("model.layers.0.self_attn.z_scale", [], [1.0]),
        ):
            with self.subTest(f"{name} {shape} {numbers[:1]}"):
                self.again()

                def add(header, data):
                    header[name] = {
                        "dtype": "F32",
                        "shape": shape,
                        "data_offsets": [len(data), len(data) + 4 * len(numbers)],
                    }
                    data += struct.pack(f"<{len(numbers)}f", *numbers)

                self.rewrite(add)
                self.assert_refuses(self.answer(self.model, "--kv-cache-dtype", "fp8"), name)

    def test_no_weights(self):
        self.weights.unlink()
        self.refuses(self.model)

    def test_shards(self):
        index = self.model / "model.safetensors.index.json"
        header, data = checkpoints.read_safetensors(self.weights)
        names = [name for name in header if name != "__metadata__"]
        shard = "model-00001-of-00002.safetensors"
        for weight_map, mention in (
            ({name: shard for name in names}, shard),
            ({name: "../" + shard for name in names}, shard),
            ({name: 5 for name in names}, "index.json"),
            ([], "index.json"),
            (None, "index.json"),
        ):
            with self.subTest(str(weight_map)[:60]):
                if self.weights.exists():
                    self.weights.unlink()
                checkpoints.write_json(index, {"metadata": {}, "weight_map": weight_map})
                self.refuses(mention)
        checkpoints.write_safetensors(self.model / shard, header, data)
        checkpoints.write_json(index, {"weight_map": {name: shard for name in names}})
        self.assert_succeeds(self.answer())
        checkpoints.write_json(index, {"weight_map": {name: shard for name in names} | {"model.extra.weight": shard}})
        self.refuses("model.extra.weight")
        index.write_text("{")
        self.refuses("index.json")

    def test_random_damage_never_crashes(self):
        """Bytes of the header changed one at a time: octavo may answer or refuse, in one sentence."""
        raw = self.weights.read_bytes()
        (size,) = struct.unpack_from("<Q", raw)
        for place in range(8, 8 + size, max(1, size // 20)):
            for byte in (0, 0x22, 0x39, 0xFF):
                self.weights.write_bytes(raw[:place] + bytes([byte]) + raw[place + 1 :])
                outcome = self.answer()
                if outcome.code == 0:
                    self.assert_succeeds(outcome)
                else:
                    self.assert_refuses(outcome)


if __name__ == "__main__":
    unittest.main()
