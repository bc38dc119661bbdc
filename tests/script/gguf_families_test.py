"""Goldens of families whose GGUF form says more than that of a plain decoder, as ggml's converter would write them: the
reference library's logits, within float32, and what such a file lacks is named."""

import struct
import unittest

import checkpoints
from checkpoints import ARRAY, BOOL, F32, STRING, U32
from golden_form import GGML_BF16, GGML_F32, WHOLE, GoldenFormTest, Source, floats_of_bf16, gguf_keys
from octavo_program import octavo

GEMMA4_WHOLE = {
    "embed_tokens.weight": "token_embd.weight",
    "embed_tokens_per_layer.weight": "per_layer_token_embd.weight",
    "per_layer_model_projection.weight": "per_layer_model_proj.weight",
    "per_layer_projection_norm.weight": "per_layer_proj_norm.weight",
    "norm.weight": "output_norm.weight",
}
GEMMA4_LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "per_layer_input_gate": "inp_gate",
    "per_layer_projection": "proj",
    "post_per_layer_input_norm": "post_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gemma4_name(name):
    name = name.removeprefix("model.language_model.")
    if not name.startswith("layers."):
        return GEMMA4_WHOLE[name]
    _, layer, rest = name.split(".", 2)
    if rest == "layer_scalar":
        return f"blk.{layer}.layer_output_scale.weight"
    return f"blk.{layer}.{GEMMA4_LAYER[rest.removesuffix('.weight')]}.weight"


def gemma4_tensors(source):
    """Matrices as they are, vectors as F32; and the divisors of the full layers' frequencies: a quarter turns."""
    tensors = []
    for name in source.header:
        shape = source.shape(name)
        if len(shape) == 2:
            tensors.append((gemma4_name(name), shape[::-1], GGML_BF16, source.raw(name)))
        else:
            tensors.append((gemma4_name(name), shape, GGML_F32, source.as_f32(name)))
    config = source.config["text_config"]
    pairs = config["global_head_dim"] // 2
    turning = int(pairs * config["rope_parameters"]["full_attention"]["partial_rotary_factor"])
    divisors = [1.0] * turning + [1e30] * (pairs - turning)
    tensors.append(("rope_freqs.weight", [pairs], GGML_F32, struct.pack(f"<{pairs}f", *divisors)))
    return tensors


def gemma4_keys(source):
    config = source.config["text_config"]
    layers, sharing = config["num_hidden_layers"], config["num_kv_shared_layers"]
    width = config["intermediate_size"]
    ropes = config["rope_parameters"]
    return [
        ("general.architecture", STRING, "gemma4"),
        ("gemma4.block_count", U32, layers),
        ("gemma4.context_length", U32, config["max_position_embeddings"]),
        ("gemma4.embedding_length", U32, config["hidden_size"]),
        ("gemma4.embedding_length_per_layer_input", U32, config["hidden_size_per_layer_input"]),
        ("gemma4.feed_forward_length", ARRAY, (U32, [width] * (layers - sharing) + [2 * width] * sharing)),
        ("gemma4.attention.head_count", U32, config["num_attention_heads"]),
        ("gemma4.attention.head_count_kv", U32, config["num_key_value_heads"]),
        ("gemma4.attention.key_length", U32, config["global_head_dim"]),
        ("gemma4.attention.value_length", U32, config["global_head_dim"]),
        ("gemma4.attention.key_length_swa", U32, config["head_dim"]),
        ("gemma4.attention.value_length_swa", U32, config["head_dim"]),
        ("gemma4.attention.layer_norm_rms_epsilon", F32, config["rms_norm_eps"]),
        ("gemma4.attention.shared_kv_layers", U32, sharing),
        ("gemma4.attention.sliding_window", U32, config["sliding_window"]),
        (
            "gemma4.attention.sliding_window_pattern",
            ARRAY,
            (BOOL, [kind == "sliding_attention" for kind in config["layer_types"]]),
        ),
        ("gemma4.final_logit_softcapping", F32, config["final_logit_softcapping"]),
        ("gemma4.rope.dimension_count", U32, config["global_head_dim"]),
        ("gemma4.rope.dimension_count_swa", U32, config["head_dim"]),
        ("gemma4.rope.freq_base", F32, ropes["full_attention"]["rope_theta"]),
        ("gemma4.rope.freq_base_swa", F32, ropes["sliding_attention"]["rope_theta"]),
        ("gemma4.vocab_size", U32, config["vocab_size"]),
    ]


