"""Holds the memory that `buttress doctor` plans for a learner rank (lib/checks/memory_checks.h)
against what training steps take: models of several shapes with random weights, float32 and
bfloat16, and micro-batches of several sequences and lengths. Ends with 1 where the activations of a
token, or the whole, are planned more than 30 % too high or 15 % too low.

    bench/train/memory.py [--device cuda]      needs the target bench_train
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import shapes

BENCH = pathlib.Path(__file__).resolve().parents[2] / "build/release/bin/bench_train"
MIB = 2**20
LEAST, MOST = 0.85, 1.3  # planned over taken
CHUNK = 256              # rows of logits
LOADS = [(2, 256), (8, 256), (2, 1024), (8, 512)]
SHAPES = {
    "narrow": dict(vocab_size=512, hidden_size=256, num_hidden_layers=8, num_attention_heads=4,
                   num_key_value_heads=2, head_dim=64, intermediate_size=1024),
    "wide": dict(vocab_size=8192, hidden_size=512, num_hidden_layers=12, num_attention_heads=8,
                 num_key_value_heads=2, head_dim=64, intermediate_size=1408),
    "large vocabulary": dict(vocab_size=65536, hidden_size=256, num_hidden_layers=4,
                             num_attention_heads=4, num_key_value_heads=4, head_dim=64,
                             intermediate_size=768),
}


def measure(folder, dtype, load, device):
    done = subprocess.run(
        [BENCH, folder, "--dtype", dtype, "--sequences", str(load[0]),
         "--length", str(load[1]), "--steps", "1", "--chunk-rows", str(CHUNK), "--device", device],
        capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr[-3000:])
    row = json.loads(done.stdout)
    return row["peak_bytes"] - row["base_bytes"], row


def check(what, planned, taken):
    """One line of the table; whether the plan holds."""
    holds = LEAST <= planned / taken <= MOST
    print(f"{what:52} {taken / MIB:9.3f} {planned / MIB:9.3f} {planned / taken:7.2f}"
          f"{'' if holds else '  off'}")
    return holds


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    device = options.parse_args().device
    print(f"{'MiB':52} {'taken':>9} {'planned':>9} {'ratio':>7}")
    good = True
    for name, shape in SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            config = {**shapes.QWEN3, **shape, "max_position_embeddings": 1024}
            (pathlib.Path(folder) / "config.json").write_text(json.dumps(config))
            for dtype in ("float32", "bfloat16"):
                rows = []
                for load in LOADS:
                    taken, row = measure(folder, dtype, load, device)
                    rows.append((row["tokens"], taken, row["planned_passes"]))
                    good &= check(f"{name}, {dtype}, {load[0]} x {load[1]}",
                                  row["planned_state"] + row["planned_passes"], taken)
                (few, small, planned_small), (many, large, planned_large) = rows[0], rows[-1]
                good &= check(f"{name}, {dtype}, a thousand tokens more",
                              1000 * (planned_large - planned_small) / (many - few),
                              1000 * (large - small) / (many - few))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
