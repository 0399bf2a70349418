"""The alerts of k8s/components/monitoring/rules.yaml: each fires on series that call for it, and
stays silent on series that do not. Needs promtool."""

import functools
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import queries

SKIPPED = 77
C, L, W = "buttress_coordinator_", "buttress_learner_", "buttress_worker_"
UNDER_WAY = {C + 'groups{run="r",state="leased"}': "8x120"}
ENTROPY, REWARD = L + 'entropy_nats{run="r"}', L + 'raw_reward_mean{run="r"}'
OPEN, LIMIT = 'process_open_fds{job="buttress"}', 'process_max_fds{job="buttress"}'
SCRAPED = 'up{job="buttress",run="r"}'


def alarm(name):
    series = f'{L}alarm_active{{run="r",alarm="{name}"}}'
    return {series: "1x120"}, {series: "0x120"}


def shares(metric, label, bad, good, more=""):
    """Series of a counter: nine in ten of a bad kind, and one in a hundred."""
    name = f'{metric}{{run="r",{label}="%s"{more}}}'
    return ({name % bad: "0+9x120", name % good: "0+1x120"},
            {name % bad: "0+1x120", name % good: "0+99x120"})


def commits(slow):
    bucket = C + 'store_commit_seconds_bucket{run="r",le="%s"}'
    return {bucket % le: f"0+{100 if le == '+Inf' or not slow else 50}x120"
            for le in ("0.1", "0.5", "1", "+Inf")}


# Name: series on which the alert fires within two hours, and on which it does not.
CASES = {
    "CollapseHigh": shares(C + "source_groups_scored_total", "collapse", "all_wrong", "mixed",
                           ',source="s"'),
    "EntropyLow": alarm("entropy_low"),
    "EntropyFalling": alarm("entropy_falling"),
    "EntropyRising": ({ENTROPY: "1x60 1.1+0.1x60", REWARD: "0.5x120"},
                      {ENTROPY: "1x60 1.1+0.1x60", REWARD: "0.5+0.001x120"}),
    "KlDrift": alarm("kl_drift"),
    "ResponsesAlike": alarm("responses_alike"),
    "Collapse": alarm("collapse"),
    "NoGradient": alarm("no_gradient"),
    "CollapseUnexplained": alarm("collapse_unexplained"),
    "LengthDrift": alarm("length_drift"),
    "Unscorable": alarm("unscorable"),
    "Truncated": alarm("truncated"),
    "Disagreement": alarm("verifiers_disagree"),
    "VerifierControls": alarm("verifier_controls"),
    "Solved": alarm("solved"),
    "UpdatesSkipped": ({L + 'skipped_updates_total{run="r"}': "0+1x120"},
                       {L + 'skipped_updates_total{run="r"}': "5x120"}),
    "UnscorableHigh": shares(W + "verifier_results_total", "result", "timeout", "wrong",
                             ',verifier="v"'),
    "VerifiersDisagree": shares(W + "second_verdicts_total", "result", "disagree", "agree",
                                ',second="v"'),
    "TruncationHigh": shares(W + "completions_total", "finish_reason", "length", "stop"),
    "TrainingStalled": (
        UNDER_WAY | {C + 'last_batch_committed_timestamp_seconds{run="r"}': "60x120"},
        UNDER_WAY | {C + 'last_batch_committed_timestamp_seconds{run="r"}': "60+60x120"}),
    "WeightsUnproven": ({W + 'server_serving{run="r",server="s"}': "0x120"},
                        {W + 'server_serving{run="r",server="s"}': "1x120"}),
    "LearnerWaitsToPublish": ({L + 'wait_weights_seconds_total{run="r",rank="0"}': "0+30x120"},
                              {L + 'wait_weights_seconds_total{run="r",rank="0"}': "0+3x120"}),
    "PeersApart": ({L + 'wait_peers_seconds_total{run="r",rank="1"}': "0+30x120"},
                   {L + 'wait_peers_seconds_total{run="r",rank="1"}': "0+3x120"}),
    "WeightsUnchanged": ({W + 'weights_unchanged_total{run="r",instance="w"}': "0+1x120"},
                         {W + 'weights_unchanged_total{run="r",instance="w"}': "1x120"}),
    "WeightsStale": ({W + 'weights_version{run="r",instance="w"}': "7x120",
                      C + 'policy_version{run="r"}': "7+1x120"},
                     {W + 'weights_version{run="r",instance="w"}': "7+1x120",
                      C + 'policy_version{run="r"}': "7+1x120"}),
    "LearnerWaiting": ({L + 'wait_seconds_total{run="r",rank="0"}': "0+50x120",
                        L + 'step_seconds_total{run="r",rank="0"}': "0+60x120"},
                       {L + 'wait_seconds_total{run="r",rank="0"}': "0+5x120",
                        L + 'step_seconds_total{run="r",rank="0"}': "0+60x120"}),
    "WorkersIdle": ({W + 'wait_seconds_total{run="r",reason="no_lease"}': "0+50x120"},
                    {W + 'wait_seconds_total{run="r",reason="no_lease"}': "0+5x120"}),
    "LeasesExpire": shares(C + "leases_ended_total", "reason", "expired", "completed"),
    "ScrapeGaps": ({SCRAPED: "1x5 0x2 1x5 0x2 1x5 0x2 1x5 0x2 1x5 0x2 1x60"},
                   {SCRAPED: "1x30 0 1x90"}),
    "CoordinatorAbsent": ({SCRAPED: "1x120"}, {SCRAPED: "1x120", C + 'epoch{run="r"}': "1x120"}),
    "AccountingBroken": (UNDER_WAY | {C + 'prompts_admitted{run="r"}': "9x120"},
                         UNDER_WAY | {C + 'prompts_admitted{run="r"}': "8x120"}),
    "LearnerRestarts": ({C + 'learner_incarnations_total{run="r"}': "1+1x120"},
                        {C + 'learner_incarnations_total{run="r"}': "1x60 2x60"}),
    "LearnerFenced": ({C + 'learner_fenced_total{run="r"}': "0x5 1x115"},
                      {C + 'learner_fenced_total{run="r"}': "1x120"}),
    "CheckpointOld": (
        UNDER_WAY | {L + 'checkpoint_last_success_timestamp_seconds{run="r"}': "60x120"},
        UNDER_WAY | {L + 'checkpoint_last_success_timestamp_seconds{run="r"}': "60+60x120"}),
    "StoreSlow": (commits(True), commits(False)),
    "DiskFillingUp": ({C + "store_free_bytes": "100e9-1e9x90"},
                      {C + "store_free_bytes": "9e9x120"}),
    "Paused": ({C + "paused": "1x120"}, {C + "paused": "0x120"}),
    "StandbyAway": ({C + "standby_level": "0x120"}, {C + "standby_level": "1x120"}),
    "FilesNearLimit": ({OPEN: "90x120", LIMIT: "100x120"}, {OPEN: "50x120", LIMIT: "100x120"}),
}


