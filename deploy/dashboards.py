"""Writes the Grafana dashboards of k8s/components/monitoring/dashboards.

    python3 deploy/dashboards.py

The metrics of the measurements of a step are those of docs/metrics.md, which is written from the
table of the measurements.
"""

import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]
FOLDER = ROOT / "k8s/components/monitoring/dashboards"
SOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
RUN = 'run=~"$run"'
C, L, W = "buttress_coordinator_", "buttress_learner_", "buttress_worker_"


# The Prometheus metric of each measurement of a step.
MEASURED = dict(re.findall(r"^\| `([^`]+)` \| [^|]* \| [^|]* \| `(buttress_learner_\w+)` \|",
                           (ROOT / "docs/metrics.md").read_text(), re.MULTILINE))


def last(name, labels=""):
    return f"max by (run) ({name}{{{RUN}{labels}}})"


def rate(name, by="run", labels=""):
    return f"sum by ({by}) (rate({name}{{{RUN}{labels}}}[$__rate_interval]))"


def share(name, kinds, by="run"):
    """The part of a counter's increase whose labels are `kinds`."""
    return f"{rate(name, by, ',' + kinds)} / ({rate(name, by)} > 0)"


def quantile(q, histogram, by="run"):
    inner = f"rate({histogram}_bucket{{{RUN}}}[$__rate_interval])"
    return f"histogram_quantile({q}, sum by ({by}, le) ({inner}))"


def learner(*names):
    return [(MEASURED[name].removeprefix(L), last(MEASURED[name])) for name in names]


def each_class():
    return [(c, share(C + "groups_scored_total", f'collapse="{c}"'))
            for c in ("all_correct", "all_wrong", "other_constant", "unscorable")]


