"""What a cluster does with StatefulSet, Deployment and Job, and the MPI operator with MPIJob.

reconcile() is called again and again, and replaces the pods that are gone.
"""
import copy
import itertools
import subprocess
import tempfile
import time

NAMESPACE = "buttress"


def template_of(thing):
    return copy.deepcopy(thing["spec"]["template"])


class StatefulSet:
    """One pod of a fixed name, with claims of its own."""

    def __init__(self, node, thing):
        self.node, self.thing = node, thing
        self.name = thing["metadata"]["name"]
        self.pod = None

    def reconcile(self):
        if self.pod is not None and self.pod.running():
            return
        if self.pod is not None:
            self.pod.delete()
        template = template_of(self.thing)
        for claim in self.thing["spec"].get("volumeClaimTemplates", []):
            name = claim["metadata"]["name"]
            template["spec"]["volumes"].append(
                {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{self.name}-0"}})
        self.pod = self.node.start(f"{self.name}-0", template["metadata"]["labels"],
                                   template["spec"], [self.name, f"{self.name}.{NAMESPACE}.svc"])

    def pods(self):
        return [self.pod]


class Deployment:
    """Pods without names of their own: each replacement has another."""

    def __init__(self, node, thing):
        self.node, self.thing = node, thing
        self.replicas, self.numbers = [], itertools.count()

    def reconcile(self):
        for pod in self.replicas:
            if not pod.running():
                pod.delete()
        self.replicas = [pod for pod in self.replicas if pod.state()[0] != "gone"]
        while len(self.replicas) < self.thing["spec"]["replicas"]:
            template = template_of(self.thing)
            name = f"{self.thing['metadata']['name']}-{next(self.numbers)}"
            self.replicas.append(
                self.node.start(name, template["metadata"]["labels"], template["spec"]))

    def pods(self):
        return list(self.replicas)


def ssh_secret():
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-b", "521", "-N", "", "-f",
                        f"{folder}/key"], check=True)
        private = open(f"{folder}/key", encoding="ascii").read()
        public = open(f"{folder}/key.pub", encoding="ascii").read()
    return {"id_rsa": private, "id_rsa.pub": public, "authorized_keys": public}


class MpiJob:
    """Workers with sshd, then the launcher. A worker that is gone is made again under its name; a
    launcher that failed is followed by another, until one succeeds."""

    # The environment that the operator gives a launcher for Open MPI.
    LAUNCHER = {"OMPI_MCA_orte_keep_fqdn_hostnames": "true",
                "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile",
                "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
                "OMPI_MCA_orte_set_default_slots": "1",
                "K_MPI_JOB_ROLE": "launcher"}

    def __init__(self, node, thing):
        self.node, self.thing = node, thing
        self.name, self.spec = thing["metadata"]["name"], thing["spec"]
        self.count = self.spec["mpiReplicaSpecs"]["Worker"]["replicas"]
        self.workers, self.launcher, self.exits = {}, None, []
        self.keys = f"{self.name}-ssh"
        node.maps["Secret"][self.keys] = {"stringData": ssh_secret()}
        hosts = "".join(f"{self.host(i)} slots={self.spec['slotsPerWorker']}\n"
                        for i in range(self.count))
        node.maps["ConfigMap"][f"{self.name}-config"] = {"data": {"hostfile": hosts}}

    def host(self, index):
        return f"{self.name}-worker-{index}.{self.name}.{NAMESPACE}.svc"

    def template(self, role):
        template = copy.deepcopy(self.spec["mpiReplicaSpecs"][role]["template"])
        template["metadata"]["labels"] |= {"training.kubeflow.org/job-name": self.name,
                                           "training.kubeflow.org/job-role": role.lower()}
        container = template["spec"]["containers"][0]
        container["volumeMounts"].append(
            {"name": "ssh-auth", "mountPath": self.spec["sshAuthMountPath"], "readOnly": True})
        template["spec"]["volumes"].append(
            {"name": "ssh-auth", "secret": {"secretName": self.keys, "defaultMode": 0o640}})
        return template, container

    def reconcile(self):
        for i in range(self.count):
            if i not in self.workers or not self.workers[i].running():
                if i in self.workers:
                    self.workers[i].delete()
                template, _ = self.template("Worker")
                name = f"{self.name}-worker-{i}"
                self.workers[i] = self.node.start(name, template["metadata"]["labels"],
                                                  template["spec"],
                                                  [self.host(i), f"{name}.{self.name}"])
        if self.launcher is None:
            if all(worker.ready() for worker in self.workers.values()):
                self.start_launcher()
            return
        status, code = self.launcher.state()
        if status != "running" and (code != 0 or status == "gone"):
            self.exits.append(code)
            self.launcher.delete()
            self.launcher = None

    def start_launcher(self):
        template, container = self.template("Launcher")
        container.setdefault("env", []).extend(
            {"name": name, "value": value} for name, value in self.LAUNCHER.items())
        container["volumeMounts"].append({"name": "mpi-job-config", "mountPath": "/etc/mpi"})
        template["spec"]["volumes"].append(
            {"name": "mpi-job-config", "configMap": {"name": f"{self.name}-config"}})
        labels = template["metadata"]["labels"] | {"batch.kubernetes.io/controller-uid": "job-0"}
        self.launcher = self.node.start(f"{self.name}-launcher-{len(self.exits)}", labels,
                                        template["spec"])

    def pods(self):
        return [*self.workers.values(), *([self.launcher] if self.launcher else [])]


def run_job(node, thing, seconds):
    """Runs the pod of a Job to its end; raises where it fails."""
    template = template_of(thing)
    pod = node.start(f"{thing['metadata']['name']}-0", template["metadata"]["labels"],
                     template["spec"])
    deadline = time.monotonic() + seconds
    while pod.state()[0] in ("created", "running"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"the Job {pod.name} did not end within {seconds} s")
        time.sleep(1)
    status, code = pod.state()
    if code != 0:
        raise RuntimeError(f"the Job {pod.name} is {status} with {code}: {pod.logs()}")
    pod.delete()
