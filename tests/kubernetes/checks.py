"""What no schema says about the objects of a run. A check takes all objects of a rendered overlay
(Rendered) and yields its problems as strings."""

import re

import yaml

# Made by hand or by cert-manager before the run; docs/kubernetes.md names them.
ROLES = ("worker", "learner", "operator", "monitor")
SECRETS = {"buttress-tls", "buttress-ca", *(f"buttress-token-{role}" for role in ROLES)}
# Whose tokens a pod may read: its own, and those of its callers.
TOKENS = {"coordinator": set(ROLES), "rollout-worker": {"worker", "monitor"},
          "learner": {"worker", "learner", "monitor"}, "evaluator": set(), "data": set(),
          "standby": {"operator"}}
# Made by the component standby.
CLAIMS = {"ledger-standby-0"}
# Seconds that a pod needs after a SIGTERM: a worker's drain, and a step with a checkpoint.
DRAIN_SECONDS = {"coordinator": 10, "rollout-worker": 20, "learner": 300, "evaluator": 20,
                 "data": 0, "standby": 10}
COMPONENT = "app.kubernetes.io/component"
# Who connects to whom on which port.
FLOWS = [("rollout-worker", "coordinator", 7000), ("learner", "coordinator", 7000),
         ("standby", "coordinator", 7000),
         ("rollout-worker", "learner", 7001), ("rollout-worker", "rollout-worker", 7002),
         ("learner", "learner", 2222), ("learner", "learner", 40000)]


class Pod:
    """A pod template and the object that has it."""

    def __init__(self, owner, template, labels=()):
        self.name = f"{owner['kind']}/{owner['metadata']['name']}"
        self.owner = owner
        self.spec = template["spec"]
        self.labels = template.get("metadata", {}).get("labels", {}) | dict(labels)
        self.component = self.labels.get(COMPONENT)
        self.containers = self.spec["containers"] + self.spec.get("initContainers", [])

    def ports(self):
        return {p["name"]: p["containerPort"] for c in self.containers for p in c.get("ports", [])}


class Rendered:

    def __init__(self, objects):
        self.objects = objects
        self.pods = [pod for thing in objects for pod in self.pods_of(thing)]

    @staticmethod
    def pods_of(thing):
        if thing["kind"] == "MPIJob":
            job = thing["metadata"]["name"]
            for role, replica in thing["spec"]["mpiReplicaSpecs"].items():
                yield Pod(thing, replica["template"], {
                    "training.kubeflow.org/job-name": job,
                    "training.kubeflow.org/job-role": role.lower()})
        elif "template" in thing.get("spec", {}):
            yield Pod(thing, thing["spec"]["template"])

    def of(self, kind):
        return [thing for thing in self.objects if thing["kind"] == kind]

    def names(self, kind):
        return {thing["metadata"]["name"] for thing in self.of(kind)}

    def selected(self, selector):
        wanted = (selector or {}).get("matchLabels", {})
        expressions = (selector or {}).get("matchExpressions", [])
        return [pod for pod in self.pods if wanted.items() <= pod.labels.items() and all(
            pod.labels.get(e["key"]) in e["values"] for e in expressions)]

    def run(self):
        """The file run.yaml of the ConfigMap `run`."""
        for thing in self.of("ConfigMap"):
            if "run.yaml" in thing.get("data", {}):
                return yaml.safe_load(thing["data"]["run.yaml"])
        return {}


def containers_are_hardened(all_):
    for pod in all_.pods:
        context = pod.spec.get("securityContext", {})
        if not (context.get("runAsNonRoot") and context.get("runAsUser") == 1000
                and context.get("seccompProfile") == {"type": "RuntimeDefault"}):
            yield f"{pod.name}: the pod does not run as user 1000 with the default seccomp profile"
        if pod.spec.get("automountServiceAccountToken") is not False:
            yield f"{pod.name}: automountServiceAccountToken is not false"
        if pod.spec.get("hostNetwork") or pod.spec.get("hostPID") or pod.spec.get("hostIPC"):
            yield f"{pod.name}: the pod shares a namespace with its node"
        for container in pod.containers:
            at = f"{pod.name}: container {container['name']}"
            own = container.get("securityContext", {})
            if own.get("allowPrivilegeEscalation") is not False:
                yield f"{at} may escalate privileges"
            if own.get("readOnlyRootFilesystem") is not True:
                yield f"{at} may write to its root"
            if own.get("capabilities") != {"drop": ["ALL"]}:
                yield f"{at} keeps capabilities"
            if own.get("privileged") or own.get("runAsUser", 1000) != 1000:
                yield f"{at} changes its user or is privileged"
            for kind in ("requests", "limits"):
                if not {"cpu", "memory"} <= container.get("resources", {}).get(kind, {}).keys():
                    yield f"{at} has no {kind} of cpu and memory"
            tag = container["image"].partition(":")[2]
            if not re.fullmatch(r"v?\d+\.\d+\.\d+[\w.-]*(@sha256:[0-9a-f]{64})?", tag):
                yield f"{at}: the image {container['image']} is not pinned"