# A dashboard: rows of panels. A panel: title, unit, queries as pairs of legend and expression.
DASHBOARDS = {
    "run": [
        [("Step", "none", [("of", last(C + "total_steps")),
                           ("trained", last(C + "committed_step")),
                           ("planned", last(C + "planned_step")),
                           ("checkpoint", last(C + "checkpoint_step"))]),
         ("Reward", "none",
          learner("raw_reward_mean", "shaped_reward_mean", "accuracy", "eval.accuracy")),
         ("Collapse rate", "percentunit", learner("acr"))],
        [("Entropy", "none", learner("entropy")),
         ("KL", "none", learner("kl", "kl_average", "ref_kl", "start_kl")),
         ("Alarms", "none", [("{{alarm}}", f"max by (alarm) ({L}alarm_active{{{RUN}}})"),
                             ("run finished", last(C + "run_finished"))])],
        [("Gradient norm", "none", learner("grad_norm")),
         ("Loss", "none", learner("loss", "policy_loss")),
         ("Learning rate", "none", learner("lr"))],
        [("Clipped tokens", "percentunit", learner("clip_low", "clip_high")),
         ("Importance weights", "none", learner("importance.p01", "importance.p50",
                                                "importance.p99", "importance.ess")),
         ("Length of completions", "none",
          [(f"p{100 * q:g}", quantile(q, W + "completion_tokens")) for q in (0.5, 0.95)])],
    ],
    "collapse": [
        [("Groups without a signal", "percentunit", each_class()),
         ("Collapse rate by source", "percentunit",
          [("{{source}}", "run_source:buttress_acr:ratio10m{" + RUN + "}")]),
         ("Newest plan", "none", [("drawn", last(C + "batch_drawn_groups")),
                                  ("comparable", last(C + "acr_batch_groups")),
                                  ("constant", last(C + "acr_batch_collapsed_groups"))])],
        [("Mean reward of a group", "none",
          [(f"p{100 * q:g}", quantile(q, C + "group_raw_reward_mean")) for q in (0.1, 0.5, 0.9)]),
         ("Tokens without advantage", "percentunit", learner("zero_advantage_share")),
         ("Gradient of constant groups", "percentunit", learner("collapsed_gradient.share"))],
        [("Distinct responses", "percentunit", learner("distinct_share", "format_share")),
         ("Verdicts", "percentunit", [("{{verifier}} {{result}}",
          rate(W + "verifier_results_total", "verifier, result") + " / on (verifier) group_left () "
          f"({rate(W + 'verifier_results_total', 'verifier')} > 0)")]),
         ("Disagreement of the second verifier", "percentunit",
          [("{{second}}", share(W + "second_verdicts_total", 'result="disagree"', "second")),
           ("of the batches", last(MEASURED["disagreement"]))])],
        [("Dropped groups", "none", [("{{reason}}", rate(C + "groups_dropped_total", "reason"))]),
         ("Prompts passed over", "none",
          [("{{reason}}", rate(C + "prompts_skipped_total", "reason"))]),
         ("Replaced and masked groups", "none", [
             ("replaced", rate(MEASURED["groups_replaced"])),
             ("masked", rate(MEASURED["groups_masked"]))])],
        [("Tokens drawn for each that is kept", "none", [
            ("price", last(MEASURED["drawn.per_kept"]))]),
         ("Raw reward before and after", "none", [
             ("drawn", last(MEASURED["drawn.raw_reward_mean"])),
             ("kept", last(MEASURED["kept.raw_reward_mean"]))]),
         ("Collapse rate before and after", "percentunit", [
             ("drawn", last(MEASURED["acr"])), ("kept", last(MEASURED["kept.acr"]))])],
        [("Groups drawn by source", "none", [
            ("{{source}}", rate(L + "source_groups_total", "source"))]),
         ("Accuracy by source", "percentunit", [
             ("{{source}}", f"max by (source) ({L}source_accuracy_ratio{{{RUN}}})")]),
         ("Open gates by source", "none", [
             ("{{source}}", f"max by (source) ({L}source_gate_open{{{RUN}}})")])],
    ],
    "throughput": [
        [("Accepted tokens a second", "none", [
            ("fresh", last(MEASURED["speed.fresh"])),
            ("wall clock", last(MEASURED["speed.wall"])),
            ("busy", last(MEASURED["speed.busy"]))]),
         ("Waiting by role and cause", "percentunit", [
             ("{{role}} {{cause}}", "run_role_cause:buttress_waiting:ratio10m{" + RUN + "}")]),
         ("Age of accepted tokens", "none", learner("token_age.mean", "token_age.p50",
                                                    "token_age.p99"))],
        [("Tokens a second", "none", [("trained", rate(MEASURED["trained_tokens"])),
                                      ("generated", rate(W + "generated_tokens_total"))]),
         ("Groups a second", "none", [("accepted", rate(C + "groups_scored_total")),
                                      ("trained", rate(MEASURED["groups_trained"]))]),
         ("Duration of a step", "s",
          [(f"p{100 * q:g}", quantile(q, L + "step_duration_seconds")) for q in (0.5, 0.95)])],
        [("Learner: share of the time", "percentunit", [
            (phase, f"{rate(MEASURED['seconds.' + phase], 'run', RANK_0)} "
             f"/ ({rate(MEASURED['seconds.step'], 'run', RANK_0)} > 0)")
            for RANK_0 in (',rank="0"',) for phase in (
                "wait", "fetch", "forward", "backward", "wait_peers", "reduce", "optimizer",
                "commit", "publish", "wait_weights", "checkpoint")]),
         ("Ranks: time in reductions", "percentunit",
          [("{{rank}}", rate(MEASURED["seconds.reduce"], "rank"))]),
         ("Workers: idle time", "percentunit", [
             ("{{reason}}", f"avg by (reason) (rate({W}wait_seconds_total{{{RUN}}}"
              "[$__rate_interval]))")])],
        [("Groups by state", "none", [("{{state}}", f"sum by (state) ({C}groups{{{RUN}}})")]),
         ("Slots", "none", [("held", last(C + "slots")), ("limit", last(C + "slots_limit"))]),
         ("Leases that end", "none", [("{{reason}}", rate(C + "leases_ended_total", "reason"))])],
        [("Age of trained groups", "none", learner("age_mean", "age_max")),
         ("Weight versions", "none", [("announced", last(C + "policy_version")),
                                      ("oldest worker",
                                       f"min by (run) ({W}weights_version{{{RUN}}})")]),
         ("Weight updates", "s",
          [(f"p{100 * q:g}", quantile(q, W + "weight_update_seconds")) for q in (0.5, 0.95)])],
        [("Completions in engines", "none",
          [("{{instance}}", f"{W}requests_in_flight{{{RUN}}}")]),
         ("Truncated completions", "percentunit",
          [("truncated", share(W + "completions_total", 'finish_reason="length"'))]),
         ("Submissions", "none", [("{{result}}", rate(C + "submissions_total", "result"))])],
    ],
    "nodes": [
        [("Scraped targets", "none", [("up", f'sum by (run) (up{{job="buttress",{RUN}}})'),
                                      ("all", f'count by (run) (up{{job="buttress",{RUN}}})')]),
         ("CPU", "none", [("{{instance}}", rate("process_cpu_seconds_total", "instance"))]),
         ("Memory", "bytes", [("{{instance}}", f"process_resident_memory_bytes{{{RUN}}}")])],
        [("Free space of the ledger", "bytes", [("free", last(C + "store_free_bytes"))]),
         ("Commits of the ledger", "s",
          [(f"p{100 * q:g}", quantile(q, C + "store_commit_seconds")) for q in (0.5, 0.99)]),
         ("Accepted bytes a second", "Bps", [("", rate(C + "submission_bytes_total"))])],
        [("Starts", "none", [("coordinator", last(C + "epoch")),
                             ("learner", last(C + "learner_incarnations_total"))]),
         ("Age of the checkpoint", "s", [
             ("", f"time() - {last(L + 'checkpoint_last_success_timestamp_seconds')}")]),
         ("Size of the checkpoint", "bytes", [("", last(L + "checkpoint_bytes"))])],
        [("Calls", "none", [("{{grpc_method}} {{grpc_code}}",
                             rate("grpc_server_handled_total", "grpc_method, grpc_code"))]),
         ("Log lines", "none", [("{{level}}", rate("buttress_log_events_total", "level"))]),
         ("Open files", "percentunit", [
             ("{{instance}}", f"process_open_fds{{{RUN}}} / process_max_fds{{{RUN}}}")])],
        [("Workers", "none", [("{{state}}", f"sum by (state) ({C}workers{{{RUN}}})")]),
         ("Servers that sample", "none",
          [("{{server}}", f"max by (server) ({W}server_serving{{{RUN}}})")]),
         ("Workers with proven weights", "none", [
             ("proven", f"sum by (run) ({W}weights_proven{{{RUN}}})"),
             ("all", f"count by (run) ({W}weights_proven{{{RUN}}})")])],
        [("Difference of the canaries", "none",
          [("{{instance}}", f"{W}canary_difference_nats{{{RUN}}}")])],
    ],
}


