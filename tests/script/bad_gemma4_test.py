"""A config of Gemma 4 that is incomplete, contradicts itself or asks for what is not there: refused by name. The good one
is described truthfully."""

import json
import unittest

import checkpoints
from bad_model import BadModelTest
from octavo_program import octavo


class Gemma4ConfigTest(BadModelTest):
    golden = "gemma4-hub"

    def test_the_good_one_answers_and_is_described(self):
        self.assertEqual(self.answer().code, 0)
        report = json.loads(octavo("inspect", self.model, "--json").text)
        self.assertEqual(report["family"], "gemma4")
        self.assertEqual(report["head_dim"], [256, 512])
        self.assertEqual(report["layers_that_read_another_cache"], 2)
        self.assertEqual(report["layers_with_a_window"], 3)
        # One full layer keeps K and V of one head of 512, two layers with a window one head of 256.
        self.assertEqual(report["kv_bytes_per_token"]["bfloat16"], 2 * 512 * 2)
        self.assertEqual(report["kv_bytes_per_token"]["bfloat16, layers with a window"], 2 * 2 * 256 * 2)
        self.assertEqual(report["kv_bytes_per_token"]["int8:fp8"], 2 * 512 + 2)
        self.assertEqual(report["eos_token_ids"], [1, 106])

    def test_a_missing_key(self):
        self.refuses_without(
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "num_key_value_heads",
            "head_dim",
            "global_head_dim",
            "vocab_size",
            "max_position_embeddings",
            "layer_types",
            "num_kv_shared_layers",
            "hidden_size_per_layer_input",
            "sliding_window",
            "rope_parameters",
        )

    def test_layers_that_cannot_be(self):
        sliding, full = "sliding_attention", "full_attention"
        for types, mention in (
            ([sliding, "state_space", sliding, sliding, full], "state_space"),
            ([sliding, full], "list of 5"),
            ([sliding, full, sliding, full, sliding], "end with full_attention"),
            (7, "layer_types"),
        ):
            with self.subTest(mention):
                self.change_config(layer_types=types)
                self.refuses(mention)

    def test_a_cache_that_nobody_has(self):
        self.change_config(num_kv_shared_layers=4)  # the second layer is the first full one
        self.refuses("num_kv_shared_layers", "layer 1", "no cache to share")
        for count in (5, -1):
            self.change_config(num_kv_shared_layers=count)
            self.refuses("num_kv_shared_layers")

    def test_what_is_not_supported_is_named(self):
        rope = {"rope_theta": 10000.0, "rope_type": "default"}
        for key, value, mention in (
            ("enable_moe_block", True, "enable_moe_block"),
            ("hidden_activation", "silu", "hidden_activation"),
            ("use_bidirectional_attention", "all", "use_bidirectional_attention"),
            ("vocab_size_per_layer_input", 100, "vocab_size_per_layer_input"),
            ("num_key_value_heads", 3, "num_attention_heads"),
            ("head_dim", 255, "head_dim"),
            ("rope_parameters", rope, "full_attention"),
            ("rope_parameters", {"full_attention": rope}, "sliding_attention"),
            ("rope_parameters", {"full_attention": rope, "sliding_attention": {"rope_type": "spiral"}}, "spiral"),
            ("per_layer_config", {"5": {"head_dim": 512}}, "5"),
            ("per_layer_config", {"x": {}}, "x"),
            ("per_layer_config", {"1": {"width": 512}}, "width"),
            ("per_layer_config", {"1": {"head_dim": 128}}, "layer 4"),
            ("per_layer_config", [], "per_layer_config"),
        ):
            with self.subTest(f"{key}={value}"):
                self.change_config(**{key: value})
                self.refuses(mention)

    def test_weights_of_other_sizes(self):
        for key, value in (
            ("num_hidden_layers", 4),
            ("intermediate_size", 32),
            ("hidden_size_per_layer_input", 16),
            ("head_dim", 128),
            ("use_double_wide_mlp", False),
        ):
            with self.subTest(key):
                self.change_config(**{key: value})
                self.refuses()


if __name__ == "__main__":
    unittest.main()
