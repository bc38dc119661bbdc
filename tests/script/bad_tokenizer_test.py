"""Tokenizers and chat templates that are damaged or ask for what octavo does not know:
each ends in one sentence that names the thing, and exit code 1."""

import unittest

import checkpoints
from bad_model import HUGE, BadModelTest
from octavo_program import octavo


class TokenizerTest(BadModelTest):
    def test_a_file_that_is_no_json(self):
        path = self.model / "tokenizer.json"
        good = path.read_text()
        for text in ("", "{", "[]", good[: len(good) // 2], "\xff".join(good[:9]), "[" * 100000):
            with self.subTest(text[:20]):
                path.write_text(text, encoding="latin-1")
                self.refuses("tokenizer.json")

    def test_an_entry_that_cannot_be(self):
        path = self.model / "tokenizer.json"
        for change in (
            lambda t: t.pop("model"),
            lambda t: t["model"].pop("vocab"),
            lambda t: t["model"].__setitem__("vocab", []),
            lambda t: t["model"].__setitem__("type", "Unigram2"),
            lambda t: t["model"]["vocab"].__setitem__("x", -1),
            lambda t: t["model"]["vocab"].__setitem__("x", "y"),
            lambda t: t["model"]["vocab"].__setitem__("x", HUGE),
            lambda t: t["model"].__setitem__("merges", ["one"]),
            lambda t: t["model"].__setitem__("merges", [["a", "b", "c"]]),
            lambda t: t["model"].__setitem__("merges", ["q nothing"]),
            lambda t: t.__setitem__("pre_tokenizer", {"type": "Guess"}),
            lambda t: t.__setitem__(
                "pre_tokenizer", {"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": False}
            ),
            lambda t: t.__setitem__("normalizer", {"type": "Upside"}),
            lambda t: t.__setitem__("decoder", {"type": "Odd"}),
            lambda t: t.__setitem__("added_tokens", 3),
            lambda t: t["added_tokens"][0].pop("id"),
            lambda t: t["added_tokens"][0].__setitem__("id", HUGE),
            lambda t: t["added_tokens"][0].pop("content"),
        ):
            tokenizer = checkpoints.tokenizer_json()
            change(tokenizer)
            with self.subTest(
                str(
                    {
                        key: str(value)[:60]
                        for key, value in tokenizer.items()
                        if value != checkpoints.tokenizer_json()[key]
                    }
                    if len(tokenizer) == len(checkpoints.tokenizer_json())
                    else "no model"
                )
            ):
                checkpoints.write_json(path, tokenizer)
                self.refuses("tokenizer.json")

    def test_no_tokenizer(self):
        (self.model / "tokenizer.json").unlink()
        self.refuses("tokenizer")

    def test_tokens_that_the_model_does_not_have(self):
        tokenizer = checkpoints.tokenizer_json()
        tokenizer["added_tokens"].append(tokenizer["added_tokens"][0] | {"id": 600, "content": "hello"})
        checkpoints.write_json(self.model / "tokenizer.json", tokenizer)
        self.refuses("600")


class TemplateTest(BadModelTest):
    def test_a_template_that_cannot_be_rendered(self):
        chat = b'{"messages": [{"role": "user", "content": "hello"}]}'
        for template, mention in (
            ("{{ strftime_later('%d') }}", "strftime_later"),
            ("{{ messages | spin }}", "spin"),
            ("{% for m in messages %}", "for"),
            ("{{ ", ""),
            ("{{ messages[0].role.nothing.more }}", ""),
            ("{{ 1 / 0 }}", ""),
            ("{% if x is odder %}{% endif %}", "odder"),
            ("{% for i in range(100000000) %}{% for j in range(100000000) %}{% endfor %}{% endfor %}", ""),
            ("{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}", ""),
            ("{{ 'x' * 10000000000 }}", ""),
            ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
            ("{{ " + "(" * 100000, ""),
            ("{% set ns = 'aaaaaaaaaa' %}" + "{% set ns = ns ~ ns %}" * 60 + "{{ ns }}", ""),
        ):
            with self.subTest(template[:60]):
                checkpoints.change_json(self.model / "tokenizer_config.json", chat_template=template)
                self.assert_refuses(octavo("template", self.model, stdin=chat), mention)

    def test_no_template(self):
        checkpoints.change_json(self.model / "tokenizer_config.json", chat_template=None)
        self.assert_refuses(octavo("template", self.model, stdin=b'{"messages": []}'), "--chat-template")


if __name__ == "__main__":
    unittest.main()
