"""What deploy/ reads is what /metrics says: every name and every label of the alert rules and of the dashboard is there."""

import json
import re
import unittest

from served import SOURCE_DIR, ServiceTest

DEPLOY = SOURCE_DIR / "deploy"
NAME = re.compile(r"\b(?:vllm|octavo):\w+")


def dashboard_queries():
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel["targets"]]


def rule_queries():
    """The expressions of the rules; no YAML is needed for this much."""
    text = (DEPLOY / "alerts.yml").read_text()
    return re.findall(r"^ +expr: (.*(?:\n {10,}.*)*)", text, re.MULTILINE)


class DeployTest(ServiceTest):
    def test_every_name_exists(self):
        there = {name for name, _ in self.server.metrics()}
        for query in rule_queries() + dashboard_queries():
            used = NAME.findall(query)
            self.assertTrue(used or "up{" in query, query)
            for name in used:
                self.assertIn(name, there, query)

    def test_every_label_exists(self):
        labels = {}
        for line in self.server.get("/metrics").body.decode().splitlines():
            if not line.startswith("#"):
                name, inside = re.match(r"([\w:]+)\{(.*)\}", line).groups()
                labels.setdefault(name, set()).update(re.findall(r'(\w+)="', inside))
        for query in rule_queries() + dashboard_queries():
            for grouped in re.findall(r"by \(([\w, ]+)\)", query):
                for label in grouped.split(", "):
                    known = {"instance"}.union(*(labels[name] for name in NAME.findall(query)))
                    self.assertIn(label, known, query)

    def test_there_are_as_many_rules_as_alerts(self):
        self.assertEqual(len(rule_queries()), (DEPLOY / "alerts.yml").read_text().count("- alert:"))

    def test_docs_and_page_name_the_same_metrics(self):
        there = {re.sub(r"_(bucket|sum|count)$", "", name) for name, _ in self.server.metrics()}
        page = (SOURCE_DIR / "docs/operate.md").read_text()
        for name in sorted(there):
            if name.startswith("octavo:"):
                self.assertIn(f"`{name}`", page)
        for name in NAME.findall(page):  # vllm:gpu_prefix_cache_* stands for several
            self.assertTrue(any(known == name or known.startswith(name.rstrip("_") + "_") for known in there), name)


if __name__ == "__main__":
    unittest.main()
