"""Debian's Prometheus scrapes the server with the configuration and the rules in deploy/, and finds nothing to object to."""

import json
import pathlib
import shutil
import socket
import subprocess
import time
import unittest
import urllib.parse
import urllib.request

from served import PATIENCE, SOURCE_DIR, ServiceTest

DEPLOY = SOURCE_DIR / "deploy"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def promtool(*arguments, text=None):
    return subprocess.run(["promtool", *map(str, arguments)], input=text, capture_output=True, text=True, timeout=PATIENCE)


class PrometheusTest(ServiceTest):
    @classmethod
    def setUpClass(cls):
        assert shutil.which("prometheus") and shutil.which("promtool"), "prometheus is not there: scripts/test --slow installs it"
        super().setUpClass()
        cls.server.complete(max_tokens=20, ignore_eos=True)
        cls.server.complete(max_tokens=20, stream=True)
        cls.prometheus = cls.start_prometheus()

    @classmethod
    def start_prometheus(cls):
        """The configuration of deploy/, in a hurry and with this server's port."""
        folder = cls.folder / "prometheus"
        folder.mkdir()
        text = (DEPLOY / "prometheus.yml").read_text().replace("15s", "1s").replace("127.0.0.1:8000", f"127.0.0.1:{cls.server.port}")
        (folder / "prometheus.yml").write_text(text)
        shutil.copy(DEPLOY / "alerts.yml", folder)
        cls.prometheus_port = free_port()
        log = (folder / "log").open("wb")
        process = subprocess.Popen(["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                                    f"--web.listen-address=127.0.0.1:{cls.prometheus_port}"], stdout=log, stderr=log)  # fmt: skip
        cls.addClassCleanup(log.close)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.terminate)
        return process

    def query(self, path, **parameters):
        url = f"http://127.0.0.1:{self.prometheus_port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=PATIENCE) as response:
            return json.load(response)["data"]

    def wait_for(self, condition, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while True:
            try:
                if found := condition():
                    return found
            except OSError:
                pass  # it does not listen yet
            self.assertLess(time.monotonic(), end, (self.folder / "prometheus/log").read_text()[-2000:])
            time.sleep(0.2)

    def test_the_page_has_no_faults_but_those_of_vllms_names(self):
        checked = promtool("check", "metrics", text=self.server.get("/metrics").body.decode())
        remarks = (checked.stdout + checked.stderr).splitlines()
        self.assertNotEqual(checked.returncode, 1, remarks)
        known = ("should not contain ':'", 'vllm:iteration_tokens_total non-counter metrics should not have "_total" suffix')
        self.assertEqual([line for line in remarks if not line.endswith(known)], [])

    def test_rules_and_configuration_are_valid(self):
        for arguments in (("check", "rules", DEPLOY / "alerts.yml"), ("check", "config", DEPLOY / "prometheus.yml")):
            checked = promtool(*arguments)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_it_is_scraped_and_every_value_arrives(self):
        target = self.wait_for(lambda: [t for t in self.query("targets")["activeTargets"] if t["health"] != "unknown"])[0]
        self.assertEqual((target["health"], target["lastError"]), ("up", ""))
        wanted = self.server.metrics()
        self.wait_for(lambda: self.query("query", query="vllm:generation_tokens_total")["result"])
        for name, labels in wanted:
            selector = ",".join([label for label in labels.split(",") if label] + ['model_name="tiny"', 'engine="0"'])
            result = self.query("query", query=f"{name}{{{selector}}}")["result"]
            self.assertEqual(len(result), 1, f"{name}{{{labels}}}")

    def test_every_rule_and_every_panel_can_be_computed(self):
        rules = self.wait_for(lambda: [r for g in self.query("rules")["groups"] for r in g["rules"] if r["health"] != "unknown"])
        self.assertEqual([r["name"] for r in rules if r["health"] != "ok"], [])
        panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
        for panel in panels:
            for target in panel["targets"]:
                query = target["expr"].replace("$model", ".*").replace("$instance", ".*").replace("$__rate_interval", "1m")
                self.query("query", query=query)

    def test_a_server_that_is_well_alarms_nobody(self):
        self.wait_for(lambda: self.query("query", query="up")["result"])
        self.assertEqual(self.query("alerts")["alerts"], [])


if __name__ == "__main__":
    unittest.main()
