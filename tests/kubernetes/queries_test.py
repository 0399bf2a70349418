"""Every query of the dashboards parses, and names metrics that the programs export, as do those of
the rules and of the ScaledObject. Needs promtool for the first."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import queries

sys.path.insert(0, str(queries.ROOT / "deploy"))
import dashboards  # noqa: E402


class QueriesTest(unittest.TestCase):

    def test_the_files_are_what_the_script_writes(self):
        for path, text in dashboards.files().items():
            self.assertEqual(path.read_text(), text, "run deploy/dashboards.py")
            self.assertIn(f"dashboards/{path.name}",
                          (queries.MONITORING / "kustomization.yaml").read_text())

    def test_metrics_exist(self):
        known = queries.known_metrics()
        self.assertIn("buttress_learner_step_duration_seconds_bucket", known)
        for name, text in (*queries.dashboard_queries(), ("rules", queries.RULES),
                           ("keda", queries.scaling_query())):
            self.assertTrue(queries.metrics_of(text), name)
            self.assertLessEqual(queries.metrics_of(text), known, name)

    @unittest.skipUnless(shutil.which("promtool"), "promtool is not installed")
    def test_queries_parse(self):
        rules = [{"record": "x", "expr": query, "labels": {"n": str(n)}}
                 for n, (_, query) in enumerate(queries.dashboard_queries())]
        self.assertGreater(len(rules), 80)
        self.assertEqual(self.check(rules), 0)
        self.assertNotEqual(self.check([{"record": "x", "expr": "sum by (run) (x"}]), 0)

    @staticmethod
    def check(rules):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "rules.yaml"
            path.write_text(json.dumps({"groups": [{"name": "queries", "rules": rules}]}))
            return subprocess.run(["promtool", "check", "rules", path], check=False,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode


if __name__ == "__main__":
    unittest.main()
