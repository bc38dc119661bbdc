"""The page as it is sent: its files, what a browser is allowed to do with them, and that all they name is there."""

import re
import time
import unittest

from served import SOURCE_DIR, ServiceTest

FOLDER = SOURCE_DIR / "src/server/page"
TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".svg": "image/svg+xml"}  # fmt: skip
SCRIPTS = {path.name: path.read_text() for path in FOLDER.glob("*.js")}
DOCUMENT = (FOLDER / "index.html").read_text()


class PageTest(ServiceTest):
    @classmethod
    def setUpClass(cls):
        cls.started = time.time()
        super().setUpClass()

    def test_every_file_is_served_as_it_is(self):
        for path in sorted(FOLDER.iterdir()):
            with self.subTest(path.name):
                route = "/" if path.name == "index.html" else f"/page/{path.name}"
                reply = self.server.get(route)
                self.assertEqual((reply.status, reply.body), (200, path.read_bytes()))
                self.assertEqual(reply.headers["content-type"], TYPES[path.suffix])
                self.assertEqual(reply.headers["x-content-type-options"], "nosniff")
                head = self.server.ask("HEAD", route)
                self.assertEqual((head.status, head.body), (200, b""))
                self.assertEqual(int(head.headers["content-length"]), len(reply.body))
        self.assertEqual(self.server.get("/favicon.ico").status, 200)
        self.assert_error(self.server.get("/page/other.js"), 404)
        self.assert_error(self.server.get("/page/../serve.cc"), 404)
        self.assert_error(self.server.post("/page/main.js", {}), 405)

    def test_a_browser_asks_whether_a_file_is_new(self):
        connection = self.server.connect()
        self.addCleanup(connection.close)
        for route in ("/", "/page/main.js"):
            reply = self.server.get(route)
            self.assertEqual(reply.headers["cache-control"], "no-cache")
            for tag in (reply.headers["etag"], f'"other", W/{reply.headers["etag"]}'):
                # On one connection: a body where none may be would be read as the next answer.
                connection.request("GET", route, headers={"If-None-Match": tag})
                response = connection.getresponse()
                self.assertEqual((response.status, response.read()), (304, b""))
                self.assertEqual(response.getheader("etag"), reply.headers["etag"])
            self.assertEqual(self.server.get(route, **{"If-None-Match": '"other"'}).status, 200)

    def test_only_the_page_itself_may_run(self):
        policy = dict(
            part.split(" ", 1) for part in self.server.get("/").headers["content-security-policy"].split("; ")
        )
        self.assertEqual(policy["default-src"], "'none'")
        for kind in ("script-src", "style-src", "connect-src", "img-src"):
            self.assertEqual(policy[kind], "'self'")
        self.assertEqual(policy["require-trusted-types-for"], "'script'")
        self.assertEqual(policy["frame-ancestors"], "'none'")
        self.assertNotRegex(DOCUMENT, r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=")
        for name, text in (SCRIPTS | {"index.html": DOCUMENT}).items():
            with self.subTest(name):
                self.assertNotRegex(
                    text, r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function"
                )
                for address in re.findall(r"\w+://[^\s\"')]+", text):
                    self.assertEqual(address, "http://www.w3.org/2000/svg")  # a name, not a place

    def test_what_the_files_name_is_there(self):
        for name in re.findall(r'(?:src|href)="(page/[^"]+)"', DOCUMENT):
            self.assertEqual(self.server.get(f"/{name}").status, 200, name)
        ids = set(re.findall(r'\bid="([\w-]+)"', DOCUMENT))
        for name, text in SCRIPTS.items():
            self.assertLessEqual(set(re.findall(r'\bbyId\("([\w-]+)"\)', text)), ids, name)
            for wanted, source in re.findall(r'import \{([^}]+)\} from "\./([^"]+)"', text):
                exported = set(re.findall(r"export (?:async )?(?:class|function\*?|const) (\w+)", SCRIPTS[source]))
                self.assertLessEqual({part.strip() for part in wanted.split(",")}, exported, f"{name} from {source}")
        for label in re.findall(r'(?:aria-labelledby|for)="([\w-]+)"', DOCUMENT):
            self.assertIn(label, ids)

    def test_every_route_that_the_page_asks_exists(self):
        texts = "\n".join(SCRIPTS.values())
        asked = set(re.findall(r'\bget(?:Json|Text)\("([^"]+)"', texts))
        self.assertLessEqual({"v1/models", "metrics", "recent", "health", "server_info"}, asked)
        for path in asked:
            self.assertEqual(self.server.get(f"/{path}").status, 200, path)
        (chat,) = re.findall(r'\bpostStream\("([^"]+)"', texts)
        self.assertEqual(
            self.server.post(f"/{chat}", {"messages": [{"role": "user", "content": "a"}], "max_tokens": 1}).status, 200
        )

    def test_recent_minutes(self):
        begun = time.time()
        self.assertEqual(self.server.complete("hello world", max_tokens=1000, ignore_eos=True).status, 200)
        recent = {}

        def counted():
            recent.update(self.server.get("/recent").json)
            rates = (sample["generated_tokens_per_second"] for sample in recent["samples"] if sample["time"] >= begun)
            return sum(rates) * recent["step_seconds"] > 100  # a step may last longer on a busy machine

        self.server.wait_until(counted)
        self.assertEqual((recent["step_seconds"], recent["steps_kept"]), (5, 180))
        for sample in recent["samples"]:
            self.assertTrue(self.started - 1 <= sample["time"] <= time.time(), sample)
        busy = [sample for sample in recent["samples"] if sample["inter_token_latency"]]
        self.assertTrue(busy)
        self.assertGreaterEqual(busy[0]["inter_token_latency"]["p99"], busy[0]["inter_token_latency"]["p50"])
        values = self.server.metrics()
        mean = values["vllm:time_to_first_token_seconds_sum", ""] / values["vllm:time_to_first_token_seconds_count", ""]
        firsts = [sample["time_to_first_token"]["p50"] for sample in recent["samples"] if sample["time_to_first_token"]]
        self.assertLess(min(firsts), 3 * mean + 0.01)


class PageWithKeyTest(ServiceTest):
    flags = ("--api-key", "secret", "--metrics-key", "other")

    def test_the_page_is_open_and_what_it_asks_is_not(self):
        for path in ("/", "/page/main.js", "/page/style.css", "/favicon.ico", "/health"):
            self.assertEqual(self.server.get(path).status, 200, path)
        for path in ("/v1/models", "/recent", "/metrics", "/server_info", "/pagemain.js", "/page"):
            self.assert_error(self.server.get(path), 401)
        for path in ("/v1/models", "/recent", "/metrics", "/server_info"):
            self.assertEqual(self.server.get(path, Authorization="Bearer secret").status, 200, path)


if __name__ == "__main__":
    unittest.main()
