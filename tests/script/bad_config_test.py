"""A config.json that is damaged, incomplete or contradicts the weights:
each ends in one sentence that names the thing, and exit code 1."""

import unittest

import checkpoints
from bad_model import HUGE, BadModelTest


class ConfigTest(BadModelTest):
    def test_a_file_that_is_no_json(self):
        good = self.config.read_text()
        for text in ("", "{", "[]", "null", good[: len(good) // 2], "\0" * 100, good + "}", "[" * 100000):
            with self.subTest(text[:20]):
                self.config.write_text(text)
                self.refuses("config.json")

    def test_no_file(self):
        self.config.unlink()
        self.refuses("config.json")

    def test_a_missing_key(self):
        self.refuses_without(
            "hidden_size",
            "intermediate_size",
            "num_hidden_layers",
            "num_attention_heads",
            "vocab_size",
        )

    def test_a_value_that_cannot_be(self):
        for key, value in (
            ("hidden_size", "64"),
            ("hidden_size", -64),
            ("hidden_size", 0),
            ("hidden_size", 64.5),
            ("hidden_size", HUGE),
            ("num_hidden_layers", HUGE),
            ("num_hidden_layers", 0),
            ("num_hidden_layers", [3]),
            ("vocab_size", 2**31),
            ("num_key_value_heads", 3),
            ("num_key_value_heads", 0),
            ("head_dim", 0),
            ("head_dim", "big"),
            ("head_dim", 63),
            ("rms_norm_eps", "small"),
            ("rms_norm_eps", -1),
            ("tie_word_embeddings", "yes"),
            ("hidden_act", "sine"),
            ("max_position_embeddings", 0),
            ("max_position_embeddings", HUGE),
            ("eos_token_id", "end"),
            ("eos_token_id", [2, 513]),
            ("eos_token_id", -1),
            ("rope_parameters", {"rope_type": "spiral", "rope_theta": 1e4}),
            ("rope_parameters", 7),
            ("rope_parameters", {"rope_type": "default", "rope_theta": -1}),
            ("architectures", ["HouseForCausalLM"]),
            ("quantization_config", {"quant_method": "gptq", "bits": 4}),
            ("quantization_config", 5),
        ):
            with self.subTest(f"{key}={value}"):
                self.again()
                checkpoints.change_json(self.config, **{key: value})
                self.refuses()

    def test_a_number_that_is_none(self):
        for number in ("NaN", "Infinity", "1e999"):
            with self.subTest(number):
                self.again()
                self.config.write_text(self.config.read_text().replace("1e-05", number))
                self.refuses("config.json")

    def test_an_unknown_architecture_is_refused_with_what_is_supported(self):
        checkpoints.change_json(self.config, architectures=["HouseForCausalLM"], model_type="house")
        self.refuses("HouseForCausalLM", "llama", "qwen3")

    def test_a_quantisation_is_refused_by_name(self):
        for method in ("awq", "gptq", "bitsandbytes"):
            with self.subTest(method):
                self.again()
                checkpoints.change_json(self.config, quantization_config={"quant_method": method, "bits": 4})
                self.refuses(method)

    def test_a_shape_that_does_not_match_the_config(self):
        for key, value in (
            ("vocab_size", 513),
            ("intermediate_size", 161),
            ("num_hidden_layers", 4),
            ("num_attention_heads", 8),
            ("head_dim", 32),
        ):
            with self.subTest(key):
                self.again()
                checkpoints.change_json(self.config, **{key: value})
                self.refuses()


if __name__ == "__main__":
    unittest.main()
