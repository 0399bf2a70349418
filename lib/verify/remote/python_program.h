// The Python program behind verifier python:FILE:FUNCTION.
#pragma once

#include <string_view>

namespace buttress {

// Arguments: FILE FUNCTION CHAT (0 or 1). Writes {"ready": "verl" or "trl"} or {"error": why}, then
// a line of results for each line of items (lib/verify/remote/batch.h). Output of the function goes
// to stderr, and so does the traceback of the first exception of each kind. The program ends when
// its input ends.
//
//   verl  compute_score(data_source, solution_str, ground_truth, extra_info)
//         Returns a number, or a dict with "score" and optionally "acc".
//   trl   reward(prompts, completions, **columns), which may be a coroutine
//         Returns a list of numbers or None. `columns` are the fields of the rows.
inline constexpr std::string_view kPythonWorker = R"py(
import asyncio, importlib.util, inspect, json, math, os, sys, time, traceback

requests = os.fdopen(os.dup(0), "rb")
replies = os.fdopen(os.dup(1), "wb")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)

def say(reply):
    replies.write(json.dumps(reply).encode() + b"\n")
    replies.flush()

told = set()

def why(error):
    return type(error).__name__ + ": " + str(error)[:300]

def failed(error):
    frames = traceback.extract_tb(error.__traceback__)
    kind = (type(error), frames[-1].filename, frames[-1].lineno)
    if kind not in told and len(told) < 20:
        told.add(kind)
        now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z E reward ", time.gmtime())
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        os.write(2, (now + "reward function raised " + why(error).replace("\n", " ") + "\n"
                     + text).encode(errors="replace"))
    return {"error": why(error)}

def load(path, name):
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec = importlib.util.spec_from_file_location("buttress_rewards", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)

def kind_of(function):
    names = set(inspect.signature(function).parameters)
    if {"solution_str", "ground_truth"} <= names:
        return "verl"
    if "completions" in names:
        return "trl"
    raise TypeError("parameters " + ", ".join(names) + " are neither verl's (data_source, "
                    "solution_str, ground_truth, extra_info) nor TRL's (prompts, completions, "
                    "**columns)")

def judged(value):
    correct = None
    if isinstance(value, dict):
        correct = value.get("acc")
        value = value["score"]
    elif isinstance(value, (list, tuple)):
        value = value[0]
    if value is None:
        return {"error": "the function returned None"}
    score = float(value)
    if not math.isfinite(score):
        return {"error": "the function returned " + str(score)}
    return {"score": score} if correct is None else {"score": score, "correct": bool(correct)}

def by_verl(function, items):
    for item in items:
        try:
            value = function(data_source=item["source"], solution_str=item["response"],
                             ground_truth=item["answer"],
                             extra_info=item["row"].get("extra_info", item["row"]))
            yield judged(value)
        except Exception as error:
            yield failed(error)

def message(role, text):
    return [{"role": role, "content": text}]

def by_trl(function, items, chat):
    rows = [{"answer": item["answer"], **item["row"]} for item in items]
    columns = {name: [row.get(name) for row in rows] for name in sorted(set().union(*rows))}
    columns["prompts"] = [message("user", item["prompt"]) if chat else item["prompt"]
                          for item in items]
    columns["completions"] = [message("assistant", item["response"]) if chat else item["response"]
                              for item in items]
    parameters = inspect.signature(function).parameters
    if all(p.kind != inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
        columns = {name: values for name, values in columns.items() if name in parameters}
    values = function(**columns)
    if inspect.iscoroutine(values):
        values = asyncio.run(values)
    if len(values) != len(items):
        raise ValueError("%d rewards for %d completions" % (len(values), len(items)))
    for value in values:
        try:
            yield judged(value)
        except Exception as error:
            yield failed(error)

def main(path, name, chat):
    try:
        function = load(path, name)
        kind = kind_of(function)
    except BaseException as error:
        say({"error": why(error)})
        return
    say({"ready": kind})
    for line in requests:
        items = json.loads(line)["items"]
        try:
            results = list(by_verl(function, items) if kind == "verl"
                           else by_trl(function, items, chat))
        except Exception as error:
            results = [failed(error)] * len(items)
        say({"results": results})

main(sys.argv[1], sys.argv[2], sys.argv[3] == "1")
)py";

}  // namespace buttress
