"""Every command as README and --help promise it, on tiny checkpoints, against goldens and the tokenizers package."""

import json
import math
import os
import pathlib
import unittest

import checkpoints
from octavo_program import ProgramTest, octavo

COMMANDS = ("run", "serve", "inspect", "eval", "tokenize", "template")
# From the tokenizers package 0.22 on checkpoints.tokenizer_json().
TOKENIZED = {
    "hello world": [262, 267],
    "<|begin|>hello<|end|>": [1, 262, 2],
    "h\u00e9llo\n\n 12 \U0001f642 don't": [
        107,
        198,
        172,
        260,
        114,
        13,
        13,
        35,
        52,
        53,
        35,
        243,
        162,
        156,
        133,
        35,
        103,
        114,
        113,
        42,
        119,
    ],
    "held world  x": [259, 266, 267, 35, 35, 123],
    "": [],
}


def distance(ours, theirs):
    """Relative L2."""
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(ours, theirs)) / sum(b * b for b in theirs))


class HelpTest(ProgramTest):
    def test_every_command_explains_itself(self):
        for arguments in ([], *([command] for command in COMMANDS), ["eval", "logits"]):
            with self.subTest(arguments):
                out = self.assert_succeeds(octavo(*arguments, "--help")).text
                self.assertGreater(len(out.splitlines()), 3)

    def test_the_first_help_names_every_command(self):
        out = self.assert_succeeds(octavo("--help")).text
        for command in COMMANDS:
            self.assertIn(command, out)

    def test_run_helps_with_every_flag(self):
        out = self.assert_succeeds(octavo("run", "--help")).text
        for flag in (
            "--dtype",
            "--kv-cache-dtype",
            "--kv-cache-transform",
            "--kv-cache-dtype-skip-layers",
            "--max-model-len",
            "--block-size",
            "--kv-cache-memory-bytes",
            "--max-num-batched-tokens",
            "--max-num-seqs",
            "--enable-prefix-caching",
            "--seed",
            "--load-format",
            "--hf-overrides",
            "--rope-scaling",
            "--chat-template",
            "--threads",
            "--cpu-isa",
            "--deterministic",
            "--device",
            "--temperature",
            "--top-p",
            "--top-k",
            "--max-tokens",
            "--system",
        ):
            self.assertIn(flag, out)


class TokenizeTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = checkpoints.make_checkpoint(self.folder / "model")

    def test_text_to_ids_and_back(self):
        for text, ids in TOKENIZED.items():
            with self.subTest(text):
                self.assertEqual(
                    json.loads(self.assert_succeeds(octavo("tokenize", self.model, stdin=text.encode())).out), ids
                )
                back = octavo("tokenize", self.model, "--decode", stdin=json.dumps(ids).encode())
                self.assertEqual(self.assert_succeeds(back).text.removesuffix("\n"), text.removesuffix("\n"))

    def test_plain_reads_special_tokens_as_text(self):
        ids = json.loads(self.assert_succeeds(octavo("tokenize", self.model, "--plain", stdin=b"<|end|>")).out)
        self.assertNotIn(2, ids)
        self.assertEqual(len(ids), len("<|end|>"))

    def test_lines_of_json(self):
        lines = [{"text": text} for text in TOKENIZED] + [
            {"ids": [1, 262, 2]},
            {"ids": [1, 262, 2], "skip_special": True},
        ]
        out = self.assert_succeeds(
            octavo("tokenize", self.model, "--jsonl", stdin="\n".join(map(json.dumps, lines)).encode())
        )
        answers = [json.loads(line) for line in out.text.splitlines()]
        self.assertEqual(answers[: len(TOKENIZED)], [{"ids": ids} for ids in TOKENIZED.values()])
        self.assertEqual(answers[len(TOKENIZED) :], [{"text": "<|begin|>hello<|end|>"}, {"text": "hello"}])

    def test_a_gguf_file_has_the_same_tokenizer(self):
        file = self.folder / "tiny.gguf"
        checkpoints.write_gguf(file, *checkpoints.gguf_parts())
        for text in ("hello world", "<|begin|>hello<|end|>", "held world"):
            ids = json.loads(self.assert_succeeds(octavo("tokenize", file, stdin=text.encode())).out)
            self.assertEqual(ids, TOKENIZED.get(text, [259, 266, 267]))

    def test_needs_only_the_tokenizer(self):
        (self.model / "model.safetensors").unlink()
        self.assert_succeeds(octavo("tokenize", self.model, stdin=b"hello"))
        self.assert_succeeds(octavo("template", self.model, stdin=b'{"messages": []}'))


