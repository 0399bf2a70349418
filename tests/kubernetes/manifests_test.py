"""Every overlay of k8s/ renders, fits the schemas and passes the checks; and each check finds what
it is there for in a broken manifest. Needs kubectl, and the environment of setup.sh.

    manifests_test.py COORDINATOR      the program, which checks every run.yaml
"""

import copy
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import yaml

from checks import problems_of
from manifests import ROOT, render, schema_problems

OVERLAYS = ["k8s/overlays/dev", "k8s/overlays/single-node-8gpu", "k8s/overlays/multi-node",
            "tests/kubernetes/every-component", "tests/kubernetes/failed-over"]
COORDINATOR = sys.argv.pop() if len(sys.argv) > 1 else ""
RENDERED = {folder: render(folder) for folder in OVERLAYS}
POD = "spec.template.spec."
NODE = "spec.mpiReplicaSpecs.Worker.template.spec."
LAUNCHER = "spec.mpiReplicaSpecs.Launcher."
ABSENT = object()

# The overlay dev with one value of one object replaced, and what is said about it.
BROKEN = [
    # Schemas: unknown fields, types, and words that an operator takes for others.
    ("MPIJob/learner", "spec.slotsPerWorkers", 2, "'slotsPerWorkers' was unexpected"),
    ("MPIJob/learner", "spec.slotsPerWorker", "2", "not of type 'integer'"),
    ("MPIJob/learner", "spec.launcherCreationPolicy", "WaitForWorkers", "not one of"),
    ("MPIJob/learner", LAUNCHER + "restartPolicy", "Always", "not one of"),
    ("MPIJob/learner", NODE + "containers.0.imagee", "x", "'imagee' was unexpected"),
    ("MPIJob/learner", NODE + "terminationGracePeriod", 9, "'terminationGracePeriod' was unexp"),
    ("StatefulSet/coordinator", POD + "containers.0.livenessProbe.httpGet.ports", 1, "unexpected"),
    ("StatefulSet/coordinator", POD + "terminationGracePeriodSeconds", "30", "not of type"),
    ("Deployment/rollout-worker", "spec.replica", 1, "'replica' was unexpected"),
    ("PodMonitor/buttress", "spec.podMetricsEndpoints.0.schema", "https", "unexpected"),
    ("PrometheusRule/buttress", "spec.groups.0.rules.0.alert", "Both", "is valid under each"),
    ("NetworkPolicy/dns", "spec.egres", [], "'egres' was unexpected"),
    # Checks.
    ("Deployment/rollout-worker", POD + "containers.0.image", "buttress:latest", "is not pinned"),
    ("Deployment/rollout-worker", POD + "containers.0.image", "buttress", "is not pinned"),
    ("Deployment/rollout-worker", POD + "containers.0.securityContext.readOnlyRootFilesystem",
     ABSENT, "may write to its root"),
    ("Job/data", POD + "containers.0.securityContext.capabilities.drop", [], "keeps capabilities"),
    ("Job/data", POD + "containers.0.securityContext.allowPrivilegeEscalation", True, "escalate"),
    ("Job/data", POD + "containers.0.securityContext.runAsUser", 0, "changes its user"),
    ("MPIJob/learner", NODE + "containers.0.resources.limits.memory", ABSENT, "no limits of cpu"),
    ("MPIJob/learner", NODE + "initContainers.0.resources.requests", ABSENT, "no requests of cpu"),
    ("MPIJob/learner", NODE + "securityContext.runAsNonRoot", False, "does not run as user 1000"),
    ("MPIJob/learner", NODE + "automountServiceAccountToken", ABSENT, "automountServiceAccount"),
    ("MPIJob/learner", NODE + "hostNetwork", True, "shares a namespace with its node"),
    ("MPIJob/learner", NODE + "volumes.2.configMap.name", "run", "there is no ConfigMap run"),
    ("MPIJob/learner", NODE + "volumes.0.persistentVolumeClaim.claimName", "x", "Claim x"),
    ("StatefulSet/coordinator", POD + "volumes.2.secret.secretName", "x", "no Secret x"),
    ("StatefulSet/coordinator", POD + "volumes.3.projected.sources.0.secret.name", "x",
     "no Secret x"),
    ("StatefulSet/coordinator", POD + "volumes.2.secret.defaultMode", ABSENT, "no defaultMode"),
    ("Deployment/rollout-worker", POD + "volumes.4.projected.defaultMode", 0o644, "no defaultMode"),
    ("MPIJob/learner", NODE + "securityContext.fsGroup", ABSENT, "without fsGroup 1000 nobody"),
    ("Deployment/rollout-worker", POD + "volumes.4.projected.sources.1.secret.name",
     "buttress-token-learner", "reads the tokens of learner, worker, expected monitor, worker"),
    ("StatefulSet/coordinator", POD + "serviceAccountName", "x", "there is no ServiceAccount x"),
    ("StatefulSet/coordinator", POD + "containers.0.volumeMounts.0.name", "x", "no volume x"),
    ("StatefulSet/coordinator", POD + "volumes.4.emptyDir.sizeLimit", ABSENT, "has no sizeLimit"),
    ("StatefulSet/coordinator", "spec.selector.matchLabels.x", "y", "does not select its own"),
    ("Service/coordinator", "spec.ports.0.targetPort", "x", "no pod has the port x"),
    ("PodDisruptionBudget/rollout-worker", "spec.selector.matchLabels.x", "y", "selects no pod"),
    ("PodDisruptionBudget/learner", "spec.minAvailable", "100%", "minAvailable: 2, an integer"),
    ("PodDisruptionBudget/learner", "spec.minAvailable", 1, "minAvailable: 2, an integer"),
    ("MPIJob/learner", LAUNCHER + "replicas", 2, "an MPI job has one launcher"),
    ("MPIJob/learner", LAUNCHER + "template.spec.containers.0.args", ["-np", "4"], "slotsPerWor"),
    ("MPIJob/learner", "spec.slotsPerWorker", 2, "2 slots need the ports metrics-0 (9500) to metr"),
    ("MPIJob/learner", NODE + "containers.0.resources.limits.nvidia~com/gpu", 1, "but 1 GPUs"),
    ("MPIJob/learner", "metadata.name", "other", "which is not the node of rank 0"),
    ("Deployment/rollout-worker", POD + "containers.0.resources.limits.nvidia~com/gpu", 1,
     "1 GPUs, expected 0"),
    ("Deployment/rollout-worker", POD + "containers.0.ports.0.containerPort", 7003,
     "port weights is not that of listen in run.yaml"),
    ("Service/coordinator", "metadata.name", "x", "run.yaml: no Service is coordinator:7000"),
    ("PodMonitor/buttress", "spec.podMetricsEndpoints.0.port", "x", "no PodMonitor scrapes the p"),
    ("PodMonitor/buttress", "spec.podMetricsEndpoints.0.tlsConfig.serverName", "x", "serverName"),
    ("NetworkPolicy/metrics", "spec.ingress.0.ports.0.port", 9501, "lets Prometheus in at port"),
    ("NetworkPolicy/coordinator", "spec.ingress.0.ports.0.port", 7001, "into coordinator at port"),
    ("NetworkPolicy/learner", "spec.egress.0", ABSENT, "lets learner out to learner"),
    ("NetworkPolicy/rollout-worker", "spec.egress.1", ABSENT, "out to learner at port 7001"),
    ("NetworkPolicy/default-deny", "spec.policyTypes", ["Ingress"], "denies everything"),
    ("MPIJob/learner", NODE + "terminationGracePeriodSeconds", 30, "PeriodSeconds is below 300"),
    ("Service/coordinator", "metadata.namespace", "other", "is not in the namespace buttress"),
    ("Namespace/buttress", "metadata.labels", {"pod-security.kubernetes.io/enforce": "baseline"},
     "restricted pod security standard"),
]


