"""Learning curves of the quickstart recipe in float32 and in bfloat16 with either precision of the
optimizer, over seeds.

    bench/experiments/precision.py [--seeds 5] [--steps 400] [--out runs/precision]

Prints a line a run, the mean reward over parts of the run, and the accuracy on held-out problems;
writes results.json.
"""

import statistics

from countdown import (accuracy, column, launch_command, options_parser, run, run_variants,
                       steps_of)

PRECISIONS = {
    "float32": ["run.model.dtype=float32"],
    "bfloat16, fp32_master": ["run.model.dtype=bfloat16", "run.optim.precision=fp32_master"],
    "bfloat16, stochastic": ["run.model.dtype=bfloat16", "run.optim.precision=stochastic"],
}
PARTS = 8


def main():
    parser = options_parser("precision")
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()

    def train(out, data, seed, settings):
        run(*launch_command(out, data, seed, [*settings, f"run.steps={options.steps}"]))
        rewards = [row["raw_reward_mean"] for row in steps_of(out)]
        part = max(1, len(rewards) // PARTS)
        return {
            "accuracy_before": accuracy(data / "cold", data),
            "accuracy_after": accuracy(out / "model", data), "steps": len(rewards),
            "curve": [statistics.mean(rewards[i * part:(i + 1) * part]) for i in range(PARTS)],
        }

    results = list(run_variants(options, PRECISIONS, train))
    print("\n| precision |" + "".join(f" part {i + 1} |" for i in range(PARTS)) + " held out |\n|" +
          "---|" * (PARTS + 2))
    for precision, rows in results:
        curve = [column([row["curve"][i] for row in rows], 2) for i in range(PARTS)]
        print(f"| {precision} | " + " | ".join(curve) +
              f" | {column([row['accuracy_after'] for row in rows], 2)} |")


main()
