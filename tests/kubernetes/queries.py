"""The queries of dashboards, rules and of the ScaledObject, and the metrics that they name."""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
MONITORING = ROOT / "k8s/components/monitoring"
RULES = (MONITORING / "rules.yaml").read_text()


def rule_file():
    """The part of the manifest that is a rule file of Prometheus."""
    lines = RULES.split("\nspec:\n", 1)[1].split("\n")
    return "\n".join(line.removeprefix("  ") for line in lines)


def rules_of(alert):
    """A rule file of one alert and the recording rules that it names, which take promtool a tenth
    of the time of all."""
    head, *rules = re.split(r"(?m)^(?= +- (?:alert|record|name): )", rule_file())
    own = next(rule for rule in rules if rule.split()[:3] == ["-", "alert:", alert])

    def named(rule):
        _, kind, name = rule.split()[:3]
        return kind == "name:" or rule is own or (kind == "record:" and name in own)

    return head + "".join(filter(named, rules))


def dashboard_queries():
    """Pairs of a panel ("run: Reward") and an expression, with Grafana's variables filled in."""
    for path in sorted((MONITORING / "dashboards").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                query = target["expr"].replace("$__rate_interval", "1m").replace("$run", ".*")
                yield f"{path.stem.removeprefix('buttress-')}: {panel['title']}", query


def scaling_query():
    text = (ROOT / "k8s/components/keda/scaled-object.yaml").read_text()
    return re.search(r"query: >-\n(.*)\n +threshold", text, re.DOTALL)[1]


def metrics_of(text):
    """Names of metrics, and of recording rules, outside of quotes."""
    names = r"\b(?:\w+:)?(?:buttress|process|grpc_server)_[\w:]+|\bup\b"
    return set(re.findall(names, re.sub(r'"[^"]*"', "", text)))


def known_metrics():
    """Names of docs/metrics.md, and what histograms and recording rules make of them."""
    page = (ROOT / "docs/metrics.md").read_text()
    names = {"up", *re.findall(r"record: (\S+)", RULES)}
    names |= set(re.findall(r"`((?:buttress|process|grpc_server)_\w+)`", page))
    for name in re.findall(r"`(\w+)` \| histogram", page):
        names |= {name + suffix for suffix in ("_bucket", "_sum", "_count")}
    return names
