"""A million tiny passages through every step, search and refresh, in the memory that `multiview plan` states.

`PASSAGES` is the number of `make acceptance`; run by itself, this file prints a table for another one, in which queries
are generated for all passages, or for so many times fewer:

    python -m tests.torture.test_many_passages 100000 --fewer 10
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
from typing import Annotated

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer

from multiview import names
from multiview.artifacts.champions import Champion, crown, current
from multiview.artifacts.record import Record, Reference, read_record
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import Overrides
from multiview.model.systems import resolve
from multiview.plans.estimate import cost_of, estimate
from multiview.plans.request import Request
from multiview.plans.scenario import Scenario, shape_of
from multiview.steps.path import StepPath
from tests.fixtures.cross_encoders import classifier
from tests.fixtures.measured_steps import Measured, measured_steps, peak_of
from tests.fixtures.servers import new_database
from tests.fixtures.tiny import _WORDS, tiny_bert, tiny_t5
from tests.fixtures.tortured_plans import NOBODY

PASSAGES = 1_000_000
QUESTIONS = 200
FEWER = 10
"""Queries are generated for so many times fewer passages in `make acceptance`, because that takes longest."""
CHANGED = 100
"""One passage of so many is another one at the refresh."""
AT_ONCE = 50_000
FIRST, SECOND = "first.parquet", "second.parquet"
"""The corpus, and the corpus at the refresh."""
SYSTEM = "dual-cross"
ORIGINS = ("crop", "generator")
"""Ways in which questions are made."""
GENERATED = {"max_length": 8, "batch_size": 128}
"""Few long steps of the generator take less time than many short ones."""
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
                "negative_ids": [table["id"][-1 - row].as_py()],
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
        "export": {"formats": ["views"]},
    }


def with_queries(folder: Path, source: str) -> Overrides:
    """The Dual Cross Encoder with a generator that is trained first and a warm-up, on negatives that come with the
    questions, then on mined ones that a teacher scores."""
    plain = settings(folder, source)
    return {
        **plain,
        "questions": {**plain["questions"], "hard_negatives": "given"},
        "model": {"base": plain["model"]["base"], "architecture": "dual-cross", "passage_length": 48},
        "train": {
            **plain["train"],
            "rounds": 2,
            "negatives": 1,
            "distill_weight": 1.0,
            "warm_up": {"max_steps": 2},
        },
        "mining": {"depth": 20, "margin": 0.0, "cross_encoder": str(folder / "teacher")},
        "generation": {
            "model": str(folder / "generator"),
            **GENERATED,
            "fine_tune": True,
            "queries": 2,
            "train": {"max_steps": 2, "batch_size": 8, "checkpoint_steps": 2},
        },
    }


def compared(folder: Path, source: str) -> Overrides:
    """`with_queries` as a comparison with BM25, with BM25 over generated queries, and with both fused."""
    given = with_queries(folder, source)
    one = {name: given.pop(name) for name in ("model", "train", "mining")}
    return {**given, "comparison": {"systems": {SYSTEM: one}, "fusion": [SYSTEM]}}


def refreshed(folder: Path, generator: str) -> Overrides:
    """A refresh of `with_queries`, with the `generator` that wrote the champion's queries, which nobody's server follows."""
    given = with_queries(folder, SECOND)
    generation = {**given["generation"], "model": generator, "fine_tune": False}
    return {**given, "generation": generation, "export": {"qdrant_url": NOBODY}}


def with_made_questions(folder: Path, origin: str) -> Overrides:
    """As `settings`, with training questions that are made from the passages, in the way `origin`."""
    plain = settings(folder, FIRST)
    questions = {"origin": origin, "limit": QUESTIONS, "dev_source": plain["questions"]["source"]}
    generation = {"model": str(folder / "generator"), **GENERATED}
    # What a generator of random weights writes finds no passage again, however many drafts are tried.
    made = {"snippets": 2, "found_within": 10 if origin == "crop" else None}
    return {**plain, "questions": questions, "generation": generation, "make_questions": made}


def rows(folder: Path, passages: int, fewer: int) -> Iterator[Row]:
    """Trains two steps, indexes all passages, searches them, and refreshes the index after one of a hundred changed.

    Then a comparison and a refresh over passages with generated queries, and trainings on questions made from them,
    with `fewer` times fewer passages.
    """
    tiny_bert(folder / "base", width=32)
    tiny_t5(folder / "generator")
    classifier(folder / "teacher")
    new_database(folder)
    shape = shape_of(str(folder / "base"))
    scenario = Scenario(passages, 9, QUESTIONS / 2, QUESTIONS / 2, shape, 1 / CHANGED, cores=2)
    write(folder, passages)
    store = LocalStore(folder / "store")
    yield from _measured(Request.make("training", settings(folder, FIRST)), scenario, store, folder)
    crown(store, (champion := _champion(store)))
    yield _searched(champion.index.address, scenario, folder)
    yield from _measured(Request.make("refresh", settings(folder, SECOND)), scenario, store, folder)
    assert (promoted := current(store)) and promoted.number == 2

    write(folder, passages // fewer)
    scenario = replace(scenario, passages=passages // fewer)
    store = LocalStore(folder / "store-queries")
    yield from _measured(Request.make("comparison", compared(folder, FIRST)), scenario, store, folder)
    crown(store, _champion(store))
    generator = f"{store.url}/{_newest(store, names.GENERATOR).folder}"
    yield from _measured(Request.make("refresh", refreshed(folder, generator)), scenario, store, folder)
    for origin in ORIGINS:
        store = LocalStore(folder / f"store-{origin}")
        yield from _measured(
            Request.make("training", with_made_questions(folder, origin)), scenario, store, folder
        )


def write(folder: Path, passages: int) -> None:
    """Writes the corpus before and after its change, and the questions."""
    corpus(folder / FIRST, passages)
    corpus(folder / SECOND, passages, changed=True)
    questions(folder / "questions.parquet", folder / FIRST, QUESTIONS)


def _measured(request: Request, scenario: Scenario, store: LocalStore, folder: Path) -> Iterator[Row]:
    costs = estimate(request, scenario)
    for measured in measured_steps(request.plan, store, folder):
        yield Row(request.plan.name, measured, costs[replace(measured.path, shard="")].memory)


def _newest(store: LocalStore, kind: str) -> Record:
    """The artifact of a kind that was made last."""
    records = [read_record(store, kind, key) for key in store.folders(kind)]
    return max((record for record in records if record), key=lambda record: record.created)


def _champion(store: LocalStore) -> Champion:
    """The index that was made last."""
    record = _newest(store, names.INDEX)
    return Champion(
        number=1,
        predecessor=None,
        why="first",
        index=Reference.to(store, record),
        model=record.inputs["model"][0],
        passages=record.inputs["passages"][0],
    )


def _searched(address: str, scenario: Scenario, folder: Path) -> Row:
    """`multiview search` with all questions: as much memory is stated as for an evaluation."""
    asked = pq.read_table(folder / "questions.parquet").to_pylist()
    file = folder / "questions.txt"
    file.write_text("".join(f"{each['question']}\n" for each in asked))
    begun = time.monotonic()
    command = ["search", "--index", address, "--questions", str(file), "--json"]
    peak, printed = peak_of([sys.executable, "-c", "from multiview.cli.app import main; main()", *command])
    answers = [json.loads(line) for line in printed.splitlines()]
    assert [answer["question"] for answer in answers] == [each["question"] for each in asked]
    stated = cost_of("evaluate", replace(scenario, config=resolve(settings(folder, FIRST)))).memory
    return Row("search", Measured(StepPath("search"), time.monotonic() - begun, peak), stated)


def table(found: Sequence[Row]) -> Iterator[str]:
    yield "| step | seconds | peak memory, MB | stated by `multiview plan`, MB |"
    yield "|---|---|---|---|"
    for row in found:
        name = f"{row.pipeline}: {row.measured.path}"
        yield f"| {name} | {row.measured.seconds:.0f} | {row.measured.peak / 1e6:,.0f} | {row.stated / 1e6:,.0f} |"


def test_its_pipelines_can_be_planned(tmp_path: Path) -> None:
    trainings = [settings(tmp_path, FIRST), *(with_made_questions(tmp_path, each) for each in ORIGINS)]
    for request in (
        *(Request.make("training", each) for each in trainings),
        Request.make("comparison", compared(tmp_path, FIRST)),
    ):
        assert request.plan.nodes


@pytest.mark.acceptance
def test_no_step_needs_more_memory_than_is_stated(tmp_path: Path) -> None:
    found = list(rows(tmp_path, PASSAGES, FEWER))
    print("\n".join(table(found)))
    assert [row for row in found if row.measured.peak > row.stated] == []


def main(
    passages: Annotated[int, typer.Argument(help="Passages.")],
    fewer: Annotated[int, typer.Option(help="How many times fewer have generated queries.")] = FEWER,
) -> None:
    """Prints a table."""
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for row in rows(Path(folder), passages, fewer):
            found.append(row)
            print(row, file=sys.stderr, flush=True)
        print("\n".join(table(found)))


if __name__ == "__main__":
    typer.run(main)
