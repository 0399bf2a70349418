"""How often the math verifier and Math-Verify judge alike, and who is right where they differ.

    tests/run.sh --with math_verify [--rows 2000] [--show CLASS]

The rows are those of bench/verifier/run.py, whose verdict is known: MATH's solutions are right and
their near misses wrong, and people labelled the completions for GSM8K. Each pair of different
verdicts is counted under the first class that fits; --show prints the rows of one. """

import argparse
import collections
import importlib.util
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[3]
BESIDE = "here alone", "Math-Verify alone"


def load_bench():
    spec = importlib.util.spec_from_file_location("bench", ROOT / "bench/verifier/run.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    return bench


def labels_of_completions(bench):
    rows = bench.rows_of("gsm8k/example_model_solutions.jsonl")
    return {(value["solution"], row["ground_truth"]): value["is_correct"]
            for row in rows for value in row.values() if isinstance(value, dict)}


def class_of(response, answer):
    """Names what is peculiar to the place of the answer."""
    answer = answer.removeprefix("\\boxed{").removesuffix("}")
    behind = response.rpartition(answer)[2] if answer in response else None
    if behind is None:
        return "the answer is written otherwise"
    if "[asy]" in behind:
        return "a drawing follows"
    if re.match(r"\s*\.\s*(\$|\\\]|\\end\{)", behind):
        return "a full stop inside the mathematics"
    if "\\end{align" in behind:
        return "aligned rows"
    if re.search(r"[.!?]\$?\)?\s+\S", behind):
        return "a sentence follows"
    if re.search(r"[A-Za-z]{2}.*\d|\d.*[A-Za-z]{2}|\$.*\$", behind):
        return "the sentence names another value behind it"
    return "words follow" if re.search(r"[A-Za-z]{3}", behind) else "the answer ends the text"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=2000, help="of each case, at most")
    parser.add_argument("--show", metavar="CLASS", help="print the rows of this class")
    options = parser.parse_args()
    bench = load_bench()
    labels = labels_of_completions(bench)
    classes = collections.Counter()
    alike, among_right = [], []
    for case, rows in bench.cases(options.rows):
        ours = [same for same, _ in bench.run_ours(rows)]
        peer = [bool(same) for same, _ in bench.run_peer(rows)]
        truth = [labels.get(row, case != "math near misses") for row in rows]
        right = [(a == t, b == t) for a, b, t in zip(ours, peer, truth)]
        count = collections.Counter(right)
        alike.append((count[True, True] + count[False, False]) / len(rows))
        among_right.append(count[True, True] / (count[True, True] + count[False, True]))
        print(f"{case}: {len(rows)} rows, alike {alike[-1]:.1%}, right here alone "
              f"{count[True, False]}, Math-Verify alone {count[False, True]}, where Math-Verify is "
              f"right alike {among_right[-1]:.1%}", flush=True)
        for (response, answer), (here, there) in zip(rows, right):
            if here == there:
                continue
            name = ("another answer" if case == "math near misses" else
                    class_of(response, answer))
            classes[name, BESIDE[there]] += 1
            if name == options.show:
                print(json.dumps({"right": BESIDE[there], "answer": answer,
                                  "end": response[-200:]}))
    print(f"mean of the cases: alike {sum(alike) / len(alike):.1%}, where Math-Verify is right "
          f"{sum(among_right) / len(among_right):.1%}")
    for name in dict.fromkeys(name for (name, _), _ in classes.most_common()):
        print(f"{name}: right " + ", ".join(f"{who} {classes[name, who]}" for who in BESIDE))


main()
