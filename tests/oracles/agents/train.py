"""Trains a small model with each agent by `buttress launch`, and checks that nothing was lost and
that every token of the policy trains as it was sampled.

train.py --bin FOLDER --verifiers PYTHON [NAME...]
"""
import argparse
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request

HERE = pathlib.Path(__file__).parent
OUT = pathlib.Path("runs/with-agents").absolute()
CHARACTERS = "0123456789+?abcdefghijklmnopqrstuvwxyz{}\":,_</> "
STEPS, GROUPS, GROUP = 3, 2, 4
RUN_SECONDS = 900


def need(holds, what):
    if not holds:
        sys.exit(f"agents: {what}")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def conversations(with_tools):
    """Sums of two digits as the agents ask for them."""
    for a in range(5):
        for b in range(5):
            talk = [{"role": "user", "content": f"{a}+{b}"}]
            call = json.dumps({"name": "add", "arguments": {"a": a, "b": b}})
            if with_tools:
                talk += [{"role": "assistant", "content": f"<tool_call>\n{call}\n</tool_call>"},
                         {"role": "tool", "content": str(a + b)}]
            talk.append({"role": "assistant", "content": str(a + b)})
            yield {"messages": talk}
            if with_tools:
                yield {"messages": [{"role": "system", "content": "add"}, *talk]}