class TemplateTest(ProgramTest):
    CHAT = {"messages": [{"role": "user", "content": "hello"}], "add_generation_prompt": True}
    PROMPT = "<|begin|>user: hello<|end|><|begin|>assistant: "

    def setUp(self):
        super().setUp()
        self.model = checkpoints.make_checkpoint(self.folder / "model")

    def test_messages_to_prompt(self):
        out = self.assert_succeeds(octavo("template", self.model, stdin=json.dumps(self.CHAT).encode())).text
        self.assertEqual(out.removesuffix("\n"), self.PROMPT)

    def test_lines_of_json_answer_one_by_one(self):
        checkpoints.change_json(
            self.model / "tokenizer_config.json",
            chat_template=checkpoints.CHAT_TEMPLATE + "{{ raise_exception(why) if why }}",
        )
        lines = [self.CHAT, self.CHAT | {"why": "no such role"}, self.CHAT]
        out = self.assert_succeeds(
            octavo("template", self.model, "--jsonl", stdin="\n".join(map(json.dumps, lines)).encode())
        ).text
        first, second, third = map(json.loads, out.splitlines())
        self.assertEqual((first, third), ({"prompt": self.PROMPT},) * 2)
        self.assertIn("no such role", second["error"])

    def test_a_template_of_the_users_own(self):
        own = self.folder / "own.jinja"
        own.write_text("{{ messages | length }}!")
        out = self.assert_succeeds(
            octavo("template", self.model, "--chat-template", own, stdin=json.dumps(self.CHAT).encode())
        )
        self.assertEqual(out.text.strip(), "1!")


class InspectTest(ProgramTest):
    def test_says_what_the_checkpoint_is(self):
        for name, family in (("llama-base", "llama"), ("qwen3-base", "qwen3"), ("llama-fp8-tensor-kv", "llama")):
            with self.subTest(name):
                out = self.assert_succeeds(octavo("inspect", checkpoints.golden(name))).text
                self.assertIn(family, out)
                config = checkpoints.read_json(checkpoints.golden(name) / "config.json")
                for key in ("max_position_embeddings", "num_hidden_layers", "vocab_size"):
                    self.assertIn(str(config[key]), out.replace(",", ""))

    def test_json_holds_the_bytes_of_a_token(self):
        model = checkpoints.make_checkpoint(self.folder / "model")
        facts = json.loads(self.assert_succeeds(octavo("inspect", model, "--json")).out)
        text = json.dumps(facts)
        # 3 layers, K and V, 2 heads of 64: 768 elements a token.
        for size in (768, 1536, 3072):
            self.assertIn(str(size), text)

    def test_finds_the_scales_of_the_cache(self):
        out = self.assert_succeeds(octavo("inspect", checkpoints.golden("llama-fp8-tensor-kv"))).text
        self.assertIn("model.layers.0.self_attn.k_scale in ", out)

    def test_says_what_is_not_supported_and_why(self):
        model = checkpoints.make_checkpoint(self.folder / "model")
        checkpoints.change_json(
            model / "config.json", architectures=["GPT2LMHeadModel"], quantization_config={"quant_method": "awq"}
        )
        facts = json.loads(self.assert_succeeds(octavo("inspect", model, "--json")).out)
        self.assertEqual(facts["architecture"], ["GPT2LMHeadModel"])
        self.assertEqual(facts["hidden_size"], 64)
        reasons = " ".join(facts["not_supported"])
        self.assertIn("GPT2LMHeadModel", reasons)
        self.assertIn("awq", reasons)

    def test_a_gguf_file(self):
        file = self.folder / "tiny.gguf"
        checkpoints.write_gguf(file, *checkpoints.gguf_parts())
        self.assertIn("llama", self.assert_succeeds(octavo("inspect", file)).text)


class EvalTest(ProgramTest):
    def logits(self, model, *flags, golden="llama-base"):
        ids, out = self.folder / "ids.json", self.folder / "out.safetensors"
        checkpoints.write_json(
            ids, checkpoints.read_integers(checkpoints.golden(golden) / "golden.safetensors", "input_ids")
        )
        self.assert_succeeds(octavo("eval", "logits", model, "--input-ids-file", ids, "--output", out, *flags))
        shape, values = checkpoints.read_floats(out, "logits")
        self.assertEqual(shape, [96, 512])
        return values

    def expected(self, golden="llama-base"):
        return checkpoints.read_floats(checkpoints.golden(golden) / "golden.safetensors", "logits")[1]

    def test_float32_agrees_with_the_reference(self):
        for name in ("llama-base", "qwen3-base", "llama-fp8-tensor-kv"):
            with self.subTest(name):
                ours = self.logits(checkpoints.golden(name), "--dtype", "float32", golden=name)
                self.assertLess(distance(ours, self.expected(name)), 5e-4)

    def test_a_gguf_file_of_the_same_weights_agrees_too(self):
        file = self.folder / "tiny.gguf"
        checkpoints.write_gguf(file, *checkpoints.gguf_parts())
        self.assertLess(distance(self.logits(file, "--dtype", "float32"), self.expected()), 5e-4)

    def test_decode_steps_and_chunks_give_the_same_logits(self):
        whole = self.logits(checkpoints.golden("llama-base"), "--dtype", "float32")
        for flags in (
            ("--decode-from", 90),
            ("--decode-from", 1),
            ("--max-num-batched-tokens", 7),
            ("--block-size", 32),
        ):
            with self.subTest(flags):
                ours = self.logits(checkpoints.golden("llama-base"), "--dtype", "float32", *flags)
                self.assertLess(distance(ours, whole), 1e-5)

    def test_every_cache_stays_near_the_reference(self):
        for cache in ("auto", "bfloat16", "float32", "fp8", "fp8_e4m3", "fp8_e5m2", "int8", "int8:fp8"):
            with self.subTest(cache):
                ours = self.logits(checkpoints.golden("llama-base"), "--kv-cache-dtype", cache)
                self.assertLess(distance(ours, self.expected()), 0.2)


class RunTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = checkpoints.make_checkpoint(self.folder / "model")

    def test_an_answer_is_repeatable(self):
        flags = ("run", self.model, "-p", "hello world", "--max-tokens", 12)
        greedy = self.assert_succeeds(octavo(*flags, "--temperature", 0)).out
        self.assertEqual(
            self.assert_succeeds(octavo(*flags, "--temperature", 0, "--no-enable-prefix-caching")).out, greedy
        )
        drawn = self.assert_succeeds(octavo(*flags, "--temperature", 1, "--seed", 7)).out
        self.assertEqual(self.assert_succeeds(octavo(*flags, "--temperature", 1, "--seed", 7)).out, drawn)

    def test_the_flags_of_sampling_and_of_the_cache(self):
        for flags in (
            ("--top-k", 5, "--top-p", 0.9, "--temperature", 0.7),
            ("--kv-cache-dtype", "fp8"),
            ("--kv_cache_dtype=int8:fp8",),
            ("--system", "Be brief."),
            ("--kv-cache-dtype", "fp8", "--kv-cache-transform", "none"),
            ("--threads", 1),
            ("--kv-cache-dtype", "fp8", "--kv-cache-dtype-skip-layers", "0,-1"),
            ("--max-model-len", "1k"),
            ("--max-model-len", "auto"),
            ("--kv-cache-dtype", "fp8", "--kv-cache-dtype-skip-layers", "0-1", "2"),
            ("--cpu-isa", "plain", "--deterministic"),
            ("--device", "cpu"),
            ("--hf-overrides", '{"rms_norm_eps": 1e-6}'),
            ("--load-format", "safetensors"),
            ("--load-format", "dummy"),
            ("--rope-scaling", '{"rope_type": "linear", "factor": 2.0}'),
        ):
            with self.subTest(flags):
                self.assert_succeeds(octavo("run", self.model, "-p", "hello", "--max-tokens", 4, *flags))

    def test_a_gguf_file_answers(self):
        file = self.folder / "tiny.gguf"
        checkpoints.write_gguf(file, *checkpoints.gguf_parts())
        flags = ("-p", "hello world", "--max-tokens", 8, "--temperature", 0, "--dtype", "float32")
        self.assertEqual(
            self.assert_succeeds(octavo("run", file, *flags)).out,
            self.assert_succeeds(octavo("run", self.model, *flags)).out,
        )


class WhereModelsAreFoundTest(ProgramTest):
    def cached(self, hub):
        """org/name in the layout of the local Hugging Face cache."""
        repository = hub / "models--org--name"
        checkpoints.make_checkpoint(repository / "snapshots/abc123")
        (repository / "refs").mkdir()
        (repository / "refs/main").write_text("abc123")

    def test_in_the_local_hugging_face_cache(self):
        self.cached(self.folder / "home/hub")
        self.cached(self.folder / "elsewhere")
        for place in ({"HF_HOME": str(self.folder / "home")}, {"HF_HUB_CACHE": str(self.folder / "elsewhere")}):
            with self.subTest(place):
                out = self.assert_succeeds(octavo("tokenize", "org/name", stdin=b"hello", **place)).out
                self.assertEqual(json.loads(out), [262])

    def test_nothing_found_says_what_and_where(self):
        self.assert_refuses(octavo("run", "org/name", "-p", "hi", HF_HOME=str(self.folder)), "org/name", self.folder)
        self.assert_refuses(octavo("run", self.folder / "none.gguf", "-p", "hi"), "none.gguf")
        self.assert_refuses(octavo("inspect", self.folder), self.folder)
        self.assert_refuses(
            octavo("run", "-p", "hi", XDG_CACHE_HOME=str(self.folder)), self.folder / "octavo", "scripts/demo"
        )


class DefaultModelTest(ProgramTest):
    def test_a_real_model_answers_through_the_8_bit_cache(self):
        cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
        if not (cache / "octavo/SmolLM2-135M-Instruct.Q4_1.gguf").exists():
            print("1 case not run: scripts/demo or scripts/test fetches the default model")
            return
        outcome = octavo(
            "run",
            "--kv-cache-dtype",
            "fp8",
            "--temperature",
            0,
            "--max-tokens",
            16,
            "-p",
            "What is the capital of France?",
            XDG_CACHE_HOME=str(cache),
            timeout=300,
        )
        self.assertIn("Paris", self.assert_succeeds(outcome).text)


if __name__ == "__main__":
    unittest.main()
