"""Writes model.gguf and golden.safetensors beside this file: a tiny Llama whose matrices are packed as mixed files have
them (layer 0 as Q4_K_M: Q4_K with Q6_K; layer 1 in Q5_K, Q5_0, Q5_1, Q4_0 and Q8_0), and its logits in float64 over the
numbers that the gguf package's dequantize reads. Needs gguf and numpy (pip install gguf)."""

import json
import pathlib
import struct
import sys

import gguf
import numpy

FOLDER = pathlib.Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1] / "fixtures/checkpoint"))
from packed_blocks import random_blocks  # noqa: E402

HIDDEN, HEADS, KV_HEADS, HEAD_SIZE, FFN, VOCAB, EPS, BASE = 256, 4, 2, 64, 256, 256, 1e-5, 10000.0
TYPES = [
    {"attn_q": "Q4_K", "attn_k": "Q4_K", "attn_v": "Q6_K", "attn_output": "Q4_K"}
    | {"ffn_gate": "Q4_K", "ffn_up": "Q4_K", "ffn_down": "Q6_K"},
    {"attn_q": "Q5_K", "attn_k": "Q5_0", "attn_v": "Q5_1", "attn_output": "Q8_0"}
    | {"ffn_gate": "Q5_K", "ffn_up": "Q5_0", "ffn_down": "Q5_1"},
]
ROWS = {"attn_q": HEADS * HEAD_SIZE, "attn_k": KV_HEADS * HEAD_SIZE, "attn_v": KV_HEADS * HEAD_SIZE}
ROWS |= {"attn_output": HIDDEN, "ffn_gate": FFN, "ffn_up": FFN, "ffn_down": HIDDEN}


def packed(kind_name, rows, columns, random):
    """(bytes of each row, numbers [rows, columns])"""
    kind = gguf.GGMLQuantizationType[kind_name]
    blocks = random_blocks(kind, rows * columns, random, size=0.25).reshape(rows, -1)
    return kind, blocks, gguf.quants.dequantize(blocks, kind).astype(numpy.float64)


def paired(rows):
    """Rows i and i + D/2 of each head as rows 2i and 2i + 1: how Llama's Q and K lie in GGUF files."""
    heads = rows.reshape(-1, 2, HEAD_SIZE // 2, rows.shape[1])
    return numpy.ascontiguousarray(heads.swapaxes(1, 2)).reshape(rows.shape)


def norm(x, weight):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def turned(x):
    """x [tokens, heads, D], rotated by position, halves paired"""
    half = HEAD_SIZE // 2
    angles = numpy.arange(x.shape[0])[:, None] * BASE ** (-numpy.arange(half) / half)
    cos, sin = numpy.cos(angles)[:, None], numpy.sin(angles)[:, None]
    a, b = x[..., :half], x[..., half:]
    return numpy.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attended(x, w):
    tokens = x.shape[0]
    q = turned((x @ w["attn_q"].T).reshape(tokens, HEADS, HEAD_SIZE))
    k = turned((x @ w["attn_k"].T).reshape(tokens, KV_HEADS, HEAD_SIZE)).repeat(HEADS // KV_HEADS, 1)
    v = (x @ w["attn_v"].T).reshape(tokens, KV_HEADS, HEAD_SIZE).repeat(HEADS // KV_HEADS, 1)
    scores = numpy.einsum("thd,shd->hts", q, k) / numpy.sqrt(HEAD_SIZE)
    scores += numpy.triu(numpy.full((tokens, tokens), -numpy.inf), 1)
    weights = numpy.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return numpy.einsum("hts,shd->thd", weights, v).reshape(tokens, -1) @ w["attn_output"].T


def forward(ids, embedding, layers, last_norm):
    x = embedding[ids]
    for w in layers:
        x = x + attended(norm(x, w["attn_norm"]), w)
        h = norm(x, w["ffn_norm"])
        gate = h @ w["ffn_gate"].T
        x = x + (gate / (1 + numpy.exp(-gate)) * (h @ w["ffn_up"].T)) @ w["ffn_down"].T
    return norm(x, last_norm) @ embedding.T


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, values in tensors.items():
        raw = values.tobytes()
        dtype = {"float32": "F32", "int32": "I32"}[values.dtype.name]
        header[name] = {"dtype": dtype, "shape": values.shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    random = numpy.random.default_rng(7)
    writer = gguf.GGUFWriter(FOLDER / "model.gguf", "llama")
    writer.add_block_count(len(TYPES))
    writer.add_context_length(256)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(EPS)
    writer.add_rope_freq_base(BASE)
    writer.add_rope_dimension_count(HEAD_SIZE)
    writer.add_vocab_size(VOCAB)

    def gains(name):
        values = random.uniform(0.5, 1.5, HIDDEN).astype(numpy.float32)
        writer.add_tensor(name, values)
        return values.astype(numpy.float64)

    kind, blocks, embedding = packed("Q6_K", VOCAB, HIDDEN, random)
    writer.add_tensor("token_embd.weight", blocks, raw_dtype=kind)
    layers = []
    for number, types in enumerate(TYPES):
        w = {name: gains(f"blk.{number}.{name}.weight") for name in ("attn_norm", "ffn_norm")}
        for name, kind_name in types.items():
            kind, blocks, w[name] = packed(kind_name, ROWS[name], FFN if name == "ffn_down" else HIDDEN, random)
            stored = paired(blocks) if name in ("attn_q", "attn_k") else blocks
            writer.add_tensor(f"blk.{number}.{name}.weight", stored, raw_dtype=kind)
        layers.append(w)
    last_norm = gains("output_norm.weight")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    ids = random.integers(0, VOCAB, 40)
    logits = forward(ids, embedding, layers, last_norm)
    tensors = {"input_ids": ids.astype(numpy.int32), "logits": logits.astype(numpy.float32)}
    write_safetensors(FOLDER / "golden.safetensors", tensors)
    (FOLDER / "meta.json").write_text('{"family": "llama"}\n')


main()
