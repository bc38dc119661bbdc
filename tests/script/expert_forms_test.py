"""Golden checkpoints with experts in the other forms that files have: octavo's logits are the reference library's,
within float32. GGUF as its converters write it (the names are those of ggml's documentation and converter), and
safetensors with one tensor for all experts of a layer."""

import json
import struct
import unittest

import checkpoints
from checkpoints import ARRAY, I32, STRING, U32
from golden_form import GGML_BF16, GGML_F32, WHOLE, GoldenFormTest, Source, gguf_keys
from octavo_program import octavo

GGML_MXFP4 = 39
LAYER_PARTS = {
    "input_layernorm.weight": "attn_norm.weight",
    "post_attention_layernorm.weight": "ffn_norm.weight",
    "self_attn.q_proj.": "attn_q.",
    "self_attn.k_proj.": "attn_k.",
    "self_attn.v_proj.": "attn_v.",
    "self_attn.o_proj.": "attn_output.",
    "self_attn.q_norm.": "attn_q_norm.",
    "self_attn.k_norm.": "attn_k_norm.",
    "mlp.gate.": "ffn_gate_inp.",
    "mlp.router.": "ffn_gate_inp.",
    "self_attn.sinks": "attn_sinks.weight",
}


def keys_of(config, architecture, **more):
    keys = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config["head_dim"],
        "attention.value_length": config["head_dim"],
        "attention.layer_norm_rms_epsilon": config["rms_norm_eps"],
        "rope.freq_base": config["rope_theta"],
        "vocab_size": config["vocab_size"],
        "expert_count": config["num_local_experts"],
        "expert_used_count": config["num_experts_per_tok"],
    } | more
    return gguf_keys(architecture, keys)


def plain_tensors(source):
    """All that is no expert's: vectors as F32, bf16 matrices as they are, e4m3 ones as F32."""
    tensors = []
    for name in source.header:
        if ".experts." in name or name.endswith("_scale_inv"):
            continue
        theirs = WHOLE.get(name)
        if theirs is None:
            _, _, layer, rest = name.split(".", 3)
            ours = next(part for part in LAYER_PARTS if rest.startswith(part))
            theirs = f"blk.{layer}." + rest.replace(ours, LAYER_PARTS[ours])
        shape = source.shape(name)
        if len(shape) == 2 and source.header[name]["dtype"] == "BF16":
            tensors.append((theirs, shape[::-1], GGML_BF16, source.raw(name)))
        else:
            tensors.append((theirs, shape[::-1], GGML_F32, source.as_f32(name)))
    return tensors


def qwen3moe():
    source = Source("qwen3moe-fp8-block")
    config = source.config
    tensors = plain_tensors(source)
    for layer in range(config["num_hidden_layers"]):
        for part in ("gate", "up", "down"):
            names = [
                f"model.layers.{layer}.mlp.experts.{expert}.{part}_proj.weight"
                for expert in range(config["num_local_experts"])
            ]
            raw = b"".join(source.as_f32(name) for name in names)
            dims = [*source.shape(names[0])[::-1], len(names)]
            tensors.append((f"blk.{layer}.ffn_{part}_exps.weight", dims, GGML_F32, raw))
    keys = keys_of(config, "qwen3moe", expert_feed_forward_length=config["moe_intermediate_size"])
    return source, keys, tensors


def ggml_blocks(blocks, scales):
    """Neighbours in a byte become the first and the second half of 32 numbers, behind their scale."""
    out = bytearray()
    for i, scale in enumerate(scales):
        codes = [code for pair in blocks[16 * i : 16 * i + 16] for code in (pair & 15, pair >> 4)]
        out.append(scale)
        out += bytes(codes[j] | codes[j + 16] << 4 for j in range(16))
    return bytes(out)