# The same of the overlay multi-node.
BROKEN_EVALUATOR = [
    ("Deployment/evaluator", POD + "containers.0.resources.limits.nvidia~com/gpu", ABSENT,
     "0 GPUs, expected 1"),
    ("Deployment/evaluator", "spec.replicas", 2, "two evaluators at a time"),
    ("Deployment/evaluator", "spec.strategy.type", "RollingUpdate", "two evaluators at a time"),
    ("Deployment/evaluator", POD + "volumes.0.persistentVolumeClaim.claimName", "data",
     "not the folder of the learner"),
    ("Deployment/evaluator", POD + "containers.0.volumeMounts.0.readOnly", True,
     "not the folder of the learner"),
    ("Deployment/evaluator", POD + "containers.0.volumeMounts.0.mountPath", "/out",
     "not the folder of the learner"),
    ("Deployment/evaluator", "spec.template.metadata.labels.app~kubernetes~io/component", "data",
     "but there are 0 evaluators"),
    ("Deployment/evaluator", POD + "terminationGracePeriodSeconds", 5, "PeriodSeconds is below 20"),
]


# The same of all components.
BROKEN_STANDBY = [
    ("StatefulSet/standby", POD + "affinity", ABSENT, "may share the node of the coordinator"),
    ("StatefulSet/standby", POD + "containers.0.args", ["--config", "x"], "without --standby"),
    ("StatefulSet/coordinator", POD + "containers.0.args", [], "lets no standby follow"),
    ("StatefulSet/standby", POD + "volumes.2.projected.sources.0.secret.name",
     "buttress-token-worker", "reads the tokens of worker, expected operator"),
    ("NetworkPolicy/coordinator-standby", "spec.ingress", [], "lets standby into coordinator"),
    ("NetworkPolicy/standby", "spec.egress", [], "lets standby out to coordinator"),
]


