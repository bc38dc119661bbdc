"""--tensor-parallel-size: every command that runs a model gives with several ranks what it gives with one, says what is
on each, and refuses in one sentence what cannot be shared."""

import json
import re
import unittest

from served import Server, checkpoints, octavo

from octavo_program import ProgramTest  # its folder was named by served

RANKS = ("--device", "cpu", "--tensor-parallel-size")
EXACT = ("--dtype", "float32", "--threads", 2)


class RanksTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = checkpoints.make_checkpoint(self.folder / "model")

    def answer(self, *flags):
        asked = ("run", self.model, "-p", "hello world", "--max-tokens", 12, "--temperature", 0, *EXACT)
        return self.assert_succeeds(octavo(*asked, *flags))

    def test_run_answers_alike(self):
        alone = self.answer().out
        for count in (2, 4):
            shared = self.answer(*RANKS, count)
            self.assertEqual(shared.out, alone)
            self.assertIn(f"{count} ranks of 1 thread", shared.err)

    def test_what_a_cache_holds_is_told_for_each_rank(self):
        pages = re.search(r"kv capacity.*?([\d,]+) x ([\d,]+) bytes", self.answer(*RANKS, 2).err)
        self.assertEqual(pages[2], "1,536")  # 3 layers, K and V of one head of 64 in float32; the other rank has the other
        self.assertIn("on each of 2 ranks", self.answer(*RANKS, 2).err)

    def test_eval_and_bench(self):
        text, out = self.folder / "text", self.folder / "out.json"
        text.write_text("hello world, held in the old world\n" * 8)
        means = []
        for count in (1, 2):
            arguments = ("eval", "nll", self.model, "--text", text, "--output-json", out, *EXACT, *RANKS, count)
            self.assert_succeeds(octavo(*arguments))
            means.append(json.loads(out.read_text())["mean_nll"])
        self.assertAlmostEqual(means[0], means[1], delta=1e-4)
        short = ("--input-len", 32, "--output-len", 4, *RANKS, 2)
        measured = self.assert_succeeds(octavo("bench", "latency", self.model, "--num-iters", 1, *short))
        self.assertIn("2 ranks of ", measured.err)
        self.assert_succeeds(octavo("bench", "throughput", self.model, "--num-prompts", 2, *short))
        verbs = self.assert_succeeds(octavo("bench", "verbs", self.model, "--num-iters", 1, *short)).text
        self.assertRegex(verbs, r"all_reduce +7 ")  # the embedding, and attention and MLP of 3 layers
        self.assertRegex(verbs, r"all_gather_columns +1 ")

    def test_serve_answers_alike_and_stops(self):
        answers = []
        for count in (1, 2):
            server = Server(self.model, *EXACT, *RANKS, count, "--kv-cache-dtype", "fp8")
            reply = server.complete(max_tokens=8, temperature=0, ignore_eos=True)
            self.assertEqual(reply.status, 200, reply.body)
            answers.append(reply.json["choices"][0]["text"])
            self.assertEqual(server.gauge("octavo:kv_bytes_per_token"), 768)
            server.stop()
        self.assertEqual(*answers)
        self.assertIn("bytes a token on each of 2 ranks", server.block)

    def test_inspect_tells_what_a_rank_has(self):
        for count, kv_heads in ((2, 1), (4, 1)):
            facts = json.loads(self.assert_succeeds(octavo("inspect", self.model, "--json", *RANKS, count)).out)
            share = facts[f"each_of_{count}_ranks"]
            self.assertEqual(share["q_heads"], 4 // count)
            self.assertEqual(share["kv_heads"], kv_heads)
            self.assertEqual(share["kv bytes per token, bfloat16"], 768)
            self.assertEqual(facts["kv_heads"], 2)
            # A third of its weights are heads' and the MLP's, shared out; norms are everywhere.
            self.assertLess(share["weight_bytes"], facts["weights"]["bytes"] / count * 1.4)
        self.assertIn("each of 2 ranks\n", self.assert_succeeds(octavo("inspect", self.model, *RANKS, 2)).text)

    def test_what_cannot_be_shared_is_named(self):
        for flags, mentions in (
            ((*RANKS, 3), ("tensor parallel size 3", "4 query heads")),
            ((*RANKS, 8), ("tensor parallel size 8", "4 query heads")),
            (("--device", "cuda", "--tensor-parallel-size", 2), ("--device cuda", "--tensor-parallel-size 2", "cpu")),
            ((*RANKS, 2, "--max-model-len", 512, "--kv-cache-memory-bytes", 4096), ("--max-model-len", "2 ranks")),
        ):
            with self.subTest(flags):
                self.assert_refuses(octavo("run", self.model, "-p", "hello", *flags), *mentions)
        self.assert_refuses(octavo("inspect", self.model, *RANKS, 3), "4 query heads")


if __name__ == "__main__":
    unittest.main()