def gpt_oss():
    source = Source("gptoss-mxfp4")
    config = source.config
    rope = config["rope_scaling"]
    tensors = [
        (name.replace(".ffn_norm.", ".post_attention_norm."), *rest) for name, *rest in plain_tensors(source)
    ]
    experts, width, hidden = config["num_local_experts"], config["intermediate_size"], config["hidden_size"]
    for layer in range(config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}.mlp.experts."
        for part, matrix, first, step in (("gate", "gate_up", 0, 2), ("up", "gate_up", 1, 2), ("down", "down", 0, 1)):
            blocks, scales = (source.raw(f"{prefix}{matrix}_proj_{kind}") for kind in ("blocks", "scales"))
            groups = (hidden if matrix == "gate_up" else width) // 32
            rows = range(first, len(scales) // groups, step)
            raw = b"".join(
                ggml_blocks(blocks[16 * groups * row : 16 * groups * (row + 1)], scales[groups * row : groups * (row + 1)])
                for row in rows
            )
            name = f"blk.{layer}.ffn_{part}_exps"
            tensors.append((name + ".weight", [32 * groups, len(rows) // experts, experts], GGML_MXFP4, raw))
            bias = source.floats(f"{prefix}{matrix}_proj_bias")[first::step]
            tensors.append(
                (name + ".bias", [len(rows) // experts, experts], GGML_F32, struct.pack(f"<{len(bias)}f", *bias))
            )
    more = {
        "expert_feed_forward_length": width,
        "attention.sliding_window": config["sliding_window"],
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": rope["factor"],
        "rope.scaling.original_context_length": rope["original_max_position_embeddings"],
    }
    return source, keys_of(config, "gpt-oss", **more), tensors


def write_fused(folder):
    """The golden with separate experts, dequantised, its gate and up matrices in one tensor: gate's rows, then up's."""
    source = Source("qwen3moe-fp8-block")
    experts = range(source.config["num_local_experts"])
    tensors = {
        name: (source.shape(name), source.as_f32(name))
        for name in source.header
        if ".experts." not in name and not name.endswith("_scale_inv")
    }
    for layer in range(source.config["num_hidden_layers"]):
        prefix = f"model.layers.{layer}.mlp.experts"
        for fused, parts in (("gate_up_proj", ("gate", "up")), ("down_proj", ("down",))):
            rows, cols = source.shape(f"{prefix}.0.{parts[0]}_proj.weight")
            raw = b"".join(source.as_f32(f"{prefix}.{e}.{part}_proj.weight") for e in experts for part in parts)
            tensors[f"{prefix}.{fused}"] = ([len(experts), rows * len(parts), cols], raw)
    header, data = {}, b""
    for name, (shape, raw) in tensors.items():
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    folder.mkdir()
    checkpoints.write_safetensors(folder / "model.safetensors", header, data)
    checkpoints.write_json(folder / "config.json", source.config)
    checkpoints.change_json(folder / "config.json", quantization_config=None)
    return source


class ExpertFormsTest(GoldenFormTest):
    def test_gguf_with_a_tensor_of_all_experts_for_each_part(self):
        self.assert_golden_gguf(*qwen3moe())

    def test_gguf_with_mxfp4_sinks_windows_and_biases(self):
        self.assert_golden_gguf(*gpt_oss())

    def test_safetensors_with_one_tensor_for_all_experts(self):
        folder = self.folder / "fused"
        self.assert_golden(write_fused(folder), folder)

    def test_an_answer_of_several_messages_ends_with_the_last(self):
        """<|end|> ends a message in harmony; an answer goes on after it, to <|return|> or <|call|>."""
        _, keys, tensors = gpt_oss()
        names = {500: "<|endoftext|>", 501: "<|return|>", 503: "<|call|>", 504: "<|start|>"}
        tokens = [names.get(i, token) for i, token in enumerate(checkpoints.vocabulary())]
        types = [3 if i in names or token in checkpoints.SPECIAL else 1 for i, token in enumerate(tokens)]
        merges = [f"{left} {right}" for left, right in checkpoints.MERGES]
        keys += [
            ("tokenizer.ggml.model", STRING, "gpt2"),
            ("tokenizer.ggml.pre", STRING, "gpt-4o"),
            ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
            ("tokenizer.ggml.token_type", ARRAY, (I32, types)),
            ("tokenizer.ggml.merges", ARRAY, (STRING, merges)),
            ("tokenizer.ggml.eos_token_id", U32, 501),
        ]
        file = self.folder / "model.gguf"
        checkpoints.write_gguf(file, keys, tensors)
        report = json.loads(self.assert_succeeds(octavo("inspect", file, "--json")).out)
        self.assertEqual(sorted(report["eos_token_ids"]), [500, 501, 503])

    def test_what_a_gguf_file_lacks_is_named(self):
        file = self.folder / "model.gguf"
        _, keys, tensors = gpt_oss()
        for missing in ("blk.1.ffn_up_exps.weight", "blk.1.ffn_up_exps.bias", "blk.0.attn_sinks.weight"):
            checkpoints.write_gguf(file, keys, [entry for entry in tensors if entry[0] != missing])
            self.assert_refuses(octavo("inspect", file), missing)
        for missing in ("gpt-oss.expert_count", "gpt-oss.expert_used_count", "gpt-oss.attention.sliding_window"):
            checkpoints.write_gguf(file, [entry for entry in keys if entry[0] != missing], tensors)
            self.assert_refuses(octavo("inspect", file), missing)


if __name__ == "__main__":
    unittest.main()