def broken(name, path, value, folder=OVERLAYS[0]):
    """Objects of an overlay with `value` at `path` of one, which is returned as well; '~' stands
    for a dot in a key."""
    objects = copy.deepcopy(RENDERED[folder])
    (thing,) = [t for t in objects if f"{t['kind']}/{t['metadata']['name']}" == name]
    part = thing
    *keys, last = [key.replace("~", ".") for key in path.split(".")]
    for key in keys:
        part = part[int(key)] if isinstance(part, list) else part[key]
    last = int(last) if isinstance(part, list) else last
    if value is ABSENT:
        del part[last]
    else:
        part[last] = value
    return objects, thing


class ManifestsTest(unittest.TestCase):

    def test_overlays_fit_the_schemas_and_pass_the_checks(self):
        for folder, objects in RENDERED.items():
            with self.subTest(folder):
                self.assertEqual(schema_problems(objects) + problems_of(objects), [])

    def test_what_is_broken_is_found(self):
        cases = [(OVERLAYS[0], case) for case in BROKEN]
        cases += [("k8s/overlays/multi-node", case) for case in BROKEN_EVALUATOR]
        cases += [("tests/kubernetes/every-component", case) for case in BROKEN_STANDBY]
        for folder, (name, path, value, message) in cases:
            with self.subTest(f"{name} {path}"):
                objects, thing = broken(name, path, value, folder)
                found = schema_problems([thing]) or problems_of(objects)
                self.assertIn(message, "\n".join(found))

    def test_programs_accept_the_runs(self):
        for folder in OVERLAYS[:3]:
            command = [COORDINATOR, "--config", ROOT / folder / "run.yaml", "--print-config"]
            done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, folder)

    def test_a_server_of_vllm_is_started_as_its_run_needs_it(self):
        for folder, run in (("k8s/overlays/single-node-8gpu",) * 2,
                            ("tests/kubernetes/every-component", "k8s/overlays/multi-node")):
            (command,) = [container for thing in RENDERED[folder] if thing["kind"] == "Deployment"
                          for container in thing["spec"]["template"]["spec"]["initContainers"]
                          if container["name"] == "vllm-command"]
            arguments = [str(ROOT / run / "run.yaml").join(argument.split(
                "/etc/buttress/config/run.yaml")) for argument in command["args"]]
            program = pathlib.Path(COORDINATOR).parent / "buttress"
            script = subprocess.run([program, "vllm-server", *arguments], check=True,
                                    capture_output=True, text=True).stdout
            self.assertIn("export CUDA_VISIBLE_DEVICES=0\n", script, folder)
            self.assertIn("export VLLM_SERVER_DEV_MODE=1\n", script, folder)
            self.assertIn("exec vllm serve /data/models/", script, folder)
            self.assertIn(" --host 127.0.0.1 --port 8000 ", script, folder)

    def test_dev_is_the_quickstart(self):
        text = (ROOT / "configs/quickstart.yaml").read_text()
        quickstart = yaml.safe_load(text.replace("../runs/quickstart-data/", "/data/quickstart/"))
        dev = yaml.safe_load((ROOT / "k8s/overlays/dev/run.yaml").read_text())
        self.assertEqual(dev["run"], quickstart["run"])

    def test_a_folder_that_does_not_render_is_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "kustomization.yaml").write_text("resources: [missing.yaml]")
            with self.assertRaisesRegex(ValueError, "missing.yaml"):
                render(os.path.relpath(folder, ROOT))


if __name__ == "__main__":
    unittest.main()
