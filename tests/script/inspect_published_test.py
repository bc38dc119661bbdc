"""What inspect says of published models whose weights are too large for here, from their configs alone: bytes a token,
layers that keep none, windows, experts. The figures are worked out by hand from the sizes."""

import json
import unittest

import checkpoints
from octavo_program import ProgramTest, octavo

GEMMA_4_E2B = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "model_type": "gemma4",
    "eos_token_id": [1, 106],
    "tie_word_embeddings": True,
    "dtype": "bfloat16",
    "vision_config": {"hidden_size": 768},
    "text_config": {
        "model_type": "gemma4_text",
        "hidden_size": 1536,
        "intermediate_size": 6144,
        "num_hidden_layers": 35,
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
        "num_global_key_value_heads": None,
        "head_dim": 256,
        "global_head_dim": 512,
        "layer_types": (["sliding_attention"] * 4 + ["full_attention"]) * 7,
        "sliding_window": 512,
        "num_kv_shared_layers": 20,
        "use_double_wide_mlp": True,
        "hidden_size_per_layer_input": 256,
        "vocab_size": 262144,
        "vocab_size_per_layer_input": 262144,
        "max_position_embeddings": 131072,
        "final_logit_softcapping": 30.0,
        "attention_k_eq_v": False,
        "enable_moe_block": False,
        "hidden_activation": "gelu_pytorch_tanh",
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.25},
        },
    },
}
KIMI_K2_5 = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "model_type": "kimi_k25",
    "dtype": "bfloat16",
    "text_config": {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "kimi_k2",
        "hidden_size": 7168,
        "intermediate_size": 18432,
        "moe_intermediate_size": 2048,
        "num_hidden_layers": 61,
        "num_attention_heads": 64,
        "num_key_value_heads": 64,
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "n_routed_experts": 384,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "n_group": 1,
        "topk_group": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.827,
        "scoring_func": "sigmoid",
        "topk_method": "noaux_tc",
        "first_k_dense_replace": 1,
        "vocab_size": 163840,
        "max_position_embeddings": 262144,
        "rms_norm_eps": 1e-5,
        "rope_theta": 50000.0,
        "rope_scaling": {
            "type": "yarn",
            "factor": 64.0,
            "original_max_position_embeddings": 4096,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        },
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "ignore": ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*"],
            "config_groups": {
                "group_0": {
                    "targets": ["Linear"],
                    "weights": {
                        "num_bits": 4,
                        "type": "int",
                        "strategy": "group",
                        "group_size": 32,
                        "symmetric": True,
                        "dynamic": False,
                    },
                    "input_activations": None,
                    "output_activations": None,
                }
            },
        },
    },
}


class PublishedTest(ProgramTest):
    def report(self, config):
        checkpoints.write_json(self.folder / "config.json", config)
        done = octavo("inspect", self.folder, "--load-format", "dummy", "--json")
        self.assertEqual(done.code, 0, done.err)
        return json.loads(done.text)

    def test_gemma_4_e2b(self):
        report = self.report(GEMMA_4_E2B)
        self.assertEqual(report["layers"], 35)
        self.assertEqual(report["layers_with_a_window"], 28)
        self.assertEqual(report["layers_that_read_another_cache"], 20)
        self.assertEqual(report["head_dim"], [256, 512])
        self.assertEqual(report["context_length"], 131072)
        # 3 full layers keep one head of 512, 12 with a window one head of 256.
        table = report["kv_bytes_per_token"]
        self.assertEqual(table["bfloat16"], 6144)
        self.assertEqual(table["bfloat16, layers with a window"], 12288)
        self.assertEqual(table["fp8"], 3072)
        self.assertEqual(table["int8:fp8"], 3078)
        self.assertEqual(table["int8, layers with a window"], 6192)

    def test_kimi_k2_5(self):
        report = self.report(KIMI_K2_5)
        self.assertEqual(report["architecture"], "KimiK25ForConditionalGeneration")
        self.assertEqual((report["experts"], report["experts_per_token"]), (384, 8))
        self.assertEqual((report["latent_dim"], report["head_dim"], report["kv_heads"]), (512, 64, 1))
        self.assertEqual(report["context_length"], 262144)
        self.assertIn("int4", report["quantization"])
        table = report["kv_bytes_per_token"]
        self.assertEqual(table["bfloat16"], 61 * 2 * (512 + 64))
        self.assertEqual(table["fp8"], 61 * 656)
        self.assertEqual(table["int8"], 61 * (512 + 2 + 128))
        self.assertNotIn("int8:fp8", table)


if __name__ == "__main__":
    unittest.main()
