"""Calls of tools and reasoning, end to end: checkpoints that write given answers, read by the server, by plain HTTP
and by the openai package."""

import os
import subprocess
import time
import unittest

from client_python import client_folder, run_client
from scripted import make_scripted
from served import PATIENCE, ServiceTest, environment, events

TAGGED_TEMPLATE = (
    "{% if tools %}Tools: {{ tools | tojson }}\n{% endif %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}"
    "{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% endif %}{{ messages[-1].content }}{% endif %}"
)
CHANNEL_TEMPLATE = (
    "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{{ messages[-1].content }}{% endif %}"
    "{# <|channel|> analysis, commentary to={{ tools }}, final #}"
)
PARIS = '{"city": "Paris \U0001f600", "days": [1, {"a": "</tool_call>"}]}'
MALFORMED = "Well: <tool_call>\n{'name': 'look'}\n</tool_call> Ünd"
SCRIPTS = {
    "<|both|>": "<think>\nTwo calls, 9.8.\n</think>\n\nI look.\n"
    f'<tool_call>\n{{"name": "look", "arguments": {PARIS}}}\n</tool_call>\n'
    '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
    "<|sunny|>": "It is 9.8 °C in Paris.",
    "<|broken|>": MALFORMED,
    "<|breaks|>": '<tool_call>{"name": "look", "arguments": {"city": "No \nend',
}
TOOLS = [
    {"type": "function", "function": {"name": "look", "strict": True, "parameters": {"type": "object", "required": []}}},
    {"type": "function", "function": {"name": "now", "description": "the time"}},
]


def joined(chunks):
    """A message out of a stream's deltas, as a client joins them."""
    message = {"content": "", "reasoning": "", "reasoning_content": "", "calls": [], "finish": None}
    for chunk in chunks:
        for choice in chunk["choices"]:
            delta = choice["delta"]
            for key in ("content", "reasoning", "reasoning_content"):
                message[key] += delta.get(key) or ""
            for call in delta.get("tool_calls", []):
                if "id" in call:
                    assert call["index"] == len(message["calls"]) and call["type"] == "function", call
                    assert call["function"] == {"name": call["function"]["name"], "arguments": ""}, call
                    message["calls"].append([call["function"]["name"], ""])
                else:
                    message["calls"][call["index"]][1] += call["function"]["arguments"]
            message["finish"] = choice["finish_reason"] or message["finish"]
    return message


def whole(reply):
    choice = reply.json["choices"][0]
    message = choice["message"]
    calls = message.get("tool_calls", [])
    assert all(call["type"] == "function" and call["id"].startswith("call_") for call in calls), calls
    return {
        "content": message["content"] or "",
        "reasoning": message.get("reasoning", ""),
        "reasoning_content": message.get("reasoning_content", ""),
        "calls": [[call["function"]["name"], call["function"]["arguments"]] for call in calls],
        "finish": choice["finish_reason"],
    }


class ScriptedTest(ServiceTest):
    template, scripts, marks = TAGGED_TEMPLATE, SCRIPTS, ()

    @classmethod
    def make_model(cls):
        return make_scripted(cls.folder / "scripted", cls.template, cls.scripts, cls.marks)

    def ask(self, script, **fields):
        """The answer, which a stream and a whole one agree on."""
        fields = {"temperature": 0, "max_tokens": 200} | fields
        reply = self.server.chat(script, **fields)
        self.assertEqual(reply.status, 200, reply.body)
        answer = whole(reply)
        streamed = self.server.chat(script, stream=True, **fields)
        self.assertEqual(joined(events(streamed.body)), answer)
        self.assertEqual(answer["reasoning"], answer["reasoning_content"])
        return answer


