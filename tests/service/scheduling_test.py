"""Who is served when: callers share, priorities come first, and the flags of scheduling are understood."""

import concurrent.futures
import json
import re
import unittest

from served import HELLO_WORLD, ServiceTest, octavo

WORK = {"prompt": "hello world", "max_tokens": 100, "ignore_eos": True, "temperature": 0}

BUSY = {"max_tokens": 1900, "n": 64, "priority": -5, "stream": True}  # one after another, before all others


class OneAtATimeTest(ServiceTest):
    flags = ("--max-num-seqs", "1", "--enable-log-requests")

    def assert_some_order(self, good, *requests):
        """A server that is kept from running for a while may answer two at once, and either of them first."""
        orders = []
        for _ in range(3):
            orders.append(self.order(*requests))
            if good(orders[-1]):
                return
        self.fail(f"requests were answered in these orders: {orders}")

    def order(self, *requests):
        """Which of these is answered as the how-manyth, as the server logs it. The engine has all while another still runs."""
        blocker, response = self.server.begin("/v1/completions", WORK | BUSY)
        response.read(1)  # it runs
        call = self.id() + str(len(self.server.log))
        queued = self.server.gauge("octavo:queued_tokens")

        def ask(number):
            fields, headers = requests[number]
            return self.server.post("/v1/completions", WORK | fields | {"request_id": f"{call}/{number}"}, headers)

        with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
            replies = []
            for number in range(len(requests)):
                replies.append(pool.submit(ask, number))
                waiting = queued + (number + 1) * len(HELLO_WORLD)  # tokens of prompts that the engine has been given
                self.server.wait_until(lambda: self.server.gauge("octavo:queued_tokens") == waiting)
            blocker.close()
            for reply in replies:
                self.assertEqual(reply.result().status, 200, reply.result().body)
        answered = re.compile(rf" answered id={re.escape(call)}/(\d+) ")
        self.server.wait_until(lambda: len(answered.findall(self.server.log)) == len(requests))
        return [int(number) for number in answered.findall(self.server.log)]

    def test_one_users_many_requests_do_not_stand_before_anothers_one(self):
        requests = [({"user": "many"}, {})] * 12 + [({"user": "one"}, {})]
        self.assert_some_order(lambda done: done.index(12) < 3, *requests)

    def test_a_smaller_priority_goes_first(self):
        self.assert_some_order(lambda done: done[0] == 4, *[({}, {})] * 4, ({"priority": -1}, {}))

    def test_a_user_is_a_text(self):
        self.assert_error(self.server.post("/v1/completions", WORK | {"user": 5}), 400, "user")


class KeysShareTest(OneAtATimeTest):
    """A key's requests are one caller's, whatever users they name."""

    flags = ("--max-num-seqs", "1", "--enable-log-requests", "--api-key", "a", "--api-key", "b")

    def order(self, *requests):
        keyed = [(fields, {"Authorization": "Bearer " + ("b" if fields.get("user") == "one" else "a")}) for fields, _ in requests]
        post, begin = self.server.post, self.server.begin
        try:
            self.server.begin = lambda path, body: self.begin_with_key(path, body)
            return super().order(*keyed)
        finally:
            self.server.post, self.server.begin = post, begin

    def begin_with_key(self, path, body):
        connection = self.server.connect()
        headers = {"Content-Type": "application/json", "Authorization": "Bearer a"}
        connection.request("POST", path, json.dumps(body), headers)
        response = connection.getresponse()
        close = connection.close
        connection.close = lambda: (response.close(), close())
        return connection, response

    def test_a_user_is_a_text(self):
        reply = self.server.post("/v1/completions", WORK | {"user": 5}, {"Authorization": "Bearer a"})
        self.assert_error(reply, 400, "user")

    def test_other_users_of_a_key_are_the_same_caller(self):
        requests = [({"user": "one"}, {})] + [({"user": f"u{i}"}, {}) for i in range(6)] + [({"user": "one"}, {})]
        self.assert_some_order(lambda done: done.index(7) < 4, *requests)


class ManyAtOnceTest(ServiceTest):
    flags = ("--max-num-seqs", "600", "--kv-cache-dtype", "fp8", "--kv-cache-memory-bytes", "400M")

    def test_as_many_run_at_once_as_the_flag_says(self):
        for _ in range(5):
            connection, _ = self.server.begin("/v1/completions", WORK | {"max_tokens": 600, "n": 128, "stream": True})
            self.addCleanup(connection.close)
        self.server.wait_until(lambda: self.server.gauge("vllm:num_requests_running") == 600)


class PacedTest(ServiceTest):
    flags = ("--max-itl-ms", "20", "--long-prefill-token-threshold", "64", "--max-num-partial-prefills", "2",
             "--max-long-partial-prefills", "1", "--scheduling-policy", "priority",
             "--deterministic")  # fmt: skip

    def test_answers_are_the_same_beside_long_prompts(self):
        alone = self.server.complete(max_tokens=40, temperature=0, ignore_eos=True).json["choices"][0]["text"]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            long = [pool.submit(self.server.complete, [30 + i] * 1500, max_tokens=1) for i in range(4)]
            short = [pool.submit(self.server.complete, max_tokens=40, temperature=0, ignore_eos=True) for _ in range(4)]
            self.assertEqual([s.result().json["choices"][0]["text"] for s in short], [alone] * 4)
            self.assertTrue(all(reply.result().status == 200 for reply in long))
        values = self.server.metrics()
        self.assertEqual(values["octavo:max_itl_seconds", ""], 0.02)
        self.assertGreater(values["octavo:prefill_tokens_total", ""], 4 * 1500)
        self.assertGreater(values["octavo:prefill_tokens_per_second", ""], 0)

    def test_flags_that_make_no_sense_are_refused(self):
        for flags, mention in ((("--max-itl-ms", "-1"), "--max-itl-ms"), (("--max-itl-ms", "soon"), "--max-itl-ms"),
                               (("--long-prefill-token-threshold", "-5"), "--long-prefill-token-threshold")):
            done = octavo("serve", self.model, *flags)
            self.assertEqual(done.code, 2)
            self.assertIn(mention, done.err)


if __name__ == "__main__":
    unittest.main()
