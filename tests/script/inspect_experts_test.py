"""octavo inspect of the published configs of models with experts: sizes, windows, what is quantised, bytes a token."""

import json
import unittest

import checkpoints
from octavo_program import ProgramTest, octavo

QWEN3_30B = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "attention_bias": False,
    "decoder_sparse_step": 1,
    "eos_token_id": 151645,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "max_position_embeddings": 40960,
    "max_window_layers": 48,
    "mlp_only_layers": [],
    "moe_intermediate_size": 768,
    "norm_topk_prob": True,
    "num_attention_heads": 32,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_key_value_heads": 4,
    "rms_norm_eps": 1e-6,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "use_sliding_window": False,
    "vocab_size": 151936,
}
GPT_OSS_20B = {
    "architectures": ["GptOssForCausalLM"],
    "attention_bias": True,
    "eos_token_id": 200002,
    "experts_per_token": 4,
    "head_dim": 64,
    "hidden_act": "silu",
    "hidden_size": 2880,
    "initial_context_length": 4096,
    "intermediate_size": 2880,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "max_position_embeddings": 131072,
    "num_attention_heads": 64,
    "num_experts_per_tok": 4,
    "num_hidden_layers": 24,
    "num_key_value_heads": 8,
    "num_local_experts": 32,
    "quantization_config": {
        "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "lm_head"],
        "quant_method": "mxfp4",
    },
    "rms_norm_eps": 1e-5,
    "rope_scaling": {
        "beta_fast": 32.0,
        "beta_slow": 1.0,
        "factor": 32.0,
        "original_max_position_embeddings": 4096,
        "rope_type": "yarn",
        "truncate": False,
    },
    "rope_theta": 150000,
    "sliding_window": 128,
    "swiglu_limit": 7.0,
    "tie_word_embeddings": False,
    "vocab_size": 201088,
}


class InspectExpertsTest(ProgramTest):
    def report(self, config):
        checkpoints.write_json(self.folder / "config.json", config)
        outcome = self.assert_succeeds(octavo("inspect", self.folder, "--load-format", "dummy", "--json"))
        return json.loads(outcome.out)

    def test_experts_in_every_layer(self):
        report = self.report(QWEN3_30B)
        self.assertEqual(report["family"], "qwen3_moe")
        self.assertEqual((report["experts"], report["experts_per_token"]), (128, 8))
        self.assertEqual(report["quantization"], "none")
        self.assertNotIn("layers_with_a_window", report)
        bytes_per_token = report["kv_bytes_per_token"]
        self.assertEqual((bytes_per_token["bfloat16"], bytes_per_token["fp8"]), (98304, 49152))
        self.assertEqual(bytes_per_token["int8:fp8"], 49536)

    def test_windows_and_packed_experts(self):
        report = self.report(GPT_OSS_20B)
        self.assertEqual(report["family"], "gpt_oss")
        self.assertEqual((report["experts"], report["experts_per_token"]), (32, 4))
        self.assertEqual((report["layers_with_a_window"], report["window"]), (12, 128))
        self.assertIn("mxfp4", report["quantization"])
        self.assertIn("experts", report["quantization"])
        self.assertEqual(report["eos_token_ids"], [200002, 200012])
        self.assertEqual(report["context_length"], 131072)
        self.assertIn("yarn theta=150000 factor=32", report["rope"])
        bytes_per_token = report["kv_bytes_per_token"]
        for dtype, count in (("bfloat16", 24576), ("fp8", 12288), ("int8:fp8", 12480), ("int8", 12672)):
            self.assertEqual(bytes_per_token[dtype], count)
            self.assertEqual(bytes_per_token[f"{dtype}, layers with a window"], count)

    def test_packed_numbers_are_counted_as_numbers(self):
        folder = checkpoints.golden("gptoss-mxfp4")
        weights = json.loads(self.assert_succeeds(octavo("inspect", folder, "--json")).out)["weights"]
        header, _ = checkpoints.read_safetensors(folder / "model.safetensors")
        blocks = sum(
            entry["data_offsets"][1] - entry["data_offsets"][0]
            for name, entry in header.items()
            if name.endswith("_blocks")
        )
        self.assertEqual(weights["bytes_by_dtype"]["e2m1"], blocks)
        self.assertEqual(weights["bytes_by_dtype"]["e8m0"], blocks // 16)
        self.assertEqual(weights["numbers"], 2 * blocks + weights["bytes_by_dtype"]["bf16"] // 2)


if __name__ == "__main__":
    unittest.main()
