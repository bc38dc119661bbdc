"""A config of DeepSeek-V3 or Kimi that is incomplete, contradicts itself or asks for what is not there, and packed
integers that do not belong to it: refused by name. The good one is described truthfully."""

import json
import unittest

import checkpoints
from bad_model import BadModelTest
from octavo_program import octavo

EXPERT = "language_model.model.layers.1.mlp.experts.0.down_proj"


class KimiConfigTest(BadModelTest):
    golden = "kimi-int4"

    def test_the_good_one_answers_and_is_described(self):
        for flags in ((), ("--kv-cache-dtype", "fp8"), ("--kv-cache-dtype", "fp8", "--kv-cache-rope-dtype", "fp8")):
            with self.subTest(flags):
                self.assertEqual(self.answer(None, *flags).code, 0)
        report = json.loads(octavo("inspect", self.model, "--json").text)
        self.assertEqual(report["family"], "deepseek_v3")
        self.assertEqual(report["latent_dim"], 64)
        self.assertEqual(report["head_dim"], 64)
        self.assertEqual(report["experts"], 6)
        self.assertIn("int4 per group of 32", report["quantization"])
        # Two layers, each a latent of 64 and a rope key of 64; in fp8 the latent has one float32 scale.
        self.assertEqual(report["kv_bytes_per_token"]["bfloat16"], 2 * 2 * (64 + 64))
        self.assertEqual(report["kv_bytes_per_token"]["fp8"], 2 * (64 + 4 + 2 * 64))
        self.assertNotIn("int8:fp8", report["kv_bytes_per_token"])

    def test_names_as_the_library_saves_them(self):
        answer = self.answer(None, "--temperature", "0")
        header, data = checkpoints.read_safetensors(self.weights)
        saved = {
            name.replace("language_model.model.", "model.language_model.").replace("language_model.lm_head", "lm_head"): entry
            for name, entry in header.items()
        }
        self.assertNotEqual(saved.keys(), header.keys())
        checkpoints.write_safetensors(self.weights, saved, data)
        again = self.answer(None, "--temperature", "0")
        self.assertEqual((again.code, again.text), (0, answer.text))

    def test_a_missing_key(self):
        self.refuses_without(
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "vocab_size",
            "max_position_embeddings",
            "kv_lora_rank",
            "qk_nope_head_dim",
            "qk_rope_head_dim",
            "v_head_dim",
            "n_routed_experts",
            "num_experts_per_tok",
            "moe_intermediate_size",
            "first_k_dense_replace",
        )

    def test_what_cannot_be_or_is_not_supported_is_named(self):
        for key, value in (
            ("scoring_func", "softmax"),
            ("topk_method", "greedy"),
            ("hidden_act", "gelu"),
            ("moe_layer_freq", 2),
            ("attention_bias", True),
            ("n_group", 4),
            ("topk_group", 2),
            ("num_experts_per_tok", 7),
            ("qk_rope_head_dim", 63),
            ("kv_lora_rank", 0),
            ("q_lora_rank", "none"),
        ):
            with self.subTest(f"{key}={value}"):
                self.change_config(**{key: value})
                self.refuses(key)

    def test_weights_of_other_sizes(self):
        for key, value in (
            ("kv_lora_rank", 32),
            ("q_lora_rank", None),
            ("n_routed_experts", 5),
            ("n_routed_experts", 7),
            ("n_shared_experts", 2),
            ("first_k_dense_replace", 0),
            ("first_k_dense_replace", 2),
            ("v_head_dim", 64),
        ):
            with self.subTest(f"{key}={value}"):
                self.change_config(**{key: value})
                self.refuses()

    def test_a_cache_that_a_latent_cannot_have(self):
        self.assert_refuses(self.answer(None, "--kv-cache-dtype", "int8:fp8"), "two kinds")
        self.assert_refuses(
            self.answer(None, "--kv-cache-dtype", "fp8", "--kv-cache-transform", "hadamard"), "not rotated"
        )
        self.again("llama-base")
        self.assert_refuses(self.answer(None, "--kv-cache-rope-dtype", "fp8"), "--kv-cache-rope-dtype")

    def test_packed_integers_that_do_not_fit(self):
        header, data = checkpoints.read_safetensors(self.weights)
        for name, change in (
            (".weight_scale", None),
            (".weight_shape", None),
            (".weight_packed", {"dtype": "F32"}),
            (".weight_packed", {"shape": [32, 16]}),
            (".weight_scale", {"shape": [32, 4]}),
        ):
            with self.subTest(f"{name} {change}"):
                damaged = {key: dict(entry) for key, entry in header.items()}
                if change is None:
                    damaged["mm_projector.moved"] = damaged.pop(EXPERT + name)
                else:
                    damaged[EXPERT + name] |= change
                checkpoints.write_safetensors(self.weights, damaged, data)
                self.refuses(EXPERT)

    def test_integers_of_a_kind_that_is_not_read(self):
        for key, value in (("group_size", 64), ("num_bits", 8), ("symmetric", False), ("actorder", "group")):
            with self.subTest(f"{key}={value}"):
                config = checkpoints.read_json(self.config)["text_config"]["quantization_config"]
                config["config_groups"]["group_0"]["weights"][key] = value
                self.change_config(quantization_config=config)
                self.refuses("pack-quantized")


if __name__ == "__main__":
    unittest.main()
