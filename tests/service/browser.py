"""Headless Chromium, driven through its DevTools protocol over a pair of pipes: standard library only."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

from served import PATIENCE


class Browser:
    """One tab. `errors` holds what the console or the network complained of."""

    def __init__(self, width=1360, height=860):
        program = shutil.which("chromium")
        assert program, "chromium is not there: scripts/test --slow installs it"
        self.folder = tempfile.TemporaryDirectory()
        their_in, self.out = os.pipe()
        self.back, their_out = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 "--remote-debugging-pipe", "--no-first-run", "--hide-scrollbars", "--force-color-profile=srgb",
                 "--disable-background-networking", f"--user-data-dir={self.folder.name}", f"--window-size={width},{height}",
                 "about:blank"]  # fmt: skip
        # The protocol's pipes are descriptors 3 and 4.
        command = ["sh", "-c", f'exec "$@" 3<&{their_in} 4>&{their_out}', "sh", program, *flags]
        self.process = subprocess.Popen(command, pass_fds=(their_in, their_out), stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)  # fmt: skip
        os.close(their_in)
        os.close(their_out)
        self.answers, self.errors, self.number = {}, [], 0
        self.answered = threading.Condition()
        self.intercept = None  # paused request -> answer's text, or None to let it through
        threading.Thread(target=self.read, daemon=True).start()
        self.session = None
        (page,) = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def read(self):
        rest = b""
        while piece := os.read(self.back, 1 << 16):
            *texts, rest = (rest + piece).split(b"\0")
            for text in texts:
                self.take(json.loads(text))
        with self.answered:
            self.answers = None
            self.answered.notify_all()

    def take(self, message):
        parameters = message.get("params", {})
        match message.get("method"):
            case None:
                with self.answered:
                    self.answers[message["id"]] = message
                    self.answered.notify_all()
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(parameters["exceptionDetails"])[:1000])
            case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                self.errors.append(json.dumps(parameters["args"])[:1000])
            case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
            case "Fetch.requestPaused":
                self.resume(parameters)

    def resume(self, paused):
        text = self.intercept(paused["request"]) if self.intercept else None
        if text is None:
            self.post("Fetch.continueRequest", requestId=paused["requestId"])
            return
        self.post("Fetch.fulfillRequest", requestId=paused["requestId"], responseCode=200,
                  responseHeaders=[{"name": "content-type", "value": "text/event-stream"}],
                  body=base64.b64encode(text.encode()).decode())  # fmt: skip

    def post(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.out, json.dumps(message).encode() + b"\0")
        return self.number

    def call(self, method, **parameters):
        number = self.post(method, **parameters)
        with self.answered:
            came = self.answered.wait_for(lambda: self.answers is None or number in self.answers, PATIENCE)
            assert came and self.answers is not None, f"the browser did not answer {method}"
            answer = self.answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def run(self, script):
        """The value of a JavaScript expression; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{script}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def wait(self, script, seconds=30):
        """Looks until the expression is truthy, and returns it."""
        end = time.monotonic() + seconds
        while not (value := self.run(script)):
            assert time.monotonic() < end, f"not within {seconds} s: {script}\n{self.run('document.body.innerText')}"
            time.sleep(0.03)
        return value

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def size(self, width, height, phone=False, scale=1):
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=phone
        )

    def prefer(self, **media):
        features = [{"name": name.replace("_", "-"), "value": value} for name, value in media.items()]
        self.call("Emulation.setEmulatedMedia", features=features)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def press(self, key, code=None, shift=False):
        codes = {"Enter": 13, "Escape": 27, "Tab": 9, " ": 32}
        common = {"key": key, "code": code or key, "windowsVirtualKeyCode": codes[key], "modifiers": 8 if shift else 0}
        text = {"Enter": "\r", " ": " "}.get(key)
        self.call("Input.dispatchKeyEvent", type="keyDown", **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def click(self, selector):
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def close(self):
        try:
            self.post("Browser.close")
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.back)
        self.folder.cleanup()