WAITING = "run_role_cause:buttress_waiting:ratio10m"
# The value of a rule: series, the query, and its value after half an hour.
VALUES = {
    "waiting of the learner for groups": (
        {L + 'wait_seconds_total{run="r",rank="0"}': "0+12x60",
         L + 'fetch_seconds_total{run="r",rank="0"}': "0+6x60",
         L + 'wait_seconds_total{run="r",rank="1"}': "0+24x60",
         L + 'fetch_seconds_total{run="r",rank="1"}': "0+6x60"},
        WAITING + '{role="learner",cause="groups"}',
        WAITING + '{run="r",role="learner",cause="groups"}', 0.4),
    "waiting of workers for leases": (
        {W + 'wait_seconds_total{run="r",instance="a",reason="no_lease"}': "0+12x60",
         W + 'wait_seconds_total{run="r",instance="b",reason="no_lease"}': "0+18x60"},
        WAITING + '{cause="leases"}',
        WAITING + '{run="r",role="worker",cause="leases"}', 0.25),
    "waiting of the coordinator for its disk": (
        {C + 'store_commit_seconds_sum{run="r"}': "0+6x60"},
        WAITING + '{role="coordinator"}',
        WAITING + '{run="r",role="coordinator",cause="disk"}', 0.1),
    "an embedded engine with weights that are not proven": (
        {W + 'weights_proven{run="r",instance="w"}': "0x60",
         W + 'server_serving{run="r",server="s"}': "1x60"},
        'count by (instance) (ALERTS{alertname="ButtressWeightsUnproven",alertstate="firing"})',
        '{instance="w"}', 1),
}


def value_test(name, series, query, labels, value):
    return {"interval": "1m", "name": name,
            "input_series": [{"series": s, "values": v} for s, v in series.items()],
            "promql_expr_test": [{"expr": query, "eval_time": "30m", "exp_samples": [
                {"labels": labels, "value": value}]}]}


def test_of(alert, series, fires):
    """The test that the alert fires, or does not, at any minute of two hours."""
    count = f'count_over_time(ALERTS{{alertname="{alert}",alertstate="firing"}}[2h])'
    expression = f"clamp_max(count({count}), 1)"
    return {"interval": "1m", "name": f"{alert} {'fires' if fires else 'is silent'}",
            "input_series": [{"series": s, "values": v} for s, v in series.items()],
            "promql_expr_test": [{"expr": expression, "eval_time": "2h",
                                  "exp_samples": [{"labels": "{}", "value": 1}] if fires else []}]}


def write_suite(folder, name, rules, tests):
    """Writes tests and the rule file that they are of; returns the name of their file."""
    (pathlib.Path(folder) / f"{name}.rules.yaml").write_text(rules)
    (pathlib.Path(folder) / f"{name}.json").write_text(json.dumps(
        {"rule_files": [f"{name}.rules.yaml"], "evaluation_interval": "1m", "tests": tests}))
    return f"{name}.json"


def main():
    if shutil.which("promtool") is None:
        print("skipped: promtool is not installed (Debian package prometheus)")
        sys.exit(SKIPPED)
    alerts = re.findall(r"- alert: (\S+)", queries.RULES)
    assert sorted(alerts) == sorted("Buttress" + name for name in CASES), "an alert has no case"
    with tempfile.TemporaryDirectory() as folder:
        run = functools.partial(subprocess.run, cwd=folder, check=True)
        suites = [write_suite(folder, name, queries.rules_of("Buttress" + name),
                              [test_of("Buttress" + name, series, fires)
                               for fires, series in zip((True, False), pair)])
                  for name, pair in CASES.items()]
        suites.append(write_suite(folder, "all", queries.rule_file(),
                                  [value_test(name, *rest) for name, rest in VALUES.items()]))
        run(["promtool", "check", "rules", "all.rules.yaml"])
        run(["promtool", "test", "rules", *suites])
    print(f"{len(CASES)} alerts fire and are silent as they should")


if __name__ == "__main__":
    main()
