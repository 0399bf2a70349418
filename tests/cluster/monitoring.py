"""A Prometheus that scrapes pods as the Prometheus operator would make it from PodMonitors."""
import json
import pathlib
import re
import subprocess
import time
import urllib.parse
import urllib.request

import yaml

import controllers

META = "__meta_kubernetes_"


def snake(name):
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)


def scrape_config(monitor, endpoint, folder, targets):
    """The operator's relabelling: the pods that the selector names, their port of this name."""
    labels = monitor["spec"]["selector"]["matchLabels"]
    rules = [{"source_labels": [f"{META}pod_label_{snake(name)}"], "regex": value, "action": "keep"}
             for name, value in labels.items()]
    rules += [{"source_labels": [f"{META}pod_container_port_name"], "regex": endpoint["port"],
               "action": "keep"},
              {"source_labels": [f"{META}namespace"], "target_label": "namespace"},
              {"source_labels": [f"{META}pod_name"], "target_label": "pod"}]
    if "jobLabel" in monitor["spec"]:
        rules.append({"source_labels": [f"{META}pod_label_{snake(monitor['spec']['jobLabel'])}"],
                      "target_label": "job"})
    rules += [{"source_labels": [f"{META}pod_label_{snake(name)}"], "target_label": snake(name)}
              for name in monitor["spec"].get("podTargetLabels", [])]
    for extra in endpoint.get("relabelings", []):
        rules.append({re.sub("([A-Z])", lambda m: "_" + m[1].lower(), key): value
                      for key, value in extra.items()})
    return {"job_name": f"{monitor['metadata']['name']}/{endpoint['port']}",
            "scheme": endpoint["scheme"], "scrape_interval": endpoint.get("interval", "15s"),
            "scrape_timeout": "5s",
            "tls_config": {"ca_file": str(folder / "ca.crt"),
                           "server_name": endpoint["tlsConfig"]["serverName"]},
            "authorization": {"credentials_file": str(folder / "token")},
            "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}],
            "relabel_configs": rules}


class Prometheus:

    def __init__(self, folder, monitors, rules, secrets):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        (self.folder / "ca.crt").write_text(secrets["ca.crt"])
        (self.folder / "token").write_text(secrets["monitor.token"])
        self.targets = self.folder / "targets.json"
        self.targets.write_text("[]")
        for rule in rules:
            name = f"{rule['metadata']['name']}.rules.yaml"
            (self.folder / name).write_text(yaml.safe_dump(rule["spec"]))
        configs = [scrape_config(monitor, endpoint, self.folder, self.targets)
                   for monitor in monitors for endpoint in monitor["spec"]["podMetricsEndpoints"]]
        (self.folder / "prometheus.yaml").write_text(yaml.safe_dump(
            {"rule_files": [str(self.folder / "*.rules.yaml")], "scrape_configs": configs}))
        self.log = open(self.folder / "log", "w", encoding="utf-8")
        self.address = "127.0.0.1:19090"
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={self.folder}/prometheus.yaml",
             f"--storage.tsdb.path={self.folder}/data", f"--web.listen-address={self.address}"],
            stdout=self.log, stderr=self.log)

    def discover(self, pods):
        """Names the pods with the labels that discovery on Kubernetes gives them."""
        found = []
        for pod in pods:
            labels = {f"{META}namespace": controllers.NAMESPACE, f"{META}pod_name": pod.name}
            labels |= {f"{META}pod_label_{snake(name)}": value
                       for name, value in pod.labels.items()}
            found += [{"targets": [f"{pod.ip}:{number}"],
                       "labels": labels | {f"{META}pod_container_port_name": name}}
                      for name, number in pod.ports().items()]
        part = self.targets.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.rename(self.targets)

    def query(self, expression):
        """[(labels, value)] of an instant query; empty where Prometheus does not answer yet."""
        url = f"http://{self.address}/api/v1/query?" + urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                rows = json.load(answer)["data"]["result"]
        except OSError:
            return []
        return [(row["metric"], float(row["value"][1])) for row in rows]

    def wait_for(self, expression, wanted, seconds):
        """Polls until wanted(result) holds; returns the last result."""
        deadline = time.monotonic() + seconds
        while True:
            result = self.query(expression)
            if wanted(result) or time.monotonic() > deadline:
                return result
            time.sleep(1)

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=20)
        self.log.close()
