"""Writes tests/golden/columns: datasets as pyarrow and save_to_disk write them.

    PYTHONPATH=~/.cache/buttress/torch-2.11.0 python3 tests/golden/make_columns.py
"""

import datetime
import decimal
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = pathlib.Path(__file__).parent / "columns"


def verl_rows(first, count):
    return [{"data_source": "sums",
             "prompt": [{"role": "system", "content": "Add."},
                        {"role": "user", "content": f"{i}+1?"}],
             "reward_model": {"style": "rule", "ground_truth": str(i + 1)},
             "extra_info": {"index": i, "split": None}} for i in range(first, first + count)]


def all_types():
    texts = ["a", None, "ö\n\"", "a"]
    day = datetime.date(2026, 1, 2)
    return pa.table({
        "text": pa.array(texts),
        "large": pa.array(texts, pa.large_string()),
        "view": pa.array(texts, pa.string_view()),
        "choice": pa.array(texts).dictionary_encode(),
        "byte": pa.array([-128, 127, None, 0], pa.int8()),
        "long": pa.array([-2**63, 2**63 - 1, None, 0], pa.int64()),
        "unsigned": pa.array([2**64 - 1, 0, None, 1], pa.uint64()),
        "half": pa.array([0.5, None, -2.0, 1.0], pa.float16()),
        "double": pa.array([0.1, float("nan"), None, float("inf")]),
        "flag": pa.array([True, False, None, True]),
        "nothing": pa.nulls(4),
        "when": pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5)] * 3 + [None], pa.timestamp("ms")),
        "day": pa.array([day] * 4),
        "price": pa.array([decimal.Decimal("1.50")] * 4),
        "list": pa.array([["x", None], [], None, ["y"]]),
        "pair": pa.array([[1, 2]] * 4, pa.list_(pa.int32(), 2)),
        "map": pa.array([[("k", 1)], [], None, [("l", None)]], pa.map_(pa.string(), pa.int64())),
        "deep": pa.array([{"a": [{"b": {"c": i}}]} for i in range(4)]),
    })


def write_trl():
    """What TRL's log_completions writes: a file for each step, a column for each reward."""
    folder = FOLDER / "trl"
    folder.mkdir(exist_ok=True)
    for step in (9, 10):
        pq.write_table(pa.table({
            "step": [step] * 4, "prompt": ["1+1?", "1+1?", "2+2?", "2+2?"],
            "completion": ["2", f"{step}", "5", "6"], "accuracy": [1.0, 0.0, 0.0, 0.0],
            "format": [0.5, 0.5, None, float("nan")], "advantage": [0.7, -0.7, 0.0, 0.0],
        }), folder / f"completions_{step:05d}.parquet")


def main():
    FOLDER.mkdir(exist_ok=True)
    write_trl()
    rows = pa.Table.from_pylist(verl_rows(0, 5))
    pq.write_table(rows, FOLDER / "verl.parquet", row_group_size=2, compression="snappy")
    types = all_types()
    pq.write_table(types.drop_columns(["half"]), FOLDER / "types.parquet", row_group_size=3,
                   compression="zstd")
    with pa.ipc.new_file(FOLDER / "types.arrow", types.schema) as file:
        file.write_table(types)
    pq.write_table(pa.table({"bytes": pa.array([b"\xff"])}), FOLDER / "binary.parquet")
    shards = FOLDER / "hub" / "data"
    shards.mkdir(parents=True, exist_ok=True)
    for split, shard in (("train", 0), ("train", 1), ("test", 0)):
        name = f"{split}-{shard:05d}-of-00002.parquet"
        pq.write_table(pa.Table.from_pylist(verl_rows(10 * shard, 2)), shards / name)
    saved = FOLDER / "saved"
    saved.mkdir(exist_ok=True)
    names = [f"data-{shard:05d}-of-00002.arrow" for shard in range(2)]
    for shard, name in enumerate(names):
        table = pa.Table.from_pylist(verl_rows(10 * shard, 2))
        with pa.ipc.new_stream(saved / name, table.schema) as stream:
            stream.write_table(table)
    state = {"_data_files": [{"filename": name} for name in names], "_split": "train"}
    (saved / "state.json").write_text(json.dumps(state) + "\n")
    (saved / "dataset_info.json").write_text("{}\n")


main()
