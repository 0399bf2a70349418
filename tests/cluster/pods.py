"""Pods on podman, as a kubelet would run them: volumes, names, probes and restarts."""
import dataclasses
import json
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import urllib.error
import urllib.request

import yaml

NETWORK = "buttress-cluster"
SUBNET = "10.89.77"
USER = 1000
# What this file does in podman's place, and `ports`, which podman would open on the host.
DONE_HERE = ("startupProbe", "livenessProbe", "readinessProbe", "resources", "ports")


def podman(*arguments, check=True, text=None, timeout=180):
    done = subprocess.run(["podman", *arguments], input=text, capture_output=True, text=True,
                          timeout=timeout, check=False)
    if check and done.returncode != 0:
        raise RuntimeError(f"podman {' '.join(arguments)}: {done.stderr.strip()[-600:]}")
    return done.stdout


@dataclasses.dataclass
class Pod:
    name: str
    ip: str
    labels: dict
    spec: dict

    @property
    def container(self):
        return f"{self.name}-{self.spec['containers'][0]['name']}"

    def state(self):
        """(status, exit code) of the main container; ("gone", None) where there is none."""
        shown = podman("container", "inspect", "--format", "{{json .State}}", self.container,
                       check=False)
        if not shown.strip():
            return "gone", None
        state = json.loads(shown)
        return state["Status"], state["ExitCode"]

    def running(self):
        return self.state()[0] == "running"

    def logs(self, lines=15):
        done = subprocess.run(["podman", "logs", "--tail", str(lines), self.container],
                              capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    def ports(self):
        """{name: number} of the ports that the containers declare."""
        return {port["name"]: port["containerPort"] for container in self.spec["containers"]
                for port in container.get("ports", [])}

    def get(self, path, port="metrics", headers=None, scheme="https"):
        """Status of a request; like a kubelet, without a check of the certificate."""
        request = urllib.request.Request(f"{scheme}://{self.ip}:{self.ports()[port]}{path}",
                                         headers=headers or {})
        # pylint: disable-next=protected-access
        context = ssl._create_unverified_context()
        try:
            with urllib.request.urlopen(request, timeout=5, context=context) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def probe(self, kind):
        """Whether the probe succeeds; a container without this probe is taken to be well."""
        probe = self.spec["containers"][0].get(kind)
        if probe is None:
            return True
        try:
            if "tcpSocket" in probe:
                port = self.ports()[probe["tcpSocket"]["port"]]
                socket.create_connection((self.ip, port), timeout=3).close()
                return True
            get = probe["httpGet"]
            scheme = get.get("scheme", "HTTP").lower()
            return self.get(get["path"], get["port"], scheme=scheme) == 200
        except OSError:
            return False

    def ready(self):
        return self.running() and self.probe("startupProbe") and self.probe("readinessProbe")

    def terminate(self):
        """SIGTERM, the grace period, SIGKILL; returns the exit code of the main container."""
        grace = self.spec.get("terminationGracePeriodSeconds", 30)
        podman("stop", "--time", str(grace), self.container, timeout=grace + 60)
        return self.state()[1]

    def cut_off(self):
        """Takes the network away without a word to anyone, as a machine that loses its power."""
        infra = podman("pod", "inspect", "--format", "{{.InfraContainerID}}", self.name).strip()
        podman("network", "disconnect", "--force", NETWORK, infra)

    def delete(self):
        """Ends all processes of the pod at once."""
        podman("pod", "rm", "--force", "--time", "0", self.name, check=False)


class Node:
    """One machine with the volumes, ConfigMaps and Secrets of the objects."""

    def __init__(self, folder, objects):
        self.folder = pathlib.Path(folder)
        self.maps = {kind: {o["metadata"]["name"]: o for o in objects if o["kind"] == kind}
                     for kind in ("ConfigMap", "Secret")}
        self.next_ip = 10
        podman("network", "create", "--subnet", f"{SUBNET}.0/24", NETWORK)

    def start(self, name, labels, spec, names=()):
        """Starts a pod that other pods reach by its own name and by `names`."""
        pod = Pod(name, f"{SUBNET}.{self.next_ip}", labels, spec)
        self.next_ip += 1
        played = json.loads(json.dumps(spec))
        played["restartPolicy"] = "Never"
        played["hostname"] = name
        played["volumes"] = [self.host_volume(name, volume) for volume in spec.get("volumes", [])]
        for container in (*played.get("initContainers", []), *played["containers"]):
            for key in DONE_HERE:
                container.pop(key, None)
            self.resolve_environment(container, pod)
        manifest = {"apiVersion": "v1", "kind": "Pod", "spec": played,
                    "metadata": {"name": name, "labels": labels}}
        aliases = "".join(f",alias={alias}" for alias in names)
        podman("kube", "play", "--network", f"{NETWORK}:ip={pod.ip}{aliases}", "-",
               text=yaml.safe_dump(manifest))
        return pod

    @staticmethod
    def resolve_environment(container, pod):
        """Fields of the pod in variables, and variables in arguments."""
        values = {"metadata.name": pod.name, "status.podIP": pod.ip}
        values |= {f"metadata.labels['{name}']": value for name, value in pod.labels.items()}
        environment = {}
        for variable in container.get("env", []):
            source = variable.pop("valueFrom", None)
            if source is not None:
                variable["value"] = values[source["fieldRef"]["fieldPath"]]
            environment[variable["name"]] = variable["value"]
        for i, argument in enumerate(container.get("args", [])):
            for name, value in environment.items():
                argument = argument.replace(f"$({name})", value)
            container["args"][i] = argument

    def host_volume(self, pod, volume):
        name = volume["name"]
        if "persistentVolumeClaim" in volume:
            path = self.claim(volume["persistentVolumeClaim"]["claimName"])
        elif "emptyDir" in volume:
            memory = volume["emptyDir"].get("medium") == "Memory"
            path = self.empty((pathlib.Path("/dev/shm/buttress-cluster") if memory else
                               self.folder / "empty") / pod / name)
        elif "configMap" in volume:
            data = self.maps["ConfigMap"][volume["configMap"]["name"]]["data"]
            path = self.written(self.folder / "maps" / pod / name, data, 0o644)
        else:
            sources = volume.get("projected", {}).get("sources", [volume])
            data = {}
            for source in sources:
                secret = source["secret"]
                name_of = secret.get("name", secret.get("secretName"))
                data |= self.maps["Secret"][name_of]["stringData"]
            mode = volume.get("projected", volume.get("secret")).get("defaultMode", 0o644)
            path = self.written(self.folder / "secrets" / pod / name, data, mode)
        return {"name": name, "hostPath": {"path": str(path), "type": "Directory"}}

    def claim(self, name):
        path = self.folder / "claims" / name
        if not path.exists():
            self.empty(path)
        return path

    @staticmethod
    def empty(path):
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        os.chown(path, USER, USER)
        return path

    @staticmethod
    def written(path, data, mode):
        """Files that belong to root and to the group of the pod (fsGroup)."""
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        for name, text in data.items():
            (path / name).write_text(text)
            os.chown(path / name, 0, USER)
            (path / name).chmod(mode)
        return path

    @staticmethod
    def remove():
        left = podman("pod", "ps", "--quiet", "--filter", "label=app.kubernetes.io/name=buttress")
        if left.split():
            podman("pod", "rm", "--force", "--time", "0", *left.split(), check=False)
        podman("network", "rm", "--force", NETWORK, check=False)
        shutil.rmtree("/dev/shm/buttress-cluster", ignore_errors=True)
