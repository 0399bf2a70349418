"""Forward passes and generation on the golden models of every family, next to transformers."""
import json

from gpu_checks.machine import ROOT, Failed

GOLDEN = ROOT / "tests/golden/policy"
BOUNDS = {"float32": 1e-3, "bfloat16": 0.5}  # nats


def golden_models():
    """Yields the folder, the temperature and the numbers of each model."""
    for file in ("policy_logits.json", "families.json"):
        numbers = json.loads((GOLDEN / file).read_text())
        for name, model in numbers.items():
            if name != "temperature":
                yield GOLDEN / name, float(numbers["temperature"]), model


def rows_file(machine, rows):
    path = machine.folder / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def largest_difference(machine, folder, temperature, sequences, dtype):
    rows = [{"id": i, "token_ids": one["tokens"]} for i, one in enumerate(sequences)]
    printed = machine.json_rows("buttress", "logprobs", "--model", folder,
                                rows_file(machine, rows), "--dtype", dtype, "--device",
                                machine.device, "--temperature", temperature, "--json")
    pairs = [(row["logprobs"], one["logprobs"]) for row, one in zip(printed, sequences)]
    if len(printed) != len(rows) or any(len(ours) != len(theirs) for ours, theirs in pairs):
        raise Failed(f"{folder.name}: other numbers of log-probs than tokens")
    # A log-prob that is no number differs by infinity.
    return max((abs(a - b) if isinstance(a, float) and a == a else float("inf")
                for ours, theirs in pairs for a, b in zip(ours, theirs)), default=0.0)


def compare_logprobs(machine, dtype):
    worst, models = 0.0, 0
    for folder, temperature, model in golden_models():
        difference = largest_difference(machine, folder, temperature, model["sequences"], dtype)
        if not difference < BOUNDS[dtype]:
            raise Failed(f"{folder.name}: differs by {difference:.1e} nats from transformers in "
                         f"float32; the bound is {BOUNDS[dtype]}")
        worst, models = max(worst, difference), models + 1
    return f"{models} models, at most {worst:.1e} nats from transformers in float32"


def logprobs(machine):
    return compare_logprobs(machine, "float32")


def logprobs_bfloat16(machine):
    return compare_logprobs(machine, "bfloat16")


def generation(machine):
    tokens = 0
    for folder, _, model in golden_models():
        greedy = model.get("greedy", [])
        rows = [{"id": i, "token_ids": one["prompt"], "max_tokens": len(one["tokens"])}
                for i, one in enumerate(greedy)]
        if not rows:
            continue
        printed = machine.json_rows("buttress", "generate", "--model", folder,
                                    rows_file(machine, rows), "--dtype", "float32", "--device",
                                    machine.device, "--temperature", 0, "--json")
        for row, one in zip(printed, greedy, strict=True):
            ended = row["stop_reason"] == "stop" or len(row["token_ids"]) == len(one["tokens"])
            if not ended or row["token_ids"] != one["tokens"][:len(row["token_ids"])]:
                raise Failed(f"{folder.name}: prompt {row['id']} continues as {row['token_ids']}, "
                             f"with transformers as {one['tokens']}")
            tokens += len(row["token_ids"])
    if tokens == 0:
        raise Failed("nothing was generated")
    return f"{tokens} tokens equal those of transformers"
