"""The checks of tests/cluster/run.sh."""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

import yaml

import controllers
import ledger
import monitoring
import pods

ROOT = pathlib.Path(__file__).resolve().parents[2]
MORE_STEPS = 10     # that a run continues is shown by as many steps
PATIENCE = 180      # seconds for that
ROLES = ("worker", "learner", "operator", "monitor")
# The run does not end by itself, a lease outlasts a busy machine, and a silent rank is given up
# early.
LEASE_SECONDS = 10
SETTINGS = {"run": {"steps": 1000000, "lease_ms": LEASE_SECONDS * 1000, "eval": {"every": 5}},
            "local": {"learner": {"collective_timeout_ms": 15000}}}


def merge(target, source):
    for key, value in source.items():
        if isinstance(value, dict):
            merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def render():
    text = subprocess.run(["kubectl", "kustomize", ROOT / "tests/cluster/evaluated"], check=True,
                          capture_output=True, text=True).stdout
    text = text.replace("image: buttress:", "image: localhost/buttress:")
    objects = list(yaml.safe_load_all(text))
    for thing in objects:
        if thing["kind"] == "ConfigMap" and "run.yaml" in thing["data"]:
            config = yaml.safe_load(thing["data"]["run.yaml"])
            merge(config, SETTINGS)
            thing["data"]["run.yaml"] = yaml.safe_dump(config)
    return objects, config


def secrets(folder):
    """The Secrets that the manifests name, made with make-certs.sh."""
    subprocess.run([ROOT / "deploy/make-certs.sh", folder, "buttress"], check=True,
                   capture_output=True)
    def read(name):
        return (folder / name).read_text()
    return {"buttress-tls": {"tls.crt": read("buttress.pem"), "tls.key": read("buttress.key"),
                             "ca.crt": read("ca.pem")},
            **{f"buttress-token-{role}": {f"{role}.token": read(f"{role}.token")}
               for role in ROLES}}


def newest_step(file):
    lines = file.read_text().splitlines() if file.exists() else []
    for line in reversed(lines):
        try:
            return int(json.loads(line)["step"])
        except ValueError:
            continue  # the line is being written
    return 0