DEEPSEEK_LAYER = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_a_proj.weight": "attn_q_a.weight",
    "self_attn.q_a_layernorm.weight": "attn_q_a_norm.weight",
    "self_attn.q_b_proj.weight": "attn_q_b.weight",
    "self_attn.kv_a_proj_with_mqa.weight": "attn_kv_a_mqa.weight",
    "self_attn.kv_a_layernorm.weight": "attn_kv_a_norm.weight",
    "self_attn.kv_b_proj.weight": "attn_kv_b.weight",
    "self_attn.o_proj.weight": "attn_output.weight",
    "mlp.gate_proj.weight": "ffn_gate.weight",
    "mlp.up_proj.weight": "ffn_up.weight",
    "mlp.down_proj.weight": "ffn_down.weight",
    "mlp.gate.weight": "ffn_gate_inp.weight",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.shared_experts.gate_proj.weight": "ffn_gate_shexp.weight",
    "mlp.shared_experts.up_proj.weight": "ffn_up_shexp.weight",
    "mlp.shared_experts.down_proj.weight": "ffn_down_shexp.weight",
}


def deepseek_name(name):
    name = name.removeprefix("language_model.")
    if name in WHOLE:
        return WHOLE[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{DEEPSEEK_LAYER[rest]}"


def expert_matrix(source, name):
    """Of 4 bits: eight numbers a word, each of them less eight, times the scale of 32."""
    rows, words = source.shape(name + ".weight_packed")
    scales = floats_of_bf16(source.raw(name + ".weight_scale"))
    packed = struct.unpack(f"<{rows * words}I", source.raw(name + ".weight_packed"))
    numbers = [
        ((packed[i // 8] >> 4 * (i % 8) & 15) - 8) * scales[i // 32] for i in range(8 * rows * words)
    ]
    return [rows, 8 * words], struct.pack(f"<{len(numbers)}f", *numbers)


def up_projections(source, name, theirs):
    """W_UK turned and W_UV, a matrix for each head, as files for attention on the latent itself have them."""
    config = source.config["text_config"]
    heads, latent = config["num_attention_heads"], config["kv_lora_rank"]
    nope, width = config["qk_nope_head_dim"], config["v_head_dim"]
    raw, row = source.raw(name), 2 * latent
    keys, values = b"", b""
    for head in range(heads):
        rows = raw[head * (nope + width) * row : (head + 1) * (nope + width) * row]
        keys += b"".join(rows[i * row + 2 * j : i * row + 2 * j + 2] for j in range(latent) for i in range(nope))
        values += rows[nope * row :]
    return [
        (theirs.replace("attn_kv_b", "attn_k_b"), [nope, latent, heads], GGML_BF16, keys),
        (theirs.replace("attn_kv_b", "attn_v_b"), [latent, width, heads], GGML_BF16, values),
    ]


def deepseek_tensors(source, apart):
    tensors = []
    for name in source.header:
        if ".experts." in name:
            continue
        theirs, shape = deepseek_name(name), source.shape(name)
        if apart and ".kv_b_proj." in name:
            tensors += up_projections(source, name, theirs)
        elif source.header[name]["dtype"] == "F32":
            tensors.append((theirs, shape[::-1], GGML_F32, source.raw(name)))
        elif len(shape) == 2:
            tensors.append((theirs, shape[::-1], GGML_BF16, source.raw(name)))
        else:
            tensors.append((theirs, shape, GGML_F32, source.as_f32(name)))
    config = source.config["text_config"]
    for layer in range(config["first_k_dense_replace"], config["num_hidden_layers"]):
        for part in ("gate", "up", "down"):
            matrices = [
                expert_matrix(source, f"language_model.model.layers.{layer}.mlp.experts.{expert}.{part}_proj")
                for expert in range(config["n_routed_experts"])
            ]
            dims = [*matrices[0][0][::-1], len(matrices)]
            raw = b"".join(matrix for _, matrix in matrices)
            tensors.append((f"blk.{layer}.ffn_{part}_exps.weight", dims, GGML_F32, raw))
    return tensors


def deepseek_keys(source, apart):
    config = source.config["text_config"]
    rope = config["rope_scaling"]
    turned, latent = config["qk_rope_head_dim"], config["kv_lora_rank"]
    widths = {"attention.key_length": config["qk_nope_head_dim"] + turned, "attention.value_length": config["v_head_dim"]}
    if apart:
        widths = {key + "_mla": width for key, width in widths.items()}
        widths |= {"attention.key_length": latent + turned, "attention.value_length": latent}
    numbers = widths | {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": 1 if apart else config["num_attention_heads"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "attention.q_lora_rank": config["q_lora_rank"],
        "attention.kv_lora_rank": latent,
        "leading_dense_block_count": config["first_k_dense_replace"],
        "vocab_size": config["vocab_size"],
        "expert_count": config["n_routed_experts"],
        "expert_used_count": config["num_experts_per_tok"],
        "expert_shared_count": config["n_shared_experts"],
        "expert_feed_forward_length": config["moe_intermediate_size"],
        "expert_weights_scale": config["routed_scaling_factor"],
        "expert_gating_func": 2,
        "rope.dimension_count": turned,
        "rope.freq_base": config["rope_theta"],
        "rope.scaling.factor": rope["factor"],
        "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
        "rope.scaling.type": "yarn",
        "rope.scaling.yarn_log_multiplier": 0.1 * rope["mscale_all_dim"],
        "expert_weights_norm": config["norm_topk_prob"],
    }
    return gguf_keys("deepseek2", numbers)


class FamilyTest(GoldenFormTest):
    def refuses(self, keys, tensors, *mentions):
        file = self.folder / "model.gguf"
        checkpoints.write_gguf(file, keys, tensors)
        ids, out = self.folder / "ids.json", self.folder / "logits.safetensors"
        checkpoints.write_json(ids, [1, 2, 3])
        flags = ("--input-ids-file", ids, "--output", out)
        self.assert_refuses(octavo("eval", "logits", file, *flags), *mentions)


class DeepseekTest(FamilyTest):
    def setUp(self):
        super().setUp()
        self.source = Source("kimi-int4")

    def test_golden(self):
        for apart in (False, True):
            with self.subTest(apart=apart):
                keys, tensors = deepseek_keys(self.source, apart), deepseek_tensors(self.source, apart)
                self.assert_golden_gguf(self.source, keys, tensors)

    def test_what_the_file_lacks_or_cannot_mean_is_named(self):
        keys, tensors = deepseek_keys(self.source, True), deepseek_tensors(self.source, True)
        for missing in (
            "blk.0.attn_k_b.weight",
            "blk.1.attn_v_b.weight",
            "blk.1.exp_probs_b.bias",
            "blk.1.ffn_gate_shexp.weight",
            "blk.0.ffn_up.weight",
        ):
            self.refuses(keys, [tensor for tensor in tensors if tensor[0] != missing], missing)
        for missing in ("attention.kv_lora_rank", "rope.dimension_count", "expert_count", "expert_gating_func"):
            self.refuses([key for key in keys if key[0] != "deepseek2." + missing], tensors, "deepseek2." + missing)
        softmax = [(key, kind, 1 if key.endswith("expert_gating_func") else value) for key, kind, value in keys]
        self.refuses(softmax, tensors, "expert_gating_func is 1", "sigmoid")


class Gemma4Test(FamilyTest):
    def setUp(self):
        super().setUp()
        self.source = Source("gemma4-hub")
        self.keys, self.tensors = gemma4_keys(self.source), gemma4_tensors(self.source)

    def changed(self, name, *entry):
        """The keys, one of them another or, without an entry, none."""
        return [(key, *entry) if key == name else (key, *rest) for key, *rest in self.keys if entry or key != name]

    def test_golden(self):
        self.assert_golden_gguf(self.source, self.keys, self.tensors)

    def test_what_the_file_lacks_is_named(self):
        for missing in (
            "blk.1.ffn_norm.weight",
            "blk.2.layer_output_scale.weight",
            "blk.0.inp_gate.weight",
            "per_layer_model_proj.weight",
            "rope_freqs.weight",
        ):
            self.refuses(self.keys, [tensor for tensor in self.tensors if tensor[0] != missing], missing)
        for missing in (
            "block_count",
            "attention.sliding_window_pattern",
            "attention.head_count_kv",
            "attention.key_length_swa",
            "feed_forward_length",
        ):
            self.refuses(self.changed("gemma4." + missing), self.tensors, "gemma4." + missing)

    def test_what_the_file_cannot_mean_is_named(self):
        width = "gemma4.feed_forward_length"
        for key, *entry, mention in (
            (width, ARRAY, (U32, [64, 64, 64, 128]), "has 4 numbers for 5 layers"),
            (width, ARRAY, (U32, [64, 32, 64, 128, 128]), "layer 1 is 32 wide"),
            (width, ARRAY, (U32, [64, 64, 64, 96, 96]), "are 96 wide"),
            (width, STRING, "wide", width),
            ("gemma4.attention.sliding_window_pattern", ARRAY, (BOOL, [True] * 5), "full_attention"),
            ("gemma4.block_count", U32, 0, "gemma4.block_count"),
            ("gemma4.block_count", U32, 1 << 31, "gemma4.block_count"),
            ("gemma4.rope.dimension_count_swa", U32, 64, "gemma4.rope.dimension_count_swa"),
        ):
            self.refuses(self.changed(key, *entry), self.tensors, mention)
        experts = [*self.keys, ("gemma4.expert_count", U32, 8)]
        self.refuses(experts, self.tensors, "enable_moe_block")


if __name__ == "__main__":
    unittest.main()
