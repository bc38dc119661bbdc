"""Checkpoints with recurrent layers whose config or tensors contradict themselves: each ends in one sentence that names
the key or the tensor. And what inspect and the start say of such a model."""

import json
import unittest

import checkpoints
from bad_model import HUGE, BadModelTest
from octavo_program import octavo

QWEN35_27B = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "model_type": "qwen3_5",
    "text_config": {
        "attention_bias": False,
        "attn_output_gate": True,
        "dtype": "bfloat16",
        "eos_token_id": 248044,
        "full_attention_interval": 4,
        "head_dim": 256,
        "hidden_act": "silu",
        "hidden_size": 5120,
        "intermediate_size": 17408,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 128,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 48,
        "linear_value_head_dim": 128,
        "max_position_embeddings": 262144,
        "model_type": "qwen3_5_text",
        "num_attention_heads": 24,
        "num_hidden_layers": 64,
        "num_key_value_heads": 4,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "mrope_interleaved": True,
            "mrope_section": [11, 11, 10],
            "partial_rotary_factor": 0.25,
            "rope_theta": 10000000,
            "rope_type": "default",
        },
        "vocab_size": 248320,
    },
    "tie_word_embeddings": False,
    "vision_config": {"depth": 27},
}


class StatesTest(BadModelTest):
    golden = "qwen35-two"

    def test_what_is_whole_runs(self):
        outcome = self.assert_succeeds(self.answer())
        self.assertIn("states: 5 records x 105,984 bytes for 1 sequence and 4 snapshots", outcome.err)
        self.assertIn("float32 state of 105984 bytes a sequence", outcome.err)
        outcome = self.assert_succeeds(
            self.answer(None, "--no-enable-prefix-caching", "--kv-cache-dtype", "int8:fp8")
        )
        self.assertNotIn("snapshots", outcome.err)

    def test_configs(self):
        for key, value, *mentions in [
            ("layer_types", ["linear_attention", "sliding_attention"], "sliding_attention", "known: full_attention"),
            ("layer_types", ["linear_attention"], '"layer_types" must be a list of 2 names'),
            ("layer_types", "all"),
            ("layer_types", [1, 2]),
            ("layer_types", ["full_attention"] * 2, "model.language_model.layers.0.self_attn.q_proj.weight"),
            ("layer_types", ["linear_attention"] * 2, "model.language_model.layers.1.linear_attn.in_proj_qkv.weight"),
            ("linear_num_key_heads", None),
            ("linear_num_key_heads", 0),
            ("linear_num_key_heads", 4, '"linear_num_value_heads" 6 is not a multiple of "linear_num_key_heads" 4'),
            ("linear_num_key_heads", 3, "in_proj_qkv.weight", "[640, 64]", "[768, 64]"),
            ("linear_num_value_heads", None),
            ("linear_num_value_heads", HUGE),
            ("linear_num_value_heads", 8, "in_proj_qkv.weight"),
            ("linear_key_head_dim", None),
            ("linear_key_head_dim", 32, "in_proj_qkv.weight"),
            ("linear_value_head_dim", "wide"),
            ("linear_conv_kernel_dim", None),
            ("linear_conv_kernel_dim", 1),
            ("linear_conv_kernel_dim", 3, "conv1d.weight", "[640, 1, 4]", "[640, 1, 3]"),
            ("attn_output_gate", False),
            ("attention_bias", True),
            ("head_dim", 128, "q_proj.weight"),
            ("partial_rotary_factor", 0.0001),
            ("partial_rotary_factor", 2),
        ]:
            with self.subTest(f"{key}={value}"):
                self.change_config(**{key: value}, **({} if key != "partial_rotary_factor" else {"rope_parameters": None}))
                self.refuses(*(mentions or [key]))

    def test_a_rope_that_does_not_say_how_much_it_turns(self):
        self.change_config(partial_rotary_factor=None, rope_parameters={"rope_theta": 1e7, "rope_type": "default"})
        self.refuses('"partial_rotary_factor" is missing')

    def test_layers_without_types_attend_at_their_interval(self):
        self.change_config(layer_types=None, full_attention_interval=2)
        self.assert_succeeds(self.answer())
        self.change_config(layer_types=None, full_attention_interval=0)
        self.refuses("full_attention_interval")

    def test_tensors(self):
        for ending, mentions in [
            ("linear_attn.A_log", ["A_log", "is missing"]),
            ("linear_attn.dt_bias", ["dt_bias", "is missing"]),
            ("linear_attn.conv1d.weight", ["conv1d.weight", "is missing"]),
            ("linear_attn.in_proj_z.weight", ["in_proj_z.weight", "is missing"]),
        ]:
            with self.subTest(ending):
                self.again()
                header, data = checkpoints.read_safetensors(self.weights)
                name = next(name for name in header if name.endswith(ending))
                header["mtp." + name] = header.pop(name)
                checkpoints.write_safetensors(self.weights, header, data)
                self.refuses(*mentions)

    def test_recurrent_layers_have_no_cache_dtype_to_skip(self):
        self.again()
        flags = ("--kv-cache-dtype", "fp8", "--kv-cache-dtype-skip-layers", "linear_attention")
        self.assert_refuses(self.answer(None, *flags), "--kv-cache-dtype-skip-layers", "full_attention")

    def test_inspect_tells_states_apart_from_tokens(self):
        checkpoints.write_json(self.folder / "config.json", QWEN35_27B)
        outcome = self.assert_succeeds(octavo("inspect", self.folder, "--load-format", "dummy", "--json"))
        report = json.loads(outcome.out)
        self.assertEqual((report["family"], report["layers"], report["layers_with_a_state"]), ("qwen3_5", 64, 48))
        self.assertEqual((report["q_heads"], report["kv_heads"], report["head_dim"]), (24, 4, 256))
        # 48 states of 128 x 128 in each layer, and three inputs of 10,240 channels, all float32.
        self.assertEqual(report["state_bytes_per_sequence"], 48 * 4 * (48 * 128 * 128 + 3 * 10240))
        bytes_per_token = report["kv_bytes_per_token"]
        self.assertEqual((bytes_per_token["bfloat16"], bytes_per_token["fp8"]), (65536, 32768))
        self.assertIn("partial=0.25", report["rope"])
        self.assertEqual(report["context_length"], 262144)


if __name__ == "__main__":
    unittest.main()