class TaggedTest(ScriptedTest):
    flags = ("--enable-auto-tool-choice",)

    def test_calls_and_reasoning_are_told_apart(self):
        self.assertIn("tools       calls are read as hermes", self.server.block)
        answer = self.ask("<|both|>", tools=TOOLS)
        self.assertEqual(answer["reasoning"], "Two calls, 9.8.")
        self.assertEqual(answer["content"], "I look.")
        self.assertEqual(answer["calls"], [["look", PARIS], ["now", "{}"]])
        self.assertEqual(answer["finish"], "tool_calls")

    def test_without_tools_the_answer_is_content(self):
        for fields in ({}, {"tools": TOOLS, "tool_choice": "none"}):
            answer = self.ask("<|both|>", **fields)
            self.assertEqual(answer["calls"], [])
            self.assertEqual(answer["content"], SCRIPTS["<|both|>"].split("</think>\n\n")[1])
            self.assertEqual(answer["finish"], "stop")
        messages = [{"role": "user", "content": "x"}]
        for choice, shown in (("none", False), ("auto", True)):
            body = {"messages": messages, "tools": TOOLS, "tool_choice": choice}
            prompt = self.server.post("/v1/chat/completions/render", body).json["prompt"]
            self.assertEqual("Tools: " in prompt, shown)

    def test_what_only_looks_like_a_call_is_content(self):
        answer = self.ask("<|broken|>", tools=TOOLS)
        self.assertEqual(answer["content"], MALFORMED)
        self.assertEqual((answer["calls"], answer["finish"]), ([], "stop"))

    def test_a_cut_call_never_looks_like_a_whole_one(self):
        full = self.ask("<|both|>", tools=TOOLS)
        pieces, ends = set(), []
        total = self.server.chat("<|both|>", tools=TOOLS, temperature=0, max_tokens=200).json["usage"]["completion_tokens"]
        for limit in range(1, total):
            answer = self.ask("<|both|>", tools=TOOLS, max_tokens=limit)
            if answer["finish"] != "length":
                self.assertEqual(answer["finish"], "tool_calls")
                self.assertEqual(answer["calls"], full["calls"][: len(answer["calls"])], "whole")
                self.assertEqual(answer["content"], full["content"], "and nothing begun behind")
                ends.append(len(answer["calls"]))
                continue
            for (name, arguments), (known, all_of_them) in zip(answer["calls"], full["calls"]):
                self.assertEqual(name, known)
                self.assertTrue(all_of_them.startswith(arguments.rstrip("\ufffd")), arguments)  # a character was cut
                pieces.add(arguments)
            self.assertIn(answer["reasoning"], SCRIPTS["<|both|>"].split("</think>")[0] + "</think")
            begun = answer["content"].removeprefix("I look.") if answer["calls"] else answer["content"]  # behind the call
            self.assertIn(begun.lstrip("\n"), SCRIPTS["<|both|>"])
        self.assertGreater(len(pieces), 3, pieces)
        self.assertEqual(sorted(set(ends)), [1, 2], "max_tokens ended exactly behind a whole call, and behind both")

    def test_arguments_come_piece_by_piece(self):
        fields = {"tools": TOOLS, "temperature": 0, "max_tokens": 200}
        beside = {"prompt": "hello", "max_tokens": 1000, "n": 30, "ignore_eos": True, "temperature": 0, "stream": True}
        until = time.monotonic() + PATIENCE
        pieces = []
        while time.monotonic() < until:  # tokens that come faster than a busy machine sends them are joined: steps are made longer
            others, _ = self.server.begin("/v1/completions", beside)
            self.addCleanup(others.close)
            chunks = events(self.server.chat("<|both|>", stream=True, **fields).body)
            pieces = [call["function"]["arguments"] for chunk in chunks for choice in chunk["choices"]
                      for call in choice["delta"].get("tool_calls", []) if call["index"] == 0]  # fmt: skip
            self.assertEqual("".join(pieces), PARIS)
            others.close()
            if len([piece for piece in pieces if piece]) > 3:
                return
        self.fail(f"the arguments came as {pieces}")

    def test_a_call_that_breaks_off_does_not_end_an_answer_as_a_call(self):
        answer = self.ask("<|breaks|>", tools=TOOLS)
        self.assertEqual(answer["calls"], [["look", '{"city": "No ']])
        self.assertEqual((answer["content"], answer["finish"]), ("\nend", "stop"))

    def test_one_call_where_one_is_asked_for(self):
        fields = {"tools": TOOLS, "temperature": 0, "max_tokens": 200}
        both = self.server.chat("<|both|>", **fields).json["usage"]["completion_tokens"]
        answer = self.ask("<|both|>", tools=TOOLS, parallel_tool_calls=False)
        self.assertEqual(answer["calls"], [["look", PARIS]])
        self.assertEqual(answer["finish"], "tool_calls")
        one = self.server.chat("<|both|>", parallel_tool_calls=False, **fields).json["usage"]["completion_tokens"]
        self.assertLess(one, both, "what follows is not waited for")
        self.assert_idle()

    def test_stop_strings_count_in_content_alone(self):
        answer = self.ask("<|both|>", tools=TOOLS, stop=["9.8", "Paris"])
        self.assertEqual(answer["finish"], "tool_calls")
        self.assertEqual(answer["calls"][0], ["look", PARIS])
        reply = self.server.chat("<|sunny|>", tools=TOOLS, stop=["9.8"], temperature=0)
        self.assertEqual(whole(reply)["content"], "It is ")
        self.assertEqual(reply.json["choices"][0]["stop_reason"], "9.8")
        self.assertEqual(self.ask("<|sunny|>", stop=["°C"])["content"], "It is 9.8 ")
        self.assert_idle()

    def test_reasoning_may_be_left_out_or_not_begin(self):
        answer = self.ask("<|both|>", tools=TOOLS, include_reasoning=False)
        self.assertEqual((answer["reasoning"], answer["content"]), ("", "I look."))
        prompt = {"messages": [{"role": "user", "content": "x"}], "chat_template_kwargs": {"enable_thinking": False}}
        self.assertIn("</think>", self.server.post("/v1/chat/completions/render", prompt).json["prompt"])

    def test_constrained_choices_are_refused_by_name(self):
        for choice in ("required", {"type": "function", "function": {"name": "look"}}):
            self.assert_error(self.server.chat("x", tools=TOOLS, tool_choice=choice), 400, "tool_choice")

    def test_every_token_has_its_log_probability(self):
        fields = {"tools": TOOLS, "temperature": 0, "max_tokens": 200, "logprobs": True}
        reply = self.server.chat("<|both|>", **fields).json
        content = reply["choices"][0]["logprobs"]["content"]
        self.assertEqual(len(content), reply["usage"]["completion_tokens"])
        chunks = events(self.server.chat("<|both|>", stream=True, **fields).body)
        streamed = [
            entry["token"]
            for chunk in chunks
            for choice in chunk["choices"]
            for entry in (choice["logprobs"] or {"content": []})["content"]
        ]
        self.assertEqual(streamed, [entry["token"] for entry in content])

    def test_the_openai_package_makes_the_round(self):
        run_client(client_folder("openai", "openai==3.57.0") / "python3", "tools_client.py", self.server.url)


