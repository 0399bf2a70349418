"""Plays an environment of Prime Intellect's package verifiers (0.4).

    python -m buttress.agents.verifiers ID --write prompts.jsonl    makes the data
    python -m buttress.agents.verifiers ID                          run.env.command

ID is that of a taskset, or of an environment's package, which is installed or in the current
folder. The policy is the model of every agent that --config does not give another; the reward of
the episode is the mean over its trainable agents. The file of --config is the block `env` of
verifiers' own configurations, as JSON: {"agent": {"harness": {"id": "null"}}}. Without it an agent
runs in the runtime `subprocess`, on this machine. --listen HOST:PORT serves instead (run.env.kind:
http), and saves the seconds in which verifiers is imported.
"""
import argparse
import asyncio
import json
import os
import sys

from . import Episode, main as play_one, service


class Player:
    """Plays tasks of one taskset. Thread-safe."""

    def __init__(self, name: str, config: dict):
        from verifiers.v1.utils import loaders

        raw = {"taskset": {"id": name}, **config}
        kind = loaders.env_config_type(name, raw.get("id", ""))
        if "agent" in kind.model_fields:
            raw["agent"] = {"runtime": {"type": "subprocess"}, **raw.get("agent", {})}
        self.config = loaders.resolve_env_config(raw)
        self.load = loaders.load_environment
        self.taskset = loaders.load_taskset(self.config.taskset)
        self.tasks = {}  # by position, once they were loaded

    def task(self, row):
        """The task that a row of `write` names."""
        position = int(row["task"])
        if position not in self.tasks:
            self.tasks.update((t.data.idx, t) for t in self.taskset.include(idx=[str(position)]))
        task = self.tasks.get(position)
        if task is None or task.key != row["key"]:
            raise ValueError(f"the taskset has no task {position} with the key {row['key']}; write "
                             "the prompts again")
        return task

    def keep_all(self):
        """Loads every task, where they are not without end."""
        if self.taskset.bounded:
            self.tasks = {t.data.idx: t for t in self.taskset}

    def __call__(self, episode: Episode) -> float:
        return asyncio.run(self.play(episode))

    async def play(self, episode: Episode) -> float:
        import verifiers.v1 as vf

        task, env = self.task(episode.row), self.load(self.config)
        variable = f"BUTTRESS_EPISODE_{episode.api_key}"  # verifiers reads keys of variables only
        os.environ[variable] = episode.api_key
        try:
            client = vf.EvalClientConfig(base_url=episode.base_url, api_key_var=variable)
            async with env.serving():
                played = await env.run_episode(task, vf.ModelContext("policy", client))
        finally:
            os.environ.pop(variable, None)
        if not played.ok:
            raise RuntimeError(f"{self.config.env_id}: {reason(played)}")
        rewards = [trace.reward for trace in played.traces if trace.agent.trainable]
        if not rewards:
            raise RuntimeError(f"{self.config.env_id}: no trainable agent played")
        return sum(rewards) / len(rewards)


def reason(played) -> str:
    errors = [*played.errors, *(error for trace in played.traces for error in trace.errors)]
    return f"{errors[-1].type}: {errors[-1].message}" if errors else "an agent failed"


def messages(data) -> list:
    """The first messages of a task; for one that a user opens, what it is called."""
    from verifiers.v1.dialects.chat import message_to_wire

    system = [{"role": "system", "content": data.system_prompt}] if data.system_prompt else []
    if isinstance(data.prompt, (list, tuple)):
        return [*system, *map(message_to_wire, data.prompt)]
    return [*system, {"role": "user", "content": data.prompt or data.name or f"task {data.idx}"}]


def write(player: Player, path: str, count: int) -> None:
    """Writes a row for each of the first `count` tasks, or of all: the first messages, and what
    finds the task again."""
    tasks = player.taskset if count is None else player.taskset.take(count)
    if not tasks.bounded:
        sys.exit("the taskset is without end; bound it by --count")
    with open(path, "w") as file:
        for task in tasks:
            file.write(json.dumps({
                "id": task.data.id or str(task.data.idx), "prompt": messages(task.data),
                "answer": str(getattr(task.data, "answer", "")), "task": task.data.idx,
                "key": task.key}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m buttress.agents.verifiers",
                                     description="Plays an environment of the package verifiers.")
    parser.add_argument("env", help="ID of a taskset or environment")
    parser.add_argument("--config", metavar="FILE", help="JSON of verifiers' block env")
    parser.add_argument("--write", metavar="FILE", help="write prompts (JSONL) and end")
    parser.add_argument("--count", type=int, help="prompts; all by default")
    parser.add_argument("--listen", help="HOST:PORT: serve episodes (run.env.kind: http)")
    arguments = parser.parse_args()
    sys.path.insert(0, os.getcwd())
    config = {}
    if arguments.config:
        with open(arguments.config) as file:
            config = json.load(file)
    player = Player(arguments.env, config)
    if arguments.write:
        write(player, arguments.write, arguments.count)
    elif arguments.listen:
        player.keep_all()
        service.serve(player, arguments.listen)
    else:
        play_one(player)


if __name__ == "__main__":
    main()