def references_exist(all_):
    kinds = {"configMap": ("ConfigMap", "name"), "secret": ("Secret", "secretName"),
             "persistentVolumeClaim": ("PersistentVolumeClaim", "claimName")}
    known = {kind: all_.names(kind) for kind, _ in kinds.values()}
    known["Secret"] |= SECRETS
    known["PersistentVolumeClaim"] |= CLAIMS
    for pod in all_.pods:
        if pod.spec.get("serviceAccountName") not in all_.names("ServiceAccount"):
            yield f"{pod.name}: there is no ServiceAccount {pod.spec.get('serviceAccountName')}"
        claims = pod.owner["spec"].get("volumeClaimTemplates", [])
        volumes = {claim["metadata"]["name"] for claim in claims}
        for volume in pod.spec.get("volumes", []):
            volumes.add(volume["name"])
            for source, (kind, key) in kinds.items():
                if source in volume and volume[source][key] not in known[kind]:
                    yield f"{pod.name}: there is no {kind} {volume[source][key]}"
            for part in volume.get("projected", {}).get("sources", []):
                if part["secret"]["name"] not in known["Secret"]:
                    yield f"{pod.name}: there is no Secret {part['secret']['name']}"
            if "emptyDir" in volume and "sizeLimit" not in volume["emptyDir"]:
                yield f"{pod.name}: emptyDir {volume['name']} has no sizeLimit"
        for container in pod.containers:
            for mount in container.get("volumeMounts", []):
                if mount["name"] not in volumes:
                    yield f"{pod.name}: there is no volume {mount['name']}"


def secrets_are_private(all_):
    """The programs refuse a key or a token that others than owner and group may read."""
    for pod in all_.pods:
        for volume in pod.spec.get("volumes", []):
            source = volume.get("secret") or volume.get("projected")
            if source is None:
                continue
            if source.get("defaultMode") != 0o440:
                yield f"{pod.name}: volume {volume['name']} has no defaultMode 0440"
            if pod.spec.get("securityContext", {}).get("fsGroup") != 1000:
                yield f"{pod.name}: without fsGroup 1000 nobody may read volume {volume['name']}"


def pods_read_their_own_tokens(all_):
    for pod in all_.pods:
        read = {part["secret"]["name"].removeprefix("buttress-token-")
                for volume in pod.spec.get("volumes", [])
                for part in volume.get("projected", {}).get("sources", [])}
        needed = TOKENS[pod.component] if pod.ports() or pod.component == "standby" else set()
        if read != needed:
            yield (f"{pod.name} reads the tokens of {', '.join(sorted(read)) or 'nobody'}, "
                   f"expected {', '.join(sorted(needed)) or 'nobody'}")


def selectors_match(all_):
    for thing in all_.objects:
        at = f"{thing['kind']}/{thing['metadata']['name']}"
        if thing["kind"] in ("Deployment", "StatefulSet"):
            own = [pod for pod in all_.selected(thing["spec"]["selector"]) if pod.owner is thing]
            if not own:
                yield f"{at} does not select its own pods"
        if thing["kind"] == "Service":
            pods = all_.selected({"matchLabels": thing["spec"]["selector"]})
            for port in thing["spec"]["ports"]:
                if not pods or any(port["targetPort"] not in pod.ports() for pod in pods):
                    yield f"{at}: no pod has the port {port['targetPort']}"
        if thing["kind"] == "ScaledObject":
            target = thing["spec"]["scaleTargetRef"]
            if target["name"] not in all_.names(target["kind"]):
                yield f"{at}: there is no {target['kind']} {target['name']}"


def budgets_allow_evictions(all_):
    for thing in all_.of("PodDisruptionBudget"):
        at, spec = f"PodDisruptionBudget/{thing['metadata']['name']}", thing["spec"]
        pods = all_.selected(spec["selector"])
        if not pods:
            yield f"{at} selects no pod"
        for pod in pods:
            if pod.owner["kind"] == "MPIJob":
                workers = pod.owner["spec"]["mpiReplicaSpecs"]["Worker"]["replicas"]
                if spec.get("minAvailable") != workers or "maxUnavailable" in spec:
                    yield f"{at}: pods of an MPIJob need minAvailable: {workers}, an integer"
            elif pod.owner["spec"].get("replicas") == 1 and spec.get("maxUnavailable") in (0, "0%"):
                yield f"{at} blocks the drain of a node forever"