def panel(number, row, column, title, unit, queries):
    return {
        "id": number, "type": "timeseries", "title": title, "datasource": SOURCE,
        "gridPos": {"x": 8 * column, "y": 8 * row, "w": 8, "h": 8},
        "fieldConfig": {"defaults": {"unit": unit, "custom": {"fillOpacity": 5}}, "overrides": []},
        "targets": [{"refId": chr(ord("A") + i), "datasource": SOURCE, "expr": expression,
                     "legendFormat": legend or "__auto"}
                    for i, (legend, expression) in enumerate(queries)],
    }


def dashboard(name, rows):
    panels = [(row, column, *parts) for row, list_ in enumerate(rows)
              for column, parts in enumerate(list_)]
    return {
        "uid": f"buttress-{name}", "title": f"Buttress: {name}", "tags": ["buttress"],
        "schemaVersion": 39, "refresh": "15s", "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [
            {"name": "DS_PROMETHEUS", "type": "datasource", "query": "prometheus"},
            {"name": "run", "type": "query", "datasource": SOURCE, "refresh": 2,
             "query": "label_values(buttress_build_info, run)", "includeAll": True,
             "allValue": ".*", "current": {"text": "All", "value": "$__all"}}]},
        "panels": [panel(i + 1, *parts) for i, parts in enumerate(panels)],
    }


def text_of(made):
    """JSON with a line for each panel."""
    panels = ",\n".join(map(json.dumps, made["panels"]))
    return json.dumps(made | {"panels": []}, indent=1).replace("[]", f"[\n{panels}\n]") + "\n"


def files():
    """The text of each file, by its path."""
    return {FOLDER / f"buttress-{name}.json": text_of(dashboard(name, rows))
            for name, rows in DASHBOARDS.items()}


def main():
    FOLDER.mkdir(exist_ok=True)
    for path, text in files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
