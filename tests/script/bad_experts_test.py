"""Checkpoints with experts whose config or tensors are incomplete or contradict each other: each ends in one sentence
that names the key or the tensor."""

import unittest

import checkpoints
from bad_model import HUGE, BadModelTest

SEPARATE = "qwen3moe-fp8-block"  # a tensor for each expert
PACKED = "gptoss-mxfp4"  # all experts in one, MXFP4; windows


class ExpertsTest(BadModelTest):
    def config_refuses(self, golden, cases):
        for key, value, *mentions in cases:
            with self.subTest(f"{golden} {key}={value}"):
                self.again(golden)
                checkpoints.change_json(self.config, **{key: value})
                self.refuses(*(mentions or [key]))

    def change_tensors(self, golden, change):
        self.again(golden)
        header, data = checkpoints.read_safetensors(self.weights)
        data = bytearray(data)
        change(header, data)
        checkpoints.write_safetensors(self.weights, header, bytes(data))

    def test_what_is_whole_runs(self):
        for golden in (SEPARATE, PACKED):
            self.again(golden)
            self.assert_succeeds(self.answer())

    def test_configs_of_separate_experts(self):
        self.config_refuses(
            SEPARATE,
            [
                ("num_local_experts", None, '"num_experts" is missing'),
                ("num_local_experts", "many"),
                ("num_local_experts", HUGE),
                ("num_local_experts", 5, "mlp.gate.weight", "[4, 128]", "[5, 128]"),
                ("num_local_experts", 3, "mlp.gate.weight"),
                ("num_experts", 3, '"num_experts" 3 and "num_local_experts" 4 contradict each other'),
                ("num_experts_per_tok", None),
                ("num_experts_per_tok", 0),
                ("num_experts_per_tok", 5, '"num_experts_per_tok" 5 is more than "num_local_experts" 4'),
                ("moe_intermediate_size", None),
                ("moe_intermediate_size", 64, "mlp.experts.0.gate_proj.weight"),
                ("moe_intermediate_size", -1),
                ("norm_topk_prob", "yes"),
                ("decoder_sparse_step", 0),
                ("decoder_sparse_step", 2, "mlp.gate_proj.weight"),
                ("mlp_only_layers", [7]),
                ("mlp_only_layers", "none"),
                ("mlp_only_layers", [0], "model.layers.0.mlp.gate_proj.weight"),
            ],
        )

    def test_configs_of_packed_experts(self):
        self.config_refuses(
            PACKED,
            [
                ("num_local_experts", None, '"num_local_experts" is missing'),
                ("num_local_experts", 9, "mlp.router.weight"),
                ("num_experts_per_tok", 9, "contradict"),
                ("experts_per_token", 9, "contradict"),
                ("sliding_window", None),
                ("sliding_window", 0),
                ("sliding_window", "wide"),
                ("layer_types", ["sliding_attention", "full_attention"]),
                ("layer_types", ["sliding_attention", "full_attention", "linear_attention"], "linear_attention"),
                ("layer_types", ["sliding_attention", "full_attention", 3], "layer_types"),
                ("layer_types", "alternating"),
                ("swiglu_limit", 0),
                ("swiglu_limit", "none"),
                ("hidden_act", "gelu"),
                ("intermediate_size", 96, "gate_up_proj_blocks"),
                ("quantization_config", {"quant_method": "nvfp4"}, "nvfp4", "mxfp4"),
            ],
        )

    def test_tensors_that_are_missing_or_of_another_shape(self):
        for golden, name in (
            (SEPARATE, "model.layers.1.mlp.experts.2.up_proj.weight"),
            (SEPARATE, "model.layers.1.mlp.experts.2.up_proj.weight_scale_inv"),
            (SEPARATE, "model.layers.0.mlp.gate.weight"),
            (PACKED, "model.layers.0.self_attn.sinks"),
            (PACKED, "model.layers.0.mlp.router.bias"),
            (PACKED, "model.layers.2.mlp.experts.down_proj_bias"),
            (PACKED, "model.layers.2.mlp.experts.down_proj_scales"),
        ):
            with self.subTest(f"without {name}"):
                self.change_tensors(golden, lambda header, data: header.pop(name))
                self.refuses()  # a hole in the file
            with self.subTest(f"{name} under another name"):
                self.change_tensors(
                    golden, lambda header, data: header.update({name.replace("layers", "leaves"): header.pop(name)})
                )
                self.refuses(name.removesuffix("_scale_inv"))
            with self.subTest(f"{name} with one dimension more"):
                self.change_tensors(golden, lambda header, data: header[name]["shape"].append(1))
                outcome = self.answer()
                if "scale_inv" not in name:  # [1, 1, 1] is one number still
                    self.assert_refuses(outcome, name)

    def test_an_expert_too_many(self):
        def add(header, data):
            name = "model.layers.0.mlp.experts.{}.gate_proj.weight"
            entry = dict(header[name.format(3)], data_offsets=[len(data), len(data) + 128 * 128])
            header[name.format(4)] = entry
            data += bytes(128 * 128)

        self.change_tensors(SEPARATE, add)
        self.refuses("model.layers.0.mlp.experts.4.gate_proj.weight")

    def test_a_scale_that_is_no_number(self):
        name = "model.layers.1.mlp.experts.gate_up_proj_scales"

        def damage(header, data):
            data[header[name]["data_offsets"][0] + 7] = 255

        self.change_tensors(PACKED, damage)
        self.refuses(name, "255")

    def test_unpacked_values_in_the_place_of_packed_ones(self):
        name = "model.layers.1.mlp.experts.gate_up_proj_blocks"
        self.change_tensors(PACKED, lambda header, data: header[name].update(dtype="I8"))
        self.refuses(name, "u8")


if __name__ == "__main__":
    unittest.main()
