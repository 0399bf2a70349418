"""Rendering of k8s/ and validation by schemas."""

import functools
import pathlib
import subprocess

import jsonschema
import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
# The package reads its schemas, of megabytes, for every object.
utils = kubernetes_validate.utils
utils.schema_contents = functools.cache(utils.schema_contents)
VERSIONS = ("1.27", "1.37")  # the oldest that k8s/ is for, and the newest of kubernetes-validate


def render(folder):
    run = subprocess.run(["kubectl", "kustomize", ROOT / folder],
                         capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise ValueError(f"kubectl kustomize {folder}: {run.stderr.strip()}")
    return list(yaml.safe_load_all(run.stdout))


def strict(schema):
    """Makes every object with `properties` refuse others."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(part) for key, part in schema.items()}
    if isinstance(schema.get("properties"), dict):
        made |= {"type": "object", "additionalProperties": False}
    return made


TEXT_MAP = {"type": "object", "additionalProperties": {"type": "string"}}
METADATA = {"required": ["name"], "properties": {
    "name": {"type": "string"}, "namespace": {"type": "string"},
    "labels": TEXT_MAP, "annotations": TEXT_MAP}}
OWN = {
    kind: strict({"required": ["metadata", "spec"], "properties": {
        "apiVersion": {}, "kind": {}, "metadata": METADATA, "spec": spec}})
    for kind, spec in yaml.safe_load(
        (pathlib.Path(__file__).parent / "schemas.yaml").read_text()).items()
}


def builtin_problem(thing):
    for version in VERSIONS:
        try:
            kubernetes_validate.validate(thing, version, strict=True)
        except kubernetes_validate.ValidationError as e:
            return ".".join(map(str, e.path)) + ": " + e.message
        except kubernetes_validate.SchemaNotFoundError:
            return "there is no schema of this kind"
    return None


def problem(thing):
    """What the schema of its kind says against an object, or None."""
    own = OWN.get(f"{thing['apiVersion']} {thing['kind']}")
    if own is None:
        return builtin_problem(thing)
    errors = sorted(jsonschema.Draft202012Validator(own).iter_errors(thing), key=str)
    if errors:
        return ".".join(map(str, errors[0].path)) + ": " + errors[0].message
    for replica in thing["spec"].get("mpiReplicaSpecs", {}).values():
        pod = {"apiVersion": "v1", "kind": "Pod"} | replica["template"]
        found = builtin_problem(pod)
        if found:
            return "template: " + found
    return None


def schema_problems(objects):
    found = ((thing, problem(thing)) for thing in objects)
    return [f"{thing['kind']}/{thing['metadata']['name']}: {text}" for thing, text in found if text]
