"""Measures answers per second of the math verifier and of Math-Verify (Hugging Face).

Usage: bench/run.sh verifier [--json] [--quick]. $BUTTRESS_DATA names the folder of the data sets.

Both programs extract answers from the same responses and references of MATH and GSM8K and compare
them, with one thread each. The bench measures the CPU time of the thread, so that other work on
the machine does not count. Math-Verify runs with its defaults, without its timeouts (SIGALRM).

Cases:
  math solutions      responses are MATH's worked solutions, references their boxed answers: all
                      correct
  math near misses    responses are these answers with one digit changed: all wrong
  gsm8k completions   outputs of four models, references GSM8K's solutions
  gsm8k prose         GSM8K's solutions without the last line, references their answers: all correct
  math prose          MATH's solutions without the box command: all correct

On stderr stands how often both judge alike, and whom the others were correct for.
"""
import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

from math_verify import parse, verify

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = pathlib.Path(os.environ.get("BUTTRESS_DATA", ROOT.parent / "shared/data"))
OURS = ROOT / "build/release/bin/bench_verifier"
ROWS = {False: 2000, True: 100}  # of a case; with --quick


def rows_of(path):
    if not (DATA / path).is_file():
        raise SystemExit(f"{DATA / path} is absent; set BUTTRESS_DATA to the data sets' folder")
    return [json.loads(line) for line in (DATA / path).open()]


def boxed(solution):
    """Returns the content of the last \\boxed{}, or None if it does not close."""
    begin = solution.rfind("\\boxed{") + len("\\boxed{")
    depth = 1
    for i in range(begin, len(solution)):
        depth += {"{": 1, "}": -1}.get(solution[i], 0)
        if depth == 0:
            return solution[begin:i]
    return None


def other_digit(answer):
    at = re.search(r"\d(?!.*\d)", answer)
    return answer[:at.start()] + str((int(at[0]) + 1) % 10) + answer[at.end():] if at else None


def cases(count):
    draw = random.Random(1)
    solutions = [r["solution"] for r in rows_of("math/test.jsonl")]
    # Several boxes would be one list.
    single = [s for s in solutions if s.count("\\boxed{") == 1 and boxed(s)]
    solutions = draw.sample(single, count)
    answers = [f"\\boxed{{{boxed(s)}}}" for s in solutions]
    yield "math solutions", list(zip(solutions, answers))
    misses = [(other_digit(boxed(s)), a) for s, a in zip(solutions, answers)]
    yield "math near misses", [(f"\\boxed{{{m}}}", a) for m, a in misses if m]
    models = ["6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"]
    rows = rows_of("gsm8k/example_model_solutions.jsonl")
    outputs = [(r[m]["solution"], r["ground_truth"]) for r in rows for m in models]
    yield "gsm8k completions", draw.sample(outputs, count)
    solved = [r["answer"].rsplit("####", 1) for r in rows_of("gsm8k/test.jsonl")]
    yield "gsm8k prose", [(text.strip(), answer.strip()) for text, answer in solved][:count]
    plain = [s.replace(f"\\boxed{{{boxed(s)}}}", boxed(s)) for s in solutions]
    yield "math prose", list(zip(plain, answers))


def run_ours(rows):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        for response, answer in rows:
            file.write(json.dumps({"response": response, "answer": answer}) + "\n")
        file.flush()
        bench = subprocess.run([OURS, file.name], stdout=subprocess.PIPE, text=True, check=True)
    lines = bench.stdout.splitlines()
    return [(outcome == "correct", float(seconds)) for outcome, seconds in map(str.split, lines)]


def run_peer(rows):
    results = []
    for response, answer in rows:
        begin = time.thread_time()
        gold, given = (parse(text, parsing_timeout=None) for text in (answer, response))
        same = verify(gold, given, timeout_seconds=None)
        results.append((same, time.thread_time() - begin))
    return results


def p999(results):
    rank = min(len(results) - 1, int(0.999 * len(results)))
    return sorted(seconds for _, seconds in results)[rank]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="use 100 answers per case")
    options = parser.parse_args()
    if not options.json:
        print(f"{'case':20s} {'unit':12s} {'ours':>10s} {'math-verify':>12s} {'ratio':>8s}")
    for case, rows in cases(ROWS[options.quick]):
        print(f"{case}: {len(rows)} answers", file=sys.stderr)
        ours, peer = run_ours(rows), run_peer(rows)
        print(f"{case}: judged correct {sum(s for s, _ in ours)}, "
              f"by Math-Verify {sum(bool(s) for s, _ in peer)}", file=sys.stderr)
        both = [(a, bool(b)) for (a, _), (b, _) in zip(ours, peer)]
        print(f"{case}: alike {sum(a == b for a, b in both) / len(both):.1%}, correct here alone "
              f"{both.count((True, False))}, for Math-Verify alone {both.count((False, True))}",
              file=sys.stderr)
        speeds = [len(r) / sum(seconds for _, seconds in r) for r in (ours, peer)]
        slowest = [1e3 * p999(r) for r in (ours, peer)]
        for unit, (a, b), ratio in (("answers/s", speeds, speeds[0] / speeds[1]),
                                    ("ms p99.9", slowest, slowest[1] / slowest[0])):
            if options.json:
                print(json.dumps({"bench": "verifier", "case": case, "ours": a, "peer": b,
                                  "peer_name": "math-verify", "unit": unit, "ratio": ratio}),
                      flush=True)
            else:
                print(f"{case:20s} {unit:12s} {a:10.4g} {b:12.4g} {ratio:8.1f}", flush=True)


if __name__ == "__main__":
    main()
