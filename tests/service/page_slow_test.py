"""The page in Chromium, as a person uses it, with the default model. Screenshots are left in build/page/."""

import concurrent.futures
import json
import os
import pathlib
import time
import unittest

from browser import Browser
from page_measures import CONTRAST, MODULES, UNNAMED
from served import SOURCE_DIR, Server

SHOTS = SOURCE_DIR / "build" / "page"
ANSWER = "document.querySelector('.message.assistant:last-child')"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
MODEL = os.environ.get("OCTAVO_DEFAULT_MODEL") or CACHE / "octavo/SmolLM2-135M-Instruct.Q4_1.gguf"


def stream(*deltas, finish="stop", end="data: [DONE]\n\n"):
    """A stream of a server's, of which these are the deltas as JSON."""
    chunks = [f'data: {{"choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}\n\n' for delta in deltas]
    if finish:
        chunks.append(f'data: {{"choices":[{{"index":0,"delta":{{}},"finish_reason":"{finish}"}}]}}\n\n')
    return "".join(chunks) + end


class PageTest(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(MODEL, "--served-model-name", "small", "--kv-cache-dtype", "fp8", *cls.flags)
        cls.addClassCleanup(lambda: cls.server.stop())

    def setUp(self):
        self.browser = Browser()
        self.addCleanup(self.browser.close)
        self.browser.size(1360, 860)
        self.expected = ()  # complaints of the network that a test provokes
        self.browser.open(self.server.url)

    def tearDown(self):
        strange = [error for error in self.browser.errors if not any(text in error for text in self.expected)]
        self.assertEqual(strange, [])

    def say(self, text):
        self.browser.run("document.getElementById('draft').focus()")
        self.browser.type(text)
        self.browser.press("Enter")

    def push(self, role, label):
        """Presses a button of the last message of this role."""
        buttons = f"document.querySelectorAll('.message.{role}')"
        self.browser.run(
            f"[...[...{buttons}].at(-1).querySelectorAll('button')].find(b => b.innerText === '{label}').click()"
        )

    def reload(self, condition="true"):
        self.browser.call("Page.reload")
        self.browser.wait(f"document.readyState === 'complete' && {condition}")

    def state(self):
        return self.browser.run(f"{ANSWER}?.dataset.state")

    def wait_state(self, *states, seconds=60):
        self.browser.wait(f"{list(states)}.includes({ANSWER}?.dataset.state)", seconds)

    def text(self, selector):
        return self.browser.run(f"document.querySelector({selector!r})?.innerText ?? ''")

    def shot(self, name):
        self.browser.screenshot(SHOTS / f"{name}.png")

    def answer_with(self, text):
        self.browser.intercept = lambda request: text if request["method"] == "POST" else None
        self.browser.call("Fetch.enable", patterns=[{"urlPattern": "*/v1/chat/completions"}])


class ChatTest(PageTest):
    def test_an_answer_streams_and_is_counted(self):
        self.say("Count from one to twenty in words.")
        lengths = set()
        while self.state() in (None, "waiting", "streaming"):
            lengths.add(len(self.text(".message.assistant .message-text")))
        self.assertGreater(len(lengths), 5, "it came in pieces")
        self.assertEqual(self.state(), "complete")
        stats = r"\d+ tokens · [\d.,]+ tokens/s · first after [\d.]+ m?s"
        self.assertRegex(self.text(".message.assistant .stats"), stats)
        counted = int(self.text("#context-text").split()[0])
        usage = self.server.metrics()
        self.assertLessEqual(counted, usage["vllm:prompt_tokens_total", ""] + usage["vllm:generation_tokens_total", ""])
        self.assertIn("of 8,192 tokens", self.text("#context-text"))
        self.assertEqual(self.text("#send"), "Send")
        self.assertIn("complete", self.browser.run("document.getElementById('announce').textContent"))

    def test_stop_retry_edit_and_reload(self):
        self.say("Write a very long story about the sea.")
        self.wait_state("streaming")
        self.assertEqual(self.text("#send"), "Stop")
        self.browser.press("Escape")
        self.wait_state("stopped")
        self.server.wait_until(lambda: self.server.gauge("vllm:num_requests_running") == 0)
        self.assertIn("Stopped.", self.text(".message.assistant .note"))
        self.push("assistant", "Retry")
        self.wait_state("streaming")
        self.browser.click("#send")
        self.wait_state("stopped")
        self.assertEqual(self.browser.run("document.querySelectorAll('.message').length"), 2)

        self.push("user", "Edit")
        self.browser.run("document.activeElement.select()")
        self.browser.type("Say hello.")
        self.browser.press("Enter")
        self.wait_state("complete", "length")
        self.assertEqual(self.text(".message.user .message-text"), "Say hello.")
        self.say("And now something long about mountains, please, ten paragraphs.")
        self.browser.wait(f"{ANSWER}.querySelector('.message-text').innerText.length > 20", 60)
        before = self.text(".message.user .message-text")
        self.reload("document.querySelectorAll('.message').length === 4")
        self.assertEqual(self.text(".message.user .message-text"), before)
        self.assertEqual(self.state(), "broken")
        self.assertIn("Not complete", self.text(".message.assistant:last-child .note"))
        self.server.wait_until(lambda: self.server.gauge("vllm:num_requests_running") == 0)
        self.browser.click("#new")
        self.assertEqual(self.browser.run("document.querySelectorAll('.message').length"), 0)

    def test_settings_are_sent_and_kept(self):
        bodies = []
        self.browser.intercept = lambda request: bodies.append(request.get("postData")) or stream('{"content":"fine"}')
        self.browser.call("Fetch.enable", patterns=[{"urlPattern": "*/v1/chat/completions"}])
        self.browser.click("#settings-open")
        values = {"temperature": "0.5", "system": "Be short.", "stop": "END", "max_tokens": "7", "top_p": "4"}
        for name, value in values.items():
            self.browser.run(f"document.getElementById('setting-{name}').focus()")
            self.browser.type(value)
        self.browser.press("Escape")
        self.reload("document.getElementById('settings-summary').innerText.length > 0")
        self.assertIn("temperature 0.5", self.text("#settings-summary"))
        self.say("Hello")
        self.wait_state("complete")
        (body,) = map(json.loads, bodies)
        self.assertEqual((body["temperature"], body["stop"], body["max_tokens"]), (0.5, ["END"], 7))
        self.assertNotIn("top_p", body, "a value out of range is not sent")
        self.assertEqual([m["role"] for m in body["messages"]], ["system", "user"])

    def test_text_of_a_model_stays_text(self):
        content = "<img src=x onerror=alert(1)> **bold** `code <b>`\n```html\n<script>alert(1)</script>\n```\n"
        call = {"name": "look", "arguments": '{"a":'}
        deltas = ({"reasoning": "<i>hm</i>"}, {"content": content}, {"tool_calls": [{"index": 0, "function": call}]},
                  {"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]})  # fmt: skip
        self.answer_with(stream(*map(json.dumps, deltas)))
        self.say("Hello")
        self.wait_state("complete")
        self.assertEqual(self.browser.run(f"{ANSWER}.querySelectorAll('img, script, b, i').length"), 0)
        self.assertIn("<img src=x onerror=alert(1)>", self.text(".message.assistant .message-text"))
        self.assertEqual(self.text(".message.assistant strong"), "bold")
        self.assertEqual(self.text(".message.assistant pre code"), "<script>alert(1)</script>")
        self.assertEqual(self.text(".calls pre"), 'calls look({"a":1})')
        self.browser.click(".message.assistant .reasoning summary")
        self.assertEqual(self.text(".message.assistant .reasoning-text"), "<i>hm</i>")
        self.shot("reasoning")

    def test_a_cut_answer_never_looks_whole(self):
        half = '{"content":"The answer is"}'
        error = {"message": "the engine has died", "type": "x", "param": None, "code": 500}
        failed = f"data: {json.dumps({'error': error})}\n\ndata: [DONE]\n\n"
        for text, note in (
            (stream(half, finish=None, end=""), "connection broke"),
            (stream(half, end=""), "connection broke"),  # no [DONE]
            (stream(half, finish=None), "without saying why"),
            (stream(half, finish=None, end=failed), "The engine has died."),
        ):
            with self.subTest(note):
                self.answer_with(text)
                self.say("Hello")
                self.wait_state("broken")
                self.assertIn("Not complete", self.text(".message.assistant:last-child .note"))
                self.assertIn(note, self.text(".message.assistant:last-child .note"))
                self.assertIn("Retry", self.text(".message.assistant:last-child .message-row"))
        self.shot("broken")
        self.answer_with(stream(half, finish="length"))
        self.say("Hello")
        self.wait_state("length")
        self.assertIn("reached its limit", self.text(".message.assistant:last-child .note"))

    def test_a_refused_request_says_why(self):
        self.browser.run("localStorage.setItem('octavo.settings', JSON.stringify({temperature: '-3'}))")
        self.reload()
        self.expected = ("status of 400",)
        self.say("Hello")
        self.wait_state("failed")
        self.assertIn("temperature", self.text(".message.assistant .note"))
        self.browser.run("localStorage.clear()")


class LookTest(PageTest):
    def test_healthy_within_five_seconds(self):
        began = time.monotonic()
        self.browser.open(self.server.url)
        self.browser.wait("document.getElementById('health-title').innerText === 'Healthy'", 5)
        self.browser.wait("document.querySelectorAll('#tiles dd').length > 0", 5)
        self.browser.wait("document.querySelector('.plot.keys').children.length > 0", 5)
        self.assertLess(time.monotonic() - began, 5)

    def test_the_view_shows_what_the_server_says(self):
        self.assertEqual(self.server.chat("Count to ten.", max_tokens=40, ignore_eos=True).status, 200)
        samples = lambda: self.server.get("/recent").json["samples"]
        self.server.wait_until(lambda: any(sample["time_to_first_token"] for sample in samples()))
        self.browser.wait("document.querySelectorAll('.curve path, .curve circle').length >= 6")
        held, cached, free = (self.server.gauge(f"octavo:kv_pages_{name}") for name in ("held", "cached", "free"))
        for pages in (held, cached, free):
            self.browser.wait(f"document.getElementById('pages').innerText.includes('{pages:,.0f} (')")
        self.assertEqual((held, held + cached + free), (0, 2048))
        self.assertIn("fp8_e4m3", self.text("#cache"))
        self.assertIn("uncalibrated", self.text("#cache"))
        self.browser.run("document.querySelector('#layers details').open = true")
        self.browser.wait("document.querySelectorAll('#layers tbody tr').length === 30")
        largest = self.server.metrics()["octavo:kv_key_amax", 'layer="7"']
        shown = float(self.browser.run("document.querySelectorAll('#layers tbody tr')[7].children[1].innerText"))
        self.assertLess(abs(shown / largest - 1), 0.01)

    def test_every_size_and_theme(self):
        self.say("Say hello.")
        self.wait_state("complete", "length")
        papers = {}
        for theme in ("light", "dark"):
            self.browser.prefer(prefers_color_scheme=theme, prefers_reduced_motion="reduce")
            for width, height in ((1360, 860), (900, 800), (360, 720)):
                self.browser.size(width, height, phone=width < 500)
                for view in ("chat", "server"):
                    self.browser.run(f"location.hash = '#{view}'")
                    self.browser.wait(f"document.body.dataset.view === '{view}'")
                    self.browser.wait("document.getAnimations().length === 0")
                    with self.subTest(f"{theme} {width} {view}"):
                        self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)
                        self.assertEqual(self.browser.run(CONTRAST), [])
                        self.shot(f"{theme}-{width}-{view}")
            papers[theme] = self.browser.run("getComputedStyle(document.body).backgroundColor")
        self.assertNotEqual(papers["light"], papers["dark"])
        for _ in range(3):  # system, light, dark: whatever the system prefers
            self.browser.click("#theme")
            chosen = self.browser.run("document.getElementById('theme').title")
            if chosen != "Theme: system":
                paper = self.browser.run("getComputedStyle(document.body).backgroundColor")
                self.assertEqual(paper, papers[chosen.split()[1]])

    def test_keyboard_and_names(self):
        self.say("Say hello.")
        self.wait_state("complete", "length")
        seen, rounds = [], 0
        while rounds < 2:  # from the box to the end, and all of the page
            self.browser.press("Tab")
            if self.browser.run("document.activeElement === document.body"):
                rounds += 1
                continue
            seen.append(self.browser.run("document.activeElement.id || document.activeElement.innerText"))
            self.assertLess(len(seen), 40)
            outline = self.browser.run("getComputedStyle(document.activeElement).outlineStyle")
            self.assertNotEqual(outline, "none", seen[-1])
        for wanted in ("theme", "new", "scroll", "Edit", "Retry", "draft", "settings-open", "send"):
            self.assertIn(wanted, seen)
        self.browser.call("Accessibility.enable")
        nodes = self.browser.call("Accessibility.getFullAXTree")["nodes"]
        self.assertEqual([node for node in nodes if UNNAMED(node)], [])

    def test_modules(self):
        self.assertEqual(self.browser.run(MODULES), "all good")


class BusyTest(PageTest):
    flags = ("--max-num-seqs", "1")

    def test_a_strained_server_says_what_strains_it(self):
        # As long as the context holds, one after the other: some wait until they are told to stop, on any machine.
        ask = lambda number: self.server.chat(f"Tell story {number}.", max_tokens=4000, ignore_eos=True).status
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            asked = [pool.submit(ask, number) for number in range(3)]
            try:
                self.browser.wait("document.getElementById('health-title').innerText === 'Strained'")
                self.assertRegex(self.text("#health-reasons"), r"\d requests? waits?, all places are taken.")
                self.assertIn("Strained", self.text("#pill"))
                self.shot("strained")
            finally:
                self.server.post("/abort_requests", {"abort_all": True})
            self.assertEqual([answer.result() for answer in asked], [499, 499, 499])
        self.browser.wait("document.getElementById('health-title').innerText === 'Healthy'")


class DeathTest(PageTest):
    def test_a_server_that_dies_in_mid_answer(self):
        self.expected = ("ERR_", "Failed to load")
        self.say("Write a very long story about the sea.")
        self.wait_state("streaming")
        self.server.process.kill()
        self.wait_state("broken")
        self.assertIn("The connection broke before the answer was complete.", self.text(".message.assistant .note"))
        self.browser.wait("document.getElementById('health-title').innerText === 'Not reachable'")
        self.shot("unreachable")
        self.server.process.wait()
        self.server.stop(-9)
        type(self).server = Server(MODEL, "--served-model-name", "small", "--port", self.server.port)
        self.server.port = int(self.server.block.split("http://127.0.0.1:")[1].split()[0])
        self.browser.wait("document.getElementById('health-title').innerText === 'Healthy'")
        self.push("assistant", "Retry")
        self.wait_state("streaming")
        self.browser.press("Escape")


class KeyTest(PageTest):
    flags = ("--api-key", "secret")

    def test_the_key_is_asked_for(self):
        self.expected = ("status of 401",)
        self.browser.wait("document.getElementById('key-dialog').open")
        self.shot("key")
        self.browser.type("wrong")
        self.browser.press("Enter")
        self.browser.wait("document.getElementById('key-why').innerText.includes('does not take this key')")
        self.browser.wait("document.getElementById('key-dialog').open")
        self.browser.run("document.getElementById('key-value').select()")
        self.browser.type("secret")
        self.browser.press("Enter")
        self.browser.wait("document.getElementById('health-title').innerText === 'Healthy'")
        self.say("Say hello.")
        self.wait_state("complete", "length")
        self.assertEqual(self.browser.run("Object.values(localStorage).includes('secret')"), False)


if __name__ == "__main__":
    unittest.main()
