"""A million tiny passages through all steps of a training, search and refresh, in the memory that `multiview plan` states.

`PASSAGES` is the number of `make torture`; run by itself, this file prints a table for another one:

    python -m tests.torture.test_many_passages 100000
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview import names
from multiview.artifacts.champions import Champion, crown, current
from multiview.artifacts.record import Reference, read_record
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import Overrides
from multiview.estimates.estimate import estimate
from multiview.estimates.model_shape import shape_of
from multiview.estimates.rates import read_rates
from multiview.estimates.step_costs import cost_of
from multiview.estimates.workload import Hardware, Setting, Workload
from multiview.model.systems import resolve
from multiview.plans.request import Request
from multiview.steps.path import StepPath
from tests.fixtures.cross_encoders import classifier
from tests.fixtures.measured_steps import Measured, measured_steps, peak_of
from tests.fixtures.servers import new_database
from tests.fixtures.tiny import _WORDS, tiny_bert, tiny_t5

PASSAGES = 1_000_000
QUESTIONS = 200
FEWER = 10
"""Queries are generated for so many times fewer passages: they take longest, and what grows with the corpus shows soon."""
CHANGED = 100
"""One passage of so many is another one at the refresh."""
AT_ONCE = 50_000
VOCABULARY = _WORDS.split()


@dataclass(frozen=True)
class Row:
    """What a step took, and the memory that `multiview plan` states for it."""

    pipeline: str
    measured: Measured
    stated: float


def corpus(file: Path, passages: int, changed: bool = False) -> None:
    """Passages of two sentences of four words; with `changed`, some of them have other words."""
    draw = random.Random(0)
    schema = pa.schema([(name, pa.string()) for name in ("id", "title", "text")])
    with pq.ParquetWriter(file, schema) as writer:
        for first in range(0, passages, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, passages))
            drawn = [draw.choices(VOCABULARY, k=8) for _ in numbers]
            if changed:
                drawn = [
                    words[::-1] if number % CHANGED == 1 else words
                    for number, words in zip(numbers, drawn, strict=True)
                ]
            texts = [f"{' '.join(words[:4])}. {' '.join(words[4:])}.".capitalize() for words in drawn]
            titles = [words[0] for words in drawn]
            writer.write_table(pa.table([[f"p{number}" for number in numbers], titles, texts], schema))


def questions(file: Path, passages: Path, count: int) -> None:
    """Questions for the first words of passages, spread evenly; none of these changes."""
    table = pq.read_table(passages, columns=["id", "text"])
    rows = range(0, len(table), max(1, len(table) // count))
    asked = []
    for row in rows:
        row -= row % CHANGED
        text = table["text"][row].as_py()
        asked.append(
            {
                "qid": f"q{row}",
                "question": " ".join(text.replace(".", "").split()[:5]) + "?",
                "answers": [text.split()[1]],
                "positive_ids": [table["id"][row].as_py()],
            }
        )
    pq.write_table(pa.Table.from_pylist(list({each["qid"]: each for each in asked}.values())), file)


def settings(folder: Path, source: str) -> Overrides:
    return {
        "corpus": {"source": str(folder / source), "shards": 2},
        "questions": {"source": str(folder / "questions.parquet"), "dev_share": 0.5},
        "model": {
            "base": str(folder / "base"),
            "architecture": "mvr",
            "views": 2,
            "passage_length": 32,
            "question_length": 16,
        },
        "train": {"rounds": 1, "max_steps": 2, "batch_size": 8, "checkpoint_steps": 2},
        "evaluation": {"depth": 20, "analyses": []},
        "gate": {"drops": {}},
        "comparison": {"resamples": 200},
        "export": {"formats": ["views", "delta"]},
    }


def with_queries(folder: Path) -> Overrides:
    """The Dual Cross Encoder with a generator that is trained first, and a teacher that scores what it mines."""
    plain = settings(folder, "fewer.parquet")
    return {
        **plain,
        "model": {"base": plain["model"]["base"], "architecture": "dual-cross", "passage_length": 48},
        "train": {**plain["train"], "rounds": 2, "negatives": 2, "distill_weight": 1.0},
        "mining": {"depth": 20, "margin": 0.0, "cross_encoder": str(folder / "teacher")},
        "generation": {
            "model": str(folder / "generator"),
            "fine_tune": True,
            "queries": 2,
            "max_length": 8,
            "input_length": 32,
            "train": {"max_steps": 2, "batch_size": 8, "checkpoint_steps": 2},
        },
    }


def with_made_questions(folder: Path) -> Overrides:
    """As `settings`, with training questions that are cropped from the passages."""
    plain = settings(folder, "fewer.parquet")
    questions = {"origin": "crop", "limit": QUESTIONS, "dev_source": plain["questions"]["source"]}
    return {**plain, "questions": questions, "make_questions": {"snippets": 2, "shortest": 2}}


def rows(folder: Path, passages: int) -> Iterator[Row]:
    """Trains two steps, indexes all passages, searches them, and refreshes the index after one of a hundred changed."""
    tiny_bert(folder / "base", width=32)
    new_database(folder)
    corpus(folder / "first.parquet", passages)
    corpus(folder / "second.parquet", passages, changed=True)
    questions(folder / "questions.parquet", folder / "first.parquet", QUESTIONS)
    load = Workload(passages, 2, 9, QUESTIONS / 2, QUESTIONS / 2, 1 / CHANGED)
    setting = Setting(load, shape_of(str(folder / "base")), Hardware(0, "h100", 2, 64e9), read_rates(None))
    store = LocalStore(folder / "store")

    yield from _measured(Request.make("training", settings(folder, "first.parquet")), setting, store, folder)
    crown(store, (champion := _champion(store)))
    yield _searched(champion.index.address, setting, folder)
    yield from _measured(Request.make("refresh", settings(folder, "second.parquet")), setting, store, folder)
    assert (promoted := current(store)) and promoted.number == 2

    fewer = passages // FEWER
    corpus(folder / "fewer.parquet", fewer)
    questions(folder / "questions.parquet", folder / "fewer.parquet", QUESTIONS)
    tiny_t5(folder / "generator")
    classifier(folder / "teacher")
    setting = replace(setting, workload=replace(load, passages=fewer))
    for overrides in (with_queries(folder), with_made_questions(folder)):
        store = LocalStore(folder / f"store-{overrides['questions'].get('origin', 'generated')}")
        yield from _measured(Request.make("training", overrides), setting, store, folder)


def _measured(request: Request, setting: Setting, store: LocalStore, folder: Path) -> Iterator[Row]:
    costs = estimate(request, setting).costs
    for measured in measured_steps(request.plan, store, folder):
        yield Row(request.plan.name, measured, costs[replace(measured.path, shard="")].memory)


def _champion(store: LocalStore) -> Champion:
    """The only index of the store."""
    (key,) = store.folders(names.INDEX)
    record = read_record(store, names.INDEX, key)
    assert record is not None
    return Champion(
        number=1,
        predecessor=None,
        why="first",
        index=Reference.to(store, record),
        model=record.inputs["model"][0],
        passages=record.inputs["passages"][0],
    )


def _searched(address: str, setting: Setting, folder: Path) -> Row:
    """`multiview search` with all questions: as much memory is stated as for an evaluation."""
    asked = pq.read_table(folder / "questions.parquet").to_pylist()
    file = folder / "questions.txt"
    file.write_text("".join(f"{each['question']}\n" for each in asked))
    begun = time.monotonic()
    command = ["search", "--index", address, "--questions", str(file), "--json"]
    peak, printed = peak_of([sys.executable, "-c", "from multiview.cli.app import main; main()", *command])
    answers = [json.loads(line) for line in printed.splitlines()]
    assert [answer["question"] for answer in answers] == [each["question"] for each in asked]
    stated = cost_of("evaluate", resolve(settings(folder, "first.parquet")), setting).memory
    return Row("search", Measured(StepPath("search"), time.monotonic() - begun, peak), stated)


def table(found: Sequence[Row]) -> Iterator[str]:
    yield "| step | seconds | peak memory, MB | stated by `multiview plan`, MB |"
    yield "|---|---|---|---|"
    for row in found:
        name = f"{row.pipeline}: {row.measured.path}"
        yield f"| {name} | {row.measured.seconds:.0f} | {row.measured.peak / 1e6:,.0f} | {row.stated / 1e6:,.0f} |"


@pytest.mark.torture
def test_no_step_needs_more_memory_than_is_stated(tmp_path: Path) -> None:
    found = list(rows(tmp_path, PASSAGES))
    print("\n".join(table(found)))
    assert [row for row in found if row.measured.peak > row.stated] == []


def main(passages: int) -> None:
    """Prints a table."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for row in rows(Path(folder), passages):
            found.append(row)
            print(row, file=sys.stderr, flush=True)
        print("\n".join(table(found)))


if __name__ == "__main__":
    main(int(sys.argv[1]))
