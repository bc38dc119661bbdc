"""The server behind a certificate: clients of all kinds, renewal, and files that are wrong."""

import http.client
import json
import signal
import socket
import ssl
import subprocess
import threading
import unittest

from served import PATIENCE, Server, ServiceTest, events, octavo, until_closed


def make_certificate(folder, name, days=2):
    """(certificate, key): for 127.0.0.1, vouching for itself."""
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", str(days),
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)  # fmt: skip
    return certificate, key


class SecureServer(Server):
    """Server speaks http; its clients here speak https."""

    def __init__(self, model, certificate, key, *flags):
        super().__init__(model, "--ssl-certfile", certificate, "--ssl-keyfile", key, *flags)
        self.port = int(self.block.split("https://127.0.0.1:")[1].split()[0])
        self.url = f"https://127.0.0.1:{self.port}"
        self.trusted = ssl.create_default_context(cafile=certificate)

    def connect(self, timeout=PATIENCE):
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=self.trusted)

    def secured(self, **options):
        plain = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
        return self.trusted.wrap_socket(plain, server_hostname="127.0.0.1", **options)


class SecureTest(ServiceTest):
    @classmethod
    def start_server(cls, *flags):
        cls.certificate, cls.key = make_certificate(cls.folder, "served")
        return SecureServer(cls.model, cls.certificate, cls.key, *flags)


class SilentClientsTest(SecureTest):
    flags = ("--header-timeout", "3")

    def test_who_says_nothing_or_nonsense_is_cut_off(self):
        for data in (b"\x01nonsense", b""):
            answer = until_closed(self.server.raw(data))
            self.assertFalse(answer.startswith(b"HTTP/"), answer)


class TlsTest(SecureTest):
    flags = ("--deterministic",)

    def test_answers_whole_and_streamed_on_a_kept_connection(self):
        whole = self.server.chat(max_tokens=20, temperature=0).json["choices"][0]["message"]["content"]
        connection = self.server.connect()
        self.addCleanup(connection.close)
        for _ in range(3):
            body = {
                "messages": [{"role": "user", "content": "hello world"}],
                "max_tokens": 20,
                "temperature": 0,
                "stream": True,
            }
            connection.request("POST", "/v1/chat/completions", json.dumps(body))
            pieces = [
                c["delta"].get("content") or "" for e in events(connection.getresponse().read()) for c in e["choices"]
            ]
            self.assertEqual("".join(pieces), whole)

    def test_large_bodies_and_answers_come_whole(self):
        text = "hello world " * 40_000  # many records of TLS
        reply = self.server.post("/tokenize", {"prompt": text})
        self.assertEqual(reply.status, 200)
        self.assertGreater(len(reply.body), 300_000)
        self.assertEqual(self.server.post("/detokenize", {"tokens": reply.json["tokens"]}).json["prompt"], text)

    def test_bytes_in_small_pieces_and_pipelined_requests(self):
        request = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
        connection = self.server.secured()
        self.addCleanup(connection.close)
        for i in range(len(request)):
            connection.sendall(request[i : i + 1])  # a record each
        connection.sendall(request + request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        self.assertEqual(answer.count(b"HTTP/1.1 200 OK"), 3, answer)

    def test_a_client_that_leaves_ends_its_request(self):
        for orderly in (False, True):
            body = json.dumps(
                {"prompt": "hello world", "max_tokens": 2000, "ignore_eos": True, "stream": True}
            ).encode()
            connection = self.server.secured(suppress_ragged_eofs=False)
            connection.sendall(
                b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            self.assertIn(b"200 OK", connection.recv(65536))
            if orderly:
                connection.setblocking(False)
                try:
                    connection.unwrap()
                except (ssl.SSLError, OSError):
                    pass  # ours was sent; the server's answer is not waited for
            connection.close()
            self.assert_idle()

    def test_who_speaks_plain_http_is_told(self):
        answer = until_closed(self.server.raw(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"))
        self.assertIn(b"400 Bad Request", answer)
        self.assertIn(b"this port speaks https", answer)

    def test_our_clients(self):
        flags = ("--base-url", self.server.url, "-p", "hello world", "--max-tokens", "3", "--temperature", "0")
        done = octavo("chat", *flags, "--ssl-ca-certs", self.certificate)
        self.assertEqual(done.code, 0, done)
        refused = octavo("chat", *flags)
        self.assertEqual(refused.code, 1)
        self.assertIn("certificate is not believed", refused.err)
        bench = ("bench", "serve", "--base-url", self.server.url, "--num-prompts", "4", "--random-input-len", "9",
                 "--random-output-len", "4", "--disable-tqdm")  # fmt: skip
        self.assertEqual(octavo(*bench, "--insecure").code, 0)
        self.assertEqual(octavo(*bench).code, 1)

    def test_many_at_once(self):
        replies = []

        def ask():
            replies.append(self.server.complete(max_tokens=8, temperature=0).json)

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len({reply["choices"][0]["text"] for reply in replies}), 1)
        self.assertEqual(len(replies), 16)

    def test_a_renewed_certificate_is_used_and_a_bad_one_is_not(self):
        certificate, key = make_certificate(self.folder, "renewed")
        server = SecureServer(self.model, certificate, key)
        first = ssl.get_server_certificate(("127.0.0.1", server.port))
        kept = server.secured()
        self.addCleanup(kept.close)
        make_certificate(self.folder, "renewed")
        server.process.send_signal(signal.SIGHUP)
        server.wait_until(lambda: ssl.get_server_certificate(("127.0.0.1", server.port)) != first)
        second = ssl.get_server_certificate(("127.0.0.1", server.port))
        kept.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n")
        self.assertIn(b"200 OK", kept.recv(65536))
        key.write_text("rubbish")
        server.process.send_signal(signal.SIGHUP)
        server.wait_for_log("certificate not read anew")
        self.assertEqual(ssl.get_server_certificate(("127.0.0.1", server.port)), second)
        server.stop()

    def test_wrong_files_are_said_at_start(self):
        rubbish = self.folder / "rubbish.pem"
        rubbish.write_text("no PEM")
        _, other = make_certificate(self.folder, "other")
        for flags, mention in ((("--ssl-certfile", rubbish, "--ssl-keyfile", self.key), "rubbish.pem"),
                               (("--ssl-certfile", self.certificate, "--ssl-keyfile", rubbish), "rubbish.pem"),
                               (("--ssl-certfile", self.certificate, "--ssl-keyfile", other), "is not the key of"),
                               (("--ssl-certfile", "/nonexistent"), "/nonexistent"),
                               (("--ssl-certfile", self.certificate), "--ssl-keyfile")):  # fmt: skip
            with self.subTest(flags):
                done = octavo("serve", self.model, "--port", "0", *flags)
                self.assertEqual(done.code, 1, done)
                self.assertIn(mention, done.err)
                self.assertNotIn("capacity", done.text)


if __name__ == "__main__":
    unittest.main()