def learner_is_one_job(all_):
    for job in all_.of("MPIJob"):
        at, spec = f"MPIJob/{job['metadata']['name']}", job["spec"]
        slots, launcher = spec["slotsPerWorker"], spec["mpiReplicaSpecs"]["Launcher"]
        node = spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"][0]
        ports = {p["name"]: p["containerPort"] for p in node["ports"]}
        metrics = {name: port for name, port in ports.items() if name.startswith("metrics")}
        local = all_.run()["local"]["learner"]
        if launcher["replicas"] != 1:
            yield f"{at}: an MPI job has one launcher"
        # scripts/launcher.sh runs one rank on each slot of the operator's host file.
        given = launcher["template"]["spec"]["containers"][0].get("args", [])
        if {"-np", "-n", "--hostfile", "--expect-world"} & set(given):
            yield f"{at}: the launcher's arguments set the ranks, which slotsPerWorker sets"
        if metrics != {f"metrics-{rank}": 9500 + rank for rank in range(slots)}:
            yield f"{at}: {slots} slots need the ports metrics-0 (9500) to metrics-{slots - 1}"
        gpus = node["resources"]["limits"].get("nvidia.com/gpu", 0)
        if gpus != (slots if local.get("device") == "cuda" else 0):
            yield f"{at}: {slots} slots on {local.get('device', 'cpu')}, but {gpus} GPUs"
        if not re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", job["metadata"]["name"]):
            yield f"{at}: the name is not a DNS label"
        host = local["advertise"].rsplit(":", 1)[0]
        if host != f"{job['metadata']['name']}-worker-0.{job['metadata']['name']}":
            yield f"{at}: local.learner.advertise is {host}, which is not the node of rank 0"


def engines_have_their_gpus(all_):
    sections = {"rollout-worker": "worker", "evaluator": "evaluator"}
    for deployment in all_.of("Deployment"):
        at = f"Deployment/{deployment['metadata']['name']}"
        pod = deployment["spec"]["template"]["spec"]
        gpus = sum(c["resources"]["limits"].get("nvidia.com/gpu", 0) for c in pod["containers"])
        section = all_.run()["local"].get(sections[deployment["metadata"]["name"]], {})
        needed = section.get("device") == "cuda" or section.get("engine") == "vllm"
        if gpus != int(needed):
            yield f"{at}: {gpus} GPUs, expected {int(needed)}"


def evaluations_have_an_evaluator(all_):
    every = all_.run()["run"].get("eval", {}).get("every", 0)
    pods = [pod for pod in all_.pods if pod.component == "evaluator"]
    if bool(every) != bool(pods):
        yield f"run.eval.every is {every}, but there are {len(pods)} evaluators"
    for pod in pods:
        if pod.owner["spec"]["replicas"] != 1 or pod.owner["spec"]["strategy"] != {
                "type": "Recreate"}:
            yield f"{pod.name}: two evaluators at a time remove weights from under one another"
        written = {mount["mountPath"]: mount["name"] for mount in pod.containers[0]["volumeMounts"]
                   if not mount.get("readOnly")}
        claims = {volume["name"]: volume.get("persistentVolumeClaim", {}).get("claimName")
                  for volume in pod.spec["volumes"]}
        if claims.get(written.get(all_.run()["local"]["out"])) != "checkpoints":
            yield f"{pod.name}: local.out is not the folder of the learner, the claim checkpoints"


def a_standby_is_elsewhere(all_):
    for pod in all_.pods:
        if pod.component != "standby":
            continue
        apart = pod.spec.get("affinity", {}).get("podAntiAffinity", {}).get(
            "requiredDuringSchedulingIgnoredDuringExecution", [])
        if not any(term["topologyKey"] == "kubernetes.io/hostname" and term["labelSelector"][
                "matchLabels"] == {COMPONENT: "coordinator"} for term in apart):
            yield f"{pod.name} may share the node of the coordinator"
        if "--standby" not in pod.containers[0]["args"]:
            yield f"{pod.name} is a second coordinator, without --standby"
        leading = [p for p in all_.pods if p.component == "coordinator"]
        if not any("local.coordinator.standby=" in argument for p in leading
                   for argument in p.containers[0]["args"]):
            yield f"{pod.name}: the coordinator lets no standby follow"


