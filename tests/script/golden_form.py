"""The tensors of a golden checkpoint, as other forms of it are made, and a test that holds such a form to its logits."""

import math
import struct

import checkpoints
from checkpoints import BOOL, F32, STRING, U32
from octavo_program import ProgramTest, octavo

GGML_F32, GGML_BF16 = 0, 30
WHOLE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def gguf_keys(architecture, numbers):
    """Metadata in GGUF's kinds, by what Python has: the architecture, and keys behind its name."""
    kinds = {bool: BOOL, int: U32, float: F32, str: STRING}
    return [("general.architecture", STRING, architecture)] + [
        (f"{architecture}.{key}", kinds[type(value)], value) for key, value in numbers.items()
    ]


def e4m3(code):
    exponent, mantissa = code >> 3 & 15, code & 7
    value = math.ldexp(mantissa, -9) if exponent == 0 else math.ldexp(8 + mantissa, exponent - 10)
    return -value if code & 128 else value


def floats_of_bf16(raw):
    return [struct.unpack("<f", b"\0\0" + raw[i : i + 2])[0] for i in range(0, len(raw), 2)]


class Source:
    """A golden checkpoint's tensors."""

    def __init__(self, name):
        self.folder = checkpoints.golden(name)
        self.config = checkpoints.read_json(self.folder / "config.json")
        self.header, self.data = checkpoints.read_safetensors(self.folder / "model.safetensors")
        self.header.pop("__metadata__", None)

    def raw(self, name):
        begin, end = self.header[name]["data_offsets"]
        return self.data[begin:end]

    def shape(self, name):
        return self.header[name]["shape"]

    def floats(self, name):
        """As F32, e4m3 times its scales of 128 x 128: exact in float32."""
        raw = self.raw(name)
        if self.header[name]["dtype"] == "BF16":
            return floats_of_bf16(raw)
        rows, cols = self.shape(name)
        scales = floats_of_bf16(self.raw(name + "_scale_inv"))
        per_row = (cols + 127) // 128
        return [
            e4m3(raw[i]) * scales[i // cols // 128 * per_row + i % cols // 128] for i in range(rows * cols)
        ]

    def as_f32(self, name):
        numbers = self.floats(name)
        return struct.pack(f"<{len(numbers)}f", *numbers)


class GoldenFormTest(ProgramTest):
    """octavo's logits of a file are the reference library's, within float32."""

    def logits(self, source, file):
        ids = checkpoints.read_integers(source.folder / "golden.safetensors", "input_ids")
        ids_file, out = self.folder / "ids.json", self.folder / "logits.safetensors"
        checkpoints.write_json(ids_file, ids)
        flags = ("--input-ids-file", ids_file, "--output", out, "--dtype", "float32", "--max-model-len", 128)
        self.assert_succeeds(octavo("eval", "logits", file, *flags))
        return checkpoints.read_floats(out, "logits")[1]

    def assert_golden(self, source, file):
        ours = self.logits(source, file)
        golden = checkpoints.read_floats(source.folder / "golden.safetensors", "logits")[1]
        self.assertEqual(len(ours), len(golden))
        distance = math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(ours, golden)))
        self.assertLess(distance / math.sqrt(math.fsum(b * b for b in golden)), 5e-4)

    def assert_golden_gguf(self, source, keys, tensors):
        file = self.folder / "model.gguf"
        checkpoints.write_gguf(file, keys, tensors)
        self.assert_golden(source, file)
