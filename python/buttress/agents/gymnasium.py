"""Plays a text environment of Gymnasium: observations are messages of the user, answers actions.

    python -m buttress.agents.gymnasium ID --write prompts.jsonl --count 1000    makes the data
    python -m buttress.agents.gymnasium ID                                      run.env.command

ID is that of gymnasium.make; "module:ID" imports the module first, which registers it. Rewards of
steps are those of turns, and their sum is that of the episode. An environment whose observations or
actions are no text needs a wrapper that makes them so. Needs the package gymnasium, 1.0 or later;
--listen HOST:PORT serves instead (run.env.kind: http), without a start of Python for each episode.
"""
import argparse
import importlib
import json
import os
import sys

from . import Episode, EpisodeError, main as play_one, service


def make(name: str):
    """Returns the environment of "ID" or "module:ID"."""
    import gymnasium  # at its first use, so that --help needs no package

    module, _, rest = name.rpartition(":")
    if module:
        importlib.import_module(module)
    return gymnasium.make(rest, disable_env_checker=True)


def text(observation) -> str:
    if not isinstance(observation, str):
        raise TypeError(f"an observation is of type {type(observation).__name__}; expected text: "
                        "wrap the environment in a gymnasium.ObservationWrapper")
    return observation


def play(name: str, episode: Episode) -> float:
    """Plays one episode and returns the sum of its rewards. The row's `seed` makes its task."""
    env = make(name)
    try:
        observation, _ = env.reset(seed=int(episode.row["seed"]))
        messages = episode.messages
        if messages[-1]["content"] != text(observation):
            raise ValueError(f"seed {episode.row['seed']} begins with {observation!r}, and the "
                             f"prompt is {messages[-1]['content']!r}; write the prompts again")
        total, ended = 0.0, False
        while not ended:
            try:
                answer = episode.chat(messages)
            except EpisodeError as error:
                if not error.ended:
                    raise
                break  # at a limit of run.env: what was earned counts
            observation, reward, terminated, truncated, _ = env.step(answer["content"] or "")
            episode.turn_reward(reward)
            total, ended = total + float(reward), terminated or truncated
            messages += [answer, {"role": "user", "content": text(observation)}]
        return total
    finally:
        env.close()


def write(name: str, path: str, count: int, seed: int, system: str) -> None:
    """Writes a row for each of `count` seeds: the first messages, and the seed."""
    env = make(name)
    before = [{"role": "system", "content": system}] if system else []
    with open(path, "w") as file:
        for s in range(seed, seed + count):
            observation, _ = env.reset(seed=s)
            prompt = [*before, {"role": "user", "content": text(observation)}]
            file.write(json.dumps({"id": f"{name}-{s}", "prompt": prompt, "answer": "", "seed": s})
                       + "\n")
    env.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m buttress.agents.gymnasium",
                                     description="Plays a text environment of Gymnasium.")
    parser.add_argument("env", help="ID of gymnasium.make, or module:ID")
    parser.add_argument("--write", metavar="FILE", help="write prompts (JSONL) and end")
    parser.add_argument("--count", type=int, default=1000, help="prompts, a seed each")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--system", default="", help="a system message before each prompt")
    parser.add_argument("--listen", help="HOST:PORT: serve episodes (run.env.kind: http)")
    arguments = parser.parse_args()
    sys.path.insert(0, os.getcwd())

    def agent(episode: Episode) -> float:
        return play(arguments.env, episode)

    if arguments.write:
        write(arguments.env, arguments.write, arguments.count, arguments.seed, arguments.system)
    elif arguments.listen:
        service.serve(agent, arguments.listen)
    else:
        play_one(agent)


if __name__ == "__main__":
    main()
