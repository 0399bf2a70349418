"""Reward functions as users of TRL and verl write them, which record what they are called with."""
import asyncio
import json
import os


def plain(value):
    """An argument as JSON: callables and trainer_state by what a function may use of them."""
    if callable(value):
        return "callable"
    if hasattr(value, "global_step"):
        return {"global_step": value.global_step, "max_steps": value.max_steps}
    return value


def record(name, arguments):
    with open(os.environ["REWARD_RECORD"], "a") as file:
        seen = {key: plain(value) for key, value in sorted(arguments.items())}
        file.write(json.dumps({"function": name, "arguments": seen}) + "\n")


def text_of(completion):
    return completion if isinstance(completion, str) else completion[0]["content"]


def trl_sync(prompts, completions, completion_ids, solution, **kwargs):
    record("trl_sync", dict(prompts=prompts, completions=completions, solution=solution,
                            completion_ids=completion_ids, **kwargs))
    return [float(text_of(c) == s) + 0.01 * len(ids)
            for c, s, ids in zip(completions, solution, completion_ids)]


async def trl_async(prompts, completions, **kwargs):
    record("trl_async", dict(prompts=prompts, completions=completions, **kwargs))
    await asyncio.sleep(0)
    return [float(len(text_of(c))) for c in completions]


def trl_some(completions, level, trainer_state, log_metric, log_extra, **kwargs):
    log_metric("levels", sum(level))
    log_extra("seen", [text_of(c) for c in completions])
    return [None if x > 1 else trainer_state.global_step / trainer_state.max_steps for x in level]


class Judge:
    def __call__(self, completions, **kwargs):
        return [True for _ in completions]


trl_object = Judge()


def trl_raises(completions, **kwargs):
    raise ValueError("a bug")


def trl_short(completions, **kwargs):
    return [1.0]


def verl_number(data_source, solution_str, ground_truth, extra_info=None):
    record("verl_number", dict(data_source=data_source, solution_str=solution_str,
                               ground_truth=ground_truth, extra_info=extra_info))
    return 1.0 if solution_str == ground_truth else 0.25


def verl_dict(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    record("verl_dict", dict(data_source=data_source, solution_str=solution_str,
                             ground_truth=ground_truth, extra_info=extra_info, **kwargs))
    return {"score": 0.5 + extra_info["index"], "acc": True, "pred": solution_str}


async def verl_async(data_source, solution_str, ground_truth, extra_info=None):
    await asyncio.sleep(0)
    return float(len(solution_str))


def verl_raises(data_source, solution_str, ground_truth, extra_info=None):
    raise KeyError(solution_str)
