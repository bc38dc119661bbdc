"""A tiny checkpoint that says what a test wants: after a script's own token it writes the script's text, then ends.

Its layers add nothing, so the next token depends on the last one alone: the row of the output matrix that belongs to
a token points where the embedding of the token before it lies. So no token may stand in two scripts, and texts are cut
into tokens that stand nowhere else, some of them in the middle of a character.
"""

import random
import struct

from served import checkpoints

EOS = 2
LONGEST_PIECE = 12


def bfloat16(value):
    return struct.pack("<f", value)[2:]


def spelled(piece):
    table = checkpoints.byte_characters()
    return "".join(table[byte] for byte in piece)


def cut(rest, marks, used):
    """The text as pieces of bytes that nobody used, or None; marks are pieces of their own."""
    if not rest:
        return []
    mark = next((mark for mark in marks if rest.startswith(mark)), None)
    limit = min([LONGEST_PIECE] + [place for place in (rest.find(mark) for mark in marks) if place > 0])
    for piece in [mark] if mark else [rest[:size] for size in (*range(2, limit + 1), 1)]:
        if piece in used:
            continue
        others = cut(rest[len(piece) :], marks, used | {piece})
        if others is not None:
            return [piece, *others]
    return None


def make_scripted(folder, template, scripts, marks=()):
    """scripts: {special token in a message: the answer}. marks: special tokens that answers may hold, each once."""
    folder = checkpoints.make_checkpoint(folder)
    tokens = checkpoints.vocabulary()
    free = [number for number, token in enumerate(tokens) if token.startswith("unused")]
    used = {left.encode() + right.encode() for left, right in checkpoints.MERGES}
    special = {}
    followers = {}

    def take(token):
        number = free.pop(0)
        tokens[number] = token
        return number

    for mark in marks:
        special[mark] = take(mark)
    for name, text in scripts.items():
        special[name] = last = take(name)
        pieces = cut(text.encode(), [mark.encode() for mark in marks], used)
        assert pieces, f"{text!r} cannot be cut into pieces that stand nowhere else"
        used.update(pieces)
        for piece in pieces:
            if len(piece) == 1:
                number = tokens.index(spelled(piece))
            else:
                number = special.get(piece.decode(errors="replace")) or take(spelled(piece))
            followers[last], last = number, number
        followers[last] = EOS

    tokenizer = checkpoints.tokenizer_json()
    tokenizer["model"]["vocab"] = {token: number for number, token in enumerate(tokens)}
    form = tokenizer["added_tokens"][0]
    tokenizer["added_tokens"] += [form | {"id": number, "content": token} for token, number in special.items()]
    checkpoints.write_json(folder / "tokenizer.json", tokenizer)
    checkpoints.change_json(folder / "tokenizer_config.json", chat_template=template)
    checkpoints.change_json(folder / "config.json", tie_word_embeddings=False)
    write_weights(folder / "model.safetensors", followers)
    return folder


def packed(matrix):
    return b"".join(bfloat16(value) for row in matrix for value in row)


def write_weights(path, followers):
    header, data = checkpoints.read_safetensors(path)
    rows, width = header["model.embed_tokens.weight"]["shape"]
    signs = random.Random(1)
    embedding = [[signs.choice((-1.0, 1.0)) for _ in range(width)] for _ in range(rows)]
    output = [[0.0] * width for _ in range(rows)]
    for token, follower in followers.items():  # several end in the same token
        output[follower] = [a + b for a, b in zip(output[follower], embedding[token])]
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        raw = data[begin:end]
        if name == "model.embed_tokens.weight":
            raw = packed(embedding)
        elif name.endswith("norm.weight"):
            raw = bfloat16(1.0) * (len(raw) // 2)
        elif "o_proj" in name or "down_proj" in name:
            raw = bytes(len(raw))
        tensors[name] = (entry["shape"], raw)
    tensors["lm_head.weight"] = ([rows, width], packed(output))
    header, data = {}, b""
    for name, (shape, raw) in tensors.items():
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    checkpoints.write_safetensors(path, header, data)