class ChannelTest(ScriptedTest):
    template = CHANNEL_TEMPLATE
    marks = ("<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|call|>")
    scripts = {
        "<|ask|>": f"<|channel|>commentary to=functions.look <|constrain|>json<|message|>{PARIS}<|call|>",
    }

    def test_a_call_is_a_message_to_a_function(self):
        self.assertIn("calls are read as openai", self.server.block)
        self.assertIn("read as openai_gptoss", self.server.block)
        answer = self.ask("<|ask|>", tools=TOOLS)
        self.assertEqual(answer["calls"], [["look", PARIS]])
        self.assertEqual((answer["content"], answer["finish"]), ("", "tool_calls"))
        self.assertEqual(self.ask("<|ask|>")["content"], PARIS, "nothing to call: no marks in the text either")


class ChannelReasoningTest(ScriptedTest):
    template, marks = CHANNEL_TEMPLATE, ChannelTest.marks
    scripts = {"<|think|>": "<|channel|>analysis<|message|>It is dünn."}

    def test_a_channel_holds_the_reasoning(self):
        answer = self.ask("<|think|>")
        self.assertEqual((answer["reasoning"], answer["content"], answer["finish"]), ("It is dünn.", "", "stop"))


class ReasoningBudgetTest(ScriptedTest):
    marks = ("<think>", "</think>")
    thought = "One thought after another, and no end in sight."
    scripts = {"<|long|>": f"<think>{thought}</think>Done."}

    def test_reasoning_ends_after_its_budget(self):
        lengths = []
        for budget in (0, 2, 4):
            answer = self.ask("<|long|>", thinking_token_budget=budget)
            self.assertEqual((answer["content"], answer["finish"]), ("Done.", "stop"))
            self.assertTrue(self.thought.startswith(answer["reasoning"]), answer)
            lengths.append(len(answer["reasoning"]))
        self.assertEqual(lengths[0], 0)
        self.assertLess(lengths[1], lengths[2])
        self.assertLess(lengths[2], len(self.thought))
        for roomy in (None, 1000):
            self.assertEqual(self.ask("<|long|>", thinking_token_budget=roomy)["reasoning"], self.thought)


class ParserFlagsTest(ScriptedTest):
    flags = ("--tool-call-parser", "none", "--reasoning-parser", "none")

    def test_parsers_can_be_turned_off(self):
        answer = self.ask("<|both|>", tools=TOOLS)
        self.assertEqual(answer["content"], SCRIPTS["<|both|>"])
        self.assertEqual((answer["calls"], answer["reasoning"], answer["finish"]), ([], "", "stop"))

    def test_an_unknown_parser_is_refused_at_start(self):
        command = [os.environ["OCTAVO_BINARY"], "serve", str(self.model), "--tool-call-parser", "mine", "--port", "0"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment())
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("\"mine\" is not one of auto, none, hermes", done.stderr)


if __name__ == "__main__":
    unittest.main()