def ports_match_the_run(all_):
    local = all_.run()["local"]
    listens = {"coordinator": ("grpc", "metrics"), "rollout-worker": ("weights", "metrics"),
               "learner": ("weights", "metrics-0")}
    for pod in all_.pods:
        if pod.component not in listens or not pod.ports():
            continue
        section = local["worker" if pod.component == "rollout-worker" else pod.component]
        for name, key in zip(listens[pod.component], ("listen", "metrics")):
            port = int(section[key].rsplit(":", 1)[1])
            if pod.ports().get(name) != port:
                yield f"{pod.name}: port {name} is not that of {key} in run.yaml, {port}"
    services = {f"{s['metadata']['name']}:{p['port']}"
                for s in all_.of("Service") for p in s["spec"]["ports"]}
    if local["coordinator"]["advertise"] not in services:
        yield f"run.yaml: no Service is {local['coordinator']['advertise']}"


def metrics_are_scraped(all_):
    for pod in all_.pods:
        scraped = {endpoint["port"] for monitor in all_.of("PodMonitor")
                   if pod in all_.selected(monitor["spec"]["selector"])
                   for endpoint in monitor["spec"]["podMetricsEndpoints"]}
        for name, port in pod.ports().items():
            if not name.startswith("metrics"):
                continue
            if name not in scraped:
                yield f"{pod.name}: no PodMonitor scrapes the port {name}"
            if not any(lets_in(policy, pod, None, port, all_) for policy in policies_of(all_)):
                yield f"{pod.name}: no NetworkPolicy lets Prometheus in at port {port}"
    for monitor in all_.of("PodMonitor"):
        names = {e["tlsConfig"]["serverName"] for e in monitor["spec"]["podMetricsEndpoints"]}
        if names != {all_.run()["local"]["security"].get("name")}:
            yield f"PodMonitor/{monitor['metadata']['name']}: serverName is not security.name"


def policies_of(all_):
    return all_.of("NetworkPolicy")


def port_matches(rule, port):
    return "ports" not in rule or any(
        p["port"] <= port <= p.get("endPort", p["port"]) for p in rule["ports"])


def lets_in(policy, pod, peer, port, all_, direction="ingress"):
    """Whether the policy of `pod` allows `peer` (None: a pod of another namespace) at `port`."""
    if pod not in all_.selected(policy["spec"]["podSelector"]):
        return False
    for rule in policy["spec"].get(direction, []):
        for other in rule.get("from" if direction == "ingress" else "to", []):
            foreign = "namespaceSelector" in other
            matches = foreign if peer is None else (
                not foreign and peer in all_.selected(other["podSelector"]))
            if matches and port_matches(rule, port):
                return True
    return False


def traffic_is_allowed(all_):
    denied = [p for p in policies_of(all_) if p["spec"]["podSelector"] == {}
              and not {"ingress", "egress"} & p["spec"].keys()]
    if not any(set(p["spec"]["policyTypes"]) == {"Ingress", "Egress"} for p in denied):
        yield "no NetworkPolicy denies everything that the others do not allow"
    for source, target, port in FLOWS:
        senders = [pod for pod in all_.pods if pod.component == source]
        receivers = [pod for pod in all_.pods if pod.component == target]
        for a in senders:
            for b in receivers:
                if not any(lets_in(p, b, a, port, all_) for p in policies_of(all_)):
                    yield f"no NetworkPolicy lets {source} into {target} at port {port}"
                if not any(lets_in(p, a, b, port, all_, "egress") for p in policies_of(all_)):
                    yield f"no NetworkPolicy lets {source} out to {target} at port {port}"


def grace_covers_the_drain(all_):
    for pod in all_.pods:
        needed = DRAIN_SECONDS[pod.component]
        if pod.spec.get("terminationGracePeriodSeconds", 30) < needed:
            yield f"{pod.name}: terminationGracePeriodSeconds is below {needed}"


def one_namespace(all_):
    for thing in all_.objects:
        if thing["kind"] != "Namespace" and thing["metadata"].get("namespace") != "buttress":
            yield f"{thing['kind']}/{thing['metadata']['name']} is not in the namespace buttress"
    for thing in all_.of("Namespace"):
        if thing["metadata"]["labels"].get("pod-security.kubernetes.io/enforce") != "restricted":
            yield "the namespace does not enforce the restricted pod security standard"


CHECKS = [containers_are_hardened, references_exist, secrets_are_private,
          pods_read_their_own_tokens, selectors_match, budgets_allow_evictions,
          learner_is_one_job, engines_have_their_gpus, evaluations_have_an_evaluator,
          ports_match_the_run, metrics_are_scraped, traffic_is_allowed, grace_covers_the_drain,
          one_namespace, a_standby_is_elsewhere]


def problems_of(objects):
    all_ = Rendered(objects)
    return sorted({problem for check in CHECKS for problem in check(all_)})
