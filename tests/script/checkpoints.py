"""Tiny checkpoints for the script tests: the committed golden ones with a tokenizer of our own, whole or damaged.

Everything is written with the standard library alone, from the formats' descriptions, so that octavo's readers are
tested against files that octavo did not write.
"""

import array
import json
import pathlib
import shutil
import struct

from octavo_program import SOURCE_DIR

VOCABULARY_SIZE = 512
MERGES = [
    ("h", "e"),
    ("l", "l"),
    ("he", "ll"),
    ("hell", "o"),
    ("\u0120", "w"),
    ("o", "r"),
    ("\u0120w", "or"),
    ("l", "d"),
    ("\u0120wor", "ld"),
]
SPECIAL = ["<|pad|>", "<|begin|>", "<|end|>"]
CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|begin|>' + m['role'] + ': ' + m['content'] + '<|end|>' }}{% endfor %}"
    "{% if add_generation_prompt %}<|begin|>assistant: {% endif %}"
)


def byte_characters():
    """The printable stand-in for each byte that byte-level vocabularies use."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable} | {byte: chr(0x100 + i) for i, byte in enumerate(others)}
    return [table[byte] for byte in range(256)]


def vocabulary():
    """512 tokens by id: three special ones, the bytes, the merges, and some that no merge makes."""
    tokens = SPECIAL + byte_characters() + [left + right for left, right in MERGES]
    return tokens + [f"unused{number}" for number in range(VOCABULARY_SIZE - len(tokens))]


def tokenizer_json():
    tokens = vocabulary()
    added = [
        {
            "id": number,
            "content": token,
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for number, token in enumerate(SPECIAL)
    ]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(tokens)},
            "merges": [f"{left} {right}" for left, right in MERGES],
        },
    }


def golden(name):
    return SOURCE_DIR / "tests/golden" / name


def make_checkpoint(folder, name="llama-base"):
    """A copy of a golden checkpoint that can be damaged, with tokenizer and chat template."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for file in ("config.json", "model.safetensors"):
        shutil.copyfile(golden(name) / file, folder / file)
    write_json(folder / "tokenizer.json", tokenizer_json())
    write_json(
        folder / "tokenizer_config.json",
        {"bos_token": "<|begin|>", "eos_token": "<|end|>", "pad_token": "<|pad|>", "chat_template": CHAT_TEMPLATE},
    )
    return folder


def read_json(path):
    return json.loads(path.read_text())


def write_json(path, value):
    path.write_text(json.dumps(value))


def change_json(path, **changes):
    """Sets keys of a JSON object; None removes one."""
    value = read_json(path) | changes
    write_json(path, {key: entry for key, entry in value.items() if entry is not None})


def read_safetensors(path):
    """(header, data): names -> {dtype, shape, data_offsets}, and the bytes behind the header."""
    raw = path.read_bytes()
    (size,) = struct.unpack_from("<Q", raw)
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def write_safetensors(path, header, data):
    """header may also be the header's text, to write one that no JSON library would."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_floats(path, name):
    """(shape, values) of a tensor of F32."""
    header, data = read_safetensors(path)
    begin, end = header[name]["data_offsets"]
    assert header[name]["dtype"] == "F32", header[name]
    values = array.array("f")
    values.frombytes(data[begin:end])
    return header[name]["shape"], values


def read_integers(path, name):
    header, data = read_safetensors(path)
    begin, end = header[name]["data_offsets"]
    values = array.array({"I32": "i", "I64": "q"}[header[name]["dtype"]])
    values.frombytes(data[begin:end])
    return list(values)


U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10
GGML_F32, GGML_BF16 = 0, 30


def gguf_string(text):
    raw = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(raw)) + raw


def gguf_value(kind, value):
    if kind == STRING:
        return gguf_string(value)
    if kind == ARRAY:
        element, values = value
        return struct.pack("<IQ", element, len(values)) + b"".join(gguf_value(element, entry) for entry in values)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q"}[kind], value)


def write_gguf(path, keys, tensors, counts=None, magic=b"GGUF", version=3, alignment=32):
    """keys: [(name, kind, value)]; tensors: [(name, dims fastest first, type, bytes)], a fifth entry sets the offset."""
    records, data = b"", b""
    for name, dims, kind, raw, *offset in tensors:
        records += gguf_string(name) + struct.pack(
            f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset[0] if offset else len(data)
        )
        data += raw + bytes(-len(raw) % alignment)
    head = magic + struct.pack("<IQQ", version, *(counts or (len(tensors), len(keys))))
    head += b"".join(
        gguf_string(name) + struct.pack("<I", kind) + gguf_value(kind, value) for name, kind, value in keys
    )
    head += records
    path.write_bytes(head + bytes(-len(head) % alignment) + data)


def gguf_parts():
    """(keys, tensors) of llama-base as a GGUF file: names, row order of Q and K, and keys as converters write them."""
    config = read_json(golden("llama-base") / "config.json")
    header, data = read_safetensors(golden("llama-base") / "model.safetensors")
    tokens = vocabulary()
    keys = [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "tiny"),
        ("llama.block_count", U32, config["num_hidden_layers"]),
        ("llama.context_length", U32, config["max_position_embeddings"]),
        ("llama.embedding_length", U32, config["hidden_size"]),
        ("llama.feed_forward_length", U32, config["intermediate_size"]),
        ("llama.attention.head_count", U32, config["num_attention_heads"]),
        ("llama.attention.head_count_kv", U32, config["num_key_value_heads"]),
        ("llama.attention.key_length", U32, config["head_dim"]),
        ("llama.attention.value_length", U32, config["head_dim"]),
        ("llama.attention.layer_norm_rms_epsilon", F32, config["rms_norm_eps"]),
        ("llama.rope.freq_base", F32, 10000.0),
        ("llama.rope.dimension_count", U32, config["head_dim"]),
        ("llama.vocab_size", U32, config["vocab_size"]),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "smollm"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, (I32, [3 if token in SPECIAL else 1 for token in tokens])),
        ("tokenizer.ggml.merges", ARRAY, (STRING, [f"{left} {right}" for left, right in MERGES])),
        ("tokenizer.ggml.bos_token_id", U32, 1),
        ("tokenizer.ggml.eos_token_id", U32, 2),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.chat_template", STRING, CHAT_TEMPLATE),
    ]
    parts = {
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    names = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}
    for layer in range(config["num_hidden_layers"]):
        names |= {
            f"model.layers.{layer}.{ours}.weight": f"blk.{layer}.{theirs}.weight" for ours, theirs in parts.items()
        }
    tensors = []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[begin:end]
        if entry["dtype"] == "BF16" and len(entry["shape"]) == 1:  # norms are F32 in a GGUF file
            raw = b"".join(b"\0\0" + raw[i : i + 2] for i in range(0, len(raw), 2))
        if ".q_proj." in name or ".k_proj." in name:
            raw = interleave_rows(raw, config["head_dim"], entry["shape"][0])
        kind = GGML_F32 if len(entry["shape"]) == 1 else GGML_BF16
        tensors.append((names[name], entry["shape"][::-1], kind, raw))
    return keys, tensors


def interleave_rows(raw, head_size, num_rows):
    """Rows i and i + D/2 of each head become rows 2i and 2i + 1."""
    width = len(raw) // num_rows
    rows = [raw[i * width : (i + 1) * width] for i in range(num_rows)]
    half = head_size // 2
    order = [
        head + pair + side * half for head in range(0, num_rows, head_size) for pair in range(half) for side in (0, 1)
    ]
    return b"".join(rows[row] for row in order)