class Oracle:
    def __init__(self, programs, verifiers):
        self.buttress = programs / "buttress"
        self.verifiers = verifiers
        self.env = {**os.environ, "PYTHONPATH": f"{HERE.parents[2] / 'python'}:{HERE}"}

    def call(self, *command):
        done = subprocess.run(list(map(str, command)), env=self.env, capture_output=True, text=True,
                              timeout=RUN_SECONDS, check=False, cwd=OUT)
        need(done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")

    def make(self):
        """A model that answers, one that calls the tool first, and the data of each agent."""
        OUT.mkdir(parents=True, exist_ok=True)
        self.call(self.buttress, "new-model", "--out", OUT / "new", "--chat", "--characters",
                  CHARACTERS, "--layers", 2, "--hidden", 64, "--heads", 4, "--intermediate", 128)
        for name, tools, steps in (("talks", False, 40), ("calls", True, 400)):
            write_rows(OUT / f"{name}.jsonl", conversations(tools))
            self.call(self.buttress, "sft", "--model", OUT / "new", "--data",
                      OUT / f"{name}.jsonl", "--out", OUT / name, "--steps", steps, "--batch", 32)
        write_rows(OUT / "sums.jsonl", (
            {"prompt": [{"role": "user", "content": f"{a}+{b}"}], "answer": str(a + b)}
            for a in range(5) for b in range(5)))
        self.call(sys.executable, "-m", "buttress.agents.gymnasium", "text_env:Sums-v0",
                  "--write", OUT / "gymnasium.jsonl", "--count", 40)
        self.call(self.verifiers, "-m", "buttress.agents.verifiers", "sums_taskset",
                  "--write", OUT / "verifiers.jsonl")

    def settings(self, name, data, model, env):
        return {
            "run": {
                "name": name, "steps": STEPS, "data": {"prompts": str(OUT / f"{data}.jsonl")},
                "model": {"path": str(OUT / model)},
                "env": {"max_turns": 4, "max_tokens": 400, "timeout_ms": RUN_SECONDS * 1000, **env},
                "sampling": {"group_size": GROUP, "max_tokens": 80},
                "batch": {"prompts": GROUPS, "max_age": 0}, "reward": {"verifier": "exact"},
                "optim": {"lr": 1e-4}},
            "local": {"out": str(OUT / f"{name}-run"), "launch": {"workers": 1, "learner_ranks": 1},
                      "worker": {"metrics": f"127.0.0.1:{free_port()}",
                                 "episodes": {"running": 4}}}}

    def launch(self, name, data, model, env):
        """Runs to the end; returns the last metrics of the worker, and the steps."""
        settings = self.settings(name, data, model, env)
        config, out = OUT / f"{name}.yaml", pathlib.Path(settings["local"]["out"])
        config.write_text(json.dumps(settings))
        shutil.rmtree(out, ignore_errors=True)
        metrics, until = {}, time.monotonic() + RUN_SECONDS
        with open(OUT / f"{name}.log", "w") as log:
            run = subprocess.Popen([self.buttress, "launch", config], env=self.env, cwd=OUT,
                                   stdout=log, stderr=log)
            while run.poll() is None:
                metrics = scraped(settings["local"]["worker"]["metrics"]) or metrics
                if time.monotonic() > until:
                    run.terminate()
                    run.wait(60)
                    sys.exit(f"agents: {name} took more than {RUN_SECONDS} s")
                time.sleep(0.02)  # a run of the service takes two seconds
        need(run.returncode == 0, f"{name} ended with {run.returncode}; see {OUT / name}.log")
        steps = list(map(json.loads, (out / "steps.jsonl").read_text().splitlines()))
        self.call(self.buttress, "ledger", "audit", out)
        return metrics, steps

    def check(self, name, data, model, env, turns, tools):
        """Each run has whole episodes of at least `turns` turns on average."""
        began = time.monotonic()
        metrics, steps = self.launch(name, data, model, env)
        need(len(steps) == STEPS, f"{name}: {len(steps)} steps")
        unscorable = sum(step["unscorable"] for step in steps)
        need(unscorable == 0, f"{name}: {unscorable} unscorable episodes; see {OUT / name}.log")
        encoded = metrics.get("buttress_worker_reencoded_tokens_total")
        need(encoded == 0, f"{name}: {encoded} tokens were encoded again")
        mean = (metrics["buttress_worker_episode_turns_sum"]
                / metrics["buttress_worker_episode_turns_count"])
        need(mean >= turns, f"{name}: {mean} turns an episode")
        calls = metrics.get('buttress_worker_tool_calls_total{tool="add"}', 0)
        need(calls > 0 or not tools, f"{name}: no tool was called")
        first, last = steps[0]["raw_reward_mean"], steps[-1]["raw_reward_mean"]
        print(f"agents: {name}: {STEPS} steps in {time.monotonic() - began:.0f} s, {mean:.2f} "
              f"turns an episode, {calls:.0f} tool calls, 0 tokens encoded again, reward "
              f"{first:.2f} to {last:.2f}", flush=True)

    @contextlib.contextmanager
    def served(self, command):
        """The settings run.env of a service, which ends with the block."""
        with subprocess.Popen([*command, "--listen", "127.0.0.1:0"], env=self.env, cwd=OUT,
                              stdout=subprocess.PIPE, text=True) as service:
            try:
                yield {"kind": "http", "url": service.stdout.readline().split()[-1]}
            finally:
                service.terminate()


def scraped(address):
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=2) as page:
            rows = re.findall(r"^(buttress_worker_\S+?)(\{[^}]*\})? (\S+)$", page.read().decode(),
                              re.MULTILINE)
    except OSError:
        return None  # before the start, or after the end
    values = {}
    for name, labels, value in rows:
        key = name + (labels if "tool=" in labels else "")
        values[key] = values.get(key, 0) + float(value)
    return values


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--verifiers", required=True)
    parser.add_argument("names", nargs="*", metavar="NAME", help="all by default")
    arguments = parser.parse_args()
    oracle = Oracle(arguments.bin.absolute(), arguments.verifiers)
    oracle.make()
    own, other = sys.executable, arguments.verifiers
    gymnasium = [own, "-m", "buttress.agents.gymnasium", "text_env:Sums-v0"]
    verifiers = [other, "-m", "buttress.agents.verifiers", "sums_taskset"]
    runs = {  # data, model, program, turns at least, whether tools are called
        "openai": ("sums", "calls", [own, str(HERE / "tool_agent.py")], 1.5, True),
        "framework": ("sums", "calls", [own, str(HERE / "framework_agent.py")], 1.5, True),
        "gymnasium": ("gymnasium", "talks", gymnasium, 1.1, False),
        "verifiers": ("verifiers", "talks", verifiers, 2, False),
    }
    unknown = set(arguments.names) - set(runs)
    need(not unknown, f"there is no {', '.join(unknown)}; expected some of {', '.join(runs)}")
    for name, (data, model, command, turns, tools) in runs.items():
        if arguments.names and name not in arguments.names:
            continue
        oracle.check(name, data, model, {"kind": "exec", "command": command}, turns, tools)
        if not tools:
            with oracle.served(command) as env:
                oracle.check(f"{name}-http", data, model, env, turns, tools)


if __name__ == "__main__":
    main()