class Cluster:
    """The objects of the overlay, running."""

    def __init__(self, folder):
        self.objects, self.config = render()
        self.secrets = secrets(folder / "certs")
        self.node = pods.Node(folder, self.objects)
        for name, data in self.secrets.items():
            self.node.maps["Secret"][name] = {"stringData": data}
        controllers.run_job(self.node, self.only("Job"), 900)
        self.coordinator = controllers.StatefulSet(self.node, self.only("StatefulSet"))
        self.workers, self.evaluator = (
            controllers.Deployment(self.node, self.only("Deployment", name))
            for name in ("rollout-worker", "evaluator"))
        self.learner = controllers.MpiJob(self.node, self.only("MPIJob"))
        self.controllers = [self.coordinator, self.workers, self.learner, self.evaluator]
        self.prometheus = monitoring.Prometheus(
            folder / "prometheus", self.all("PodMonitor"), self.all("PrometheusRule"),
            self.secrets["buttress-tls"] | self.secrets["buttress-token-monitor"])
        self.ledger = self.node.claim("ledger-coordinator-0")
        self.steps = self.node.claim("checkpoints") / "steps.jsonl"
        self.evals = self.node.claim("checkpoints") / "eval.jsonl"

    def all(self, kind):
        return [thing for thing in self.objects if thing["kind"] == kind]

    def only(self, kind, name=None):
        thing, = (thing for thing in self.all(kind) if name in (None, thing["metadata"]["name"]))
        return thing

    def pods(self):
        return [pod for controller in self.controllers for pod in controller.pods()]

    def reconcile(self):
        for controller in self.controllers:
            controller.reconcile()
        self.prometheus.discover(self.pods())

    def step(self):
        return newest_step(self.steps)

    def wait(self, condition, what, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {seconds} s\n{self.logs()}")
            self.reconcile()
            time.sleep(1)

    def goes_on(self):
        """The run takes MORE_STEPS steps, and every pod is ready again."""
        goal = self.step() + MORE_STEPS
        self.wait(lambda: self.step() >= goal, f"step {goal}")
        self.wait(lambda: all(pod.ready() for pod in self.pods()), "every pod is ready")

    def logs(self):
        return "\n".join(f"--- {pod.name} {pod.state()}\n{pod.logs()}" for pod in self.pods())

    def count(self, metric):
        """A counter of the coordinator, summed over its labels, as Prometheus has it."""
        result = self.prometheus.query(f"sum({metric})")
        return result[0][1] if result else 0.0


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def starts(cluster):
    cluster.reconcile()
    cluster.goes_on()


def probes_hold(cluster):
    for pod in cluster.pods():
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            expect(pod.probe(kind), f"{kind} of {pod.name} fails")


def containers_have_no_rights(cluster):
    for pod in cluster.pods():
        pid = pods.podman("container", "inspect", "--format", "{{.State.Pid}}",
                          pod.container).strip()
        status = dict(line.split(":\t", 1) for line in
                      pathlib.Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
        expect(set(status["Uid"].split()) == {"1000"}, f"{pod.name} runs as {status['Uid']}")
        for name in ("CapEff", "CapPrm", "CapBnd"):
            expect(int(status[name], 16) == 0, f"{pod.name} has {name} {status[name]}")
        expect(status["NoNewPrivs"] == "1", f"{pod.name} may gain privileges")
        expect(status["Seccomp"] == "2", f"{pod.name} has no seccomp filter")
        written = subprocess.run(["podman", "exec", pod.container, "touch", "/opt/buttress/x"],
                                 capture_output=True, text=True, check=False)
        expect("Read-only file system" in written.stderr, f"{pod.name} has a writable root")


def metrics_need_the_token(cluster):
    def token(role):
        return cluster.secrets[f"buttress-token-{role}"][f"{role}.token"].strip()
    for pod in cluster.pods():
        for port in pod.ports():
            if not port.startswith("metrics"):
                continue
            expect(pod.get("/metrics", port) == 401, f"{pod.name} shows metrics without the token")
            wrong = {"Authorization": "Bearer " + "0" * 64}
            expect(pod.get("/metrics", port, wrong) == 401, f"{pod.name} takes a wrong token")
            other = pod.get("/metrics", port, {"Authorization": "Bearer " + token("worker")})
            expect(other == 403, f"{pod.name} answers {other} to a worker's token")
            right = {"Authorization": "Bearer " + token("monitor")}
            expect(pod.get("/metrics", port, right) == 200, f"{pod.name} refuses the token")


def rpcs_need_the_token_and_the_authority(cluster):
    worker = cluster.workers.pods()[0]
    for setting, value, file, text in (
            ("tokens", "/tmp/wrong", "worker.token", "0" * 64),
            ("ca", "/tmp/wrong/ca.crt", "ca.crt",
             secrets(cluster.node.folder / "others")["buttress-tls"]["ca.crt"])):
        stranger = ("umask 077 && rm -rf /tmp/wrong && mkdir /tmp/wrong && "
                    "cp /etc/buttress/tokens/*.token /tmp/wrong && "
                    f"rm -f /tmp/wrong/{file} && cat >/tmp/wrong/{file} && "
                    "timeout 20 /opt/buttress/bin/rollout_worker --config "
                    "/etc/buttress/config/run.yaml --set local.worker.id=stranger --set "
                    "local.worker.metrics=127.0.0.1:0 --set local.worker.listen=127.0.0.1:0 "
                    f"--set local.worker.probes=off --set local.security.{setting}={value}")
        done = subprocess.run(["podman", "exec", "-i", worker.container, "sh", "-c", stranger],
                              input=text, capture_output=True, text=True, check=False)
        log = done.stdout + done.stderr
        expect(done.returncode != 0, f"a worker with another {file} ended with 0")
        expect("registered" not in log and ("oken" in log or "ertificate" in log),
               f"a worker with another {file} was not refused: {log[-600:]}")


def ranks_are_on_two_nodes(cluster):
    for node in cluster.learner.workers.values():
        ranks = pods.podman("exec", node.container, "pgrep", "-xc", "learner").strip()
        expect(ranks == "1", f"{node.name} has {ranks} ranks")


def prometheus_scrapes_every_pod(cluster):
    expected = sum(port.startswith("metrics") for pod in cluster.pods() for port in pod.ports())
    up = cluster.prometheus.wait_for("up == 1", lambda rows: len(rows) == expected, 60)
    expect(len(up) == expected, f"{len(up)} of {expected} targets are up")
    jobs = {labels["job"] for labels, _ in up}
    expect(jobs == {"buttress"}, f"the job of the targets is {jobs}")


def evaluates(cluster):
    """Weights of a later step than the newest evaluated one are evaluated."""
    goal = newest_step(cluster.evals) + 1
    cluster.wait(lambda: newest_step(cluster.evals) >= goal, f"an evaluation of step {goal}")


def loses_the_evaluator(cluster):
    before = newest_step(cluster.evals)
    cluster.evaluator.pods()[0].delete()
    evaluates(cluster)

    def is_newer(rows):
        return bool(rows) and rows[0][1] > before

    steps = cluster.prometheus.wait_for("max(buttress_learner_eval_steps)", is_newer, 60)
    expect(is_newer(steps), f"the newest evaluation by PromQL is {steps}, after step {before}")
    accuracy = cluster.prometheus.query("max(buttress_learner_eval_accuracy_ratio)")
    expect(0 < accuracy[0][1] <= 1, f"the accuracy by PromQL is {accuracy}")


def loses(choose):
    """Kills one pod; the run continues."""
    def check(cluster):
        choose(cluster).delete()
        cluster.goes_on()
    return check


def cuts_off_a_node(cluster):
    """No packet says that the node is gone; its pod is deleted after a while, as by a cluster."""
    node = cluster.learner.workers[1]
    node.cut_off()
    time.sleep(20)
    node.delete()
    cluster.goes_on()


def drains_a_worker(cluster):
    def expired():
        time.sleep(LEASE_SECONDS + 16)  # and one scrape interval
        return cluster.count('buttress_coordinator_leases_ended_total{reason="expired"}')

    worker = cluster.workers.pods()[0]
    before = expired()
    code = worker.terminate()
    expect(code == 0, f"the drained worker ended with {code}: {worker.logs()}")
    expect(expired() == before, f"leases of the drained worker expired: {worker.logs()}")
    cluster.goes_on()


def restarts_the_coordinator(cluster):
    code = cluster.coordinator.pod.terminate()
    expect(code == 0, f"the coordinator ended with {code}: {cluster.coordinator.pod.logs()}")
    cluster.goes_on()


def evicts_the_launcher(cluster):
    launcher = cluster.learner.launcher
    code = launcher.terminate()
    expect(code == 143, f"the evicted launcher ended with {code}: {launcher.logs()}")
    stopped = cluster.step()
    cluster.goes_on()
    steps = [json.loads(line)["step"] for line in cluster.steps.read_text().splitlines()[:-1]]
    expect(steps.count(stopped) == 1, f"step {stopped} was taken again: no checkpoint was written")


def drains_a_node(cluster):
    node = cluster.learner.workers[1]
    code = node.terminate()
    expect(code == 143, f"the drained node ended with {code}: {node.logs()}")
    cluster.goes_on()


def counts_agree(cluster):
    """Stops learner and workers; then ACR by PromQL equals the recount of the ledger."""
    cluster.learner.launcher.terminate()
    for worker in cluster.workers.pods():
        worker.terminate()
    time.sleep(5)
    counts, violations = ledger.audit(cluster.ledger)
    expect(not violations, "; ".join(violations[:5]))
    by_class = "sum by (collapse) (buttress_coordinator_groups_scored_total)"
    wanted = {name: float(counts[name]) for name in ledger.CLASSES}

    def agrees(rows):
        return {labels["collapse"]: value for labels, value in rows} == wanted

    rows = cluster.prometheus.wait_for(by_class, agrees, 45)
    expect(agrees(rows), f"Prometheus has {rows}, the ledger {wanted}")
    constant = counts["all_correct"] + counts["all_wrong"] + counts["other_constant"]
    acr = cluster.prometheus.query(
        'sum(buttress_coordinator_groups_scored_total{collapse!~"mixed|unscorable"}) / '
        'sum(buttress_coordinator_groups_scored_total{collapse!="unscorable"})')[0][1]
    expect(acr == constant / (constant + counts["mixed"]), f"ACR by PromQL is {acr}")
    print(f"        {sum(counts.values())} groups, ACR {acr:.6f} by PromQL and by the ledger")


CHECKS = (
    ("the run starts and takes steps over two nodes", starts),
    ("probes of every pod hold", probes_hold),
    ("uid 1000, no capabilities, read-only root", containers_have_no_rights),
    ("metrics need the token", metrics_need_the_token),
    ("RPCs need the token and the authority", rpcs_need_the_token_and_the_authority),
    ("one rank on each node", ranks_are_on_two_nodes),
    ("Prometheus scrapes every pod by the PodMonitors", prometheus_scrapes_every_pod),
    ("held-out prompts are evaluated during the run", evaluates),
    ("the evaluator is killed", loses_the_evaluator),
    ("a rollout worker is killed", loses(lambda cluster: cluster.workers.pods()[0])),
    ("a rollout worker is drained, no lease expires", drains_a_worker),
    ("the coordinator is killed", loses(lambda cluster: cluster.coordinator.pod)),
    ("the coordinator is restarted", restarts_the_coordinator),
    ("the first node of the learner is killed", loses(lambda cluster: cluster.learner.workers[0])),
    ("the second node of the learner is killed", loses(lambda cluster: cluster.learner.workers[1])),
    ("a node of the learner loses its network", cuts_off_a_node),
    ("a node of the learner is drained", drains_a_node),
    ("the launcher is killed", loses(lambda cluster: cluster.learner.launcher)),
    ("the launcher is evicted, the learner resumes", evicts_the_launcher),
    ("the audit is clean, ACR by PromQL is the ledger's", counts_agree),
)


def run_checks(folder):
    passed = failed = 0
    cluster = None
    for name, check in CHECKS:
        started = time.monotonic()
        try:
            cluster = cluster or Cluster(folder)
            check(cluster)
            passed += 1
            print(f"ok      {name} ({time.monotonic() - started:.0f} s)", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f"FAILED  {name}: {error}", flush=True)
            if not isinstance(error, AssertionError):
                traceback.print_exc(file=sys.stdout)
            if cluster is None or check is starts:
                break
    skipped = len(CHECKS) - passed - failed
    if cluster is not None:
        cluster.prometheus.stop()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 0 if failed == 0 else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true")
    keep = parser.parse_args().keep
    pods.Node.remove()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="buttress-cluster-"))
    folder.chmod(0o755)
    try:
        return run_checks(folder)
    finally:
        if keep:
            print(f"pods and {folder} are kept")
        else:
            pods.Node.remove()
            shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
