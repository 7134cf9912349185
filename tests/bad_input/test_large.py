"""Lines of 2 MB (10 under `make torture`), a passage of 100,000 sentences, and the same passage under many ids: read, split,
indexed and searched, or refused in a line."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import settings

import multiview
from multiview import names
from multiview.artifacts.store import LocalStore
from multiview.config import Config, Corpus, Questions
from multiview.data.inspection import Inspection, inspect
from multiview.data.reading.readers import passage_tables, questions_of
from multiview.errors import LONGEST_LINE, InputError
from multiview.plans.request import Request
from tests.bad_input.readers import check_line
from tests.fixtures.inprocess import run_plan
from tests.fixtures.servers import new_database
from tests.fixtures.split_run import Done
from tests.fixtures.tally import BAD_INPUTS, Tally
from tests.fixtures.tiny import tiny_bert

SENTENCE = "The tower stands by the river. "
LONG_SENTENCE = "Where the old bridge is, " * 50 + SENTENCE.lower()
BYTES = 10_000_000 if settings.get_current_profile_name() == "torture" else 2_000_000
LONG = LONG_SENTENCE * (BYTES // len(LONG_SENTENCE))
"""Few sentences, as `SENTENCES` are many."""
MANY = 100_000
SENTENCES = " ".join(f"Sentence number {number} is here." for number in range(MANY))
ASKS = "What?"
QUESTION: Mapping[str, object] = {"qid": "q", "question": ASKS, "answers": ["tower"], "positive_ids": ["s1"]}
OTHERS = [{"id": f"s{number}", "text": f"Short passage {number}. A tower."} for number in range(8)]
ASKED = [
    dict(QUESTION) | {"qid": f"o{number}", "question": f"Who {number}?", "positive_ids": [f"s{number}"]}
    for number in range(8)
]


def lines(file: Path, *rows: Mapping[str, object]) -> str:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


def cells(file: Path, *rows: tuple[str, ...]) -> str:
    with file.open("w", newline="") as stream:
        csv.writer(stream, delimiter="," if file.suffix == ".csv" else "\t").writerows(rows)
    return str(file)


def text(content: str) -> Callable[[Path], str]:
    def make(file: Path) -> str:
        file.write_text(content)
        return str(file)

    return make


def _squad() -> str:
    asked = {"id": "q", "question": "Where?", "answers": [{"text": "tower", "answer_start": 4}]}
    paragraphs = [{"context": LONG, "qas": [asked]}]
    return json.dumps({"version": "1.1", "data": [{"title": "T", "paragraphs": paragraphs}]})


def _dpr() -> str:
    contexts = [{"title": "T", "text": LONG, "passage_id": "7"}]
    return json.dumps([{"question": "Where?", "answers": ["tower"], "positive_ctxs": contexts}])


TEVATRON: Mapping[str, object] = {
    "query_id": "1",
    "query": "Where?",
    "positive_passages": [{"docid": "7", "title": "", "text": LONG}],
}
PASSAGES: dict[str, Callable[[Path], str]] = {
    "p.jsonl": lambda file: lines(file, {"id": "a", "text": LONG}),
    "p.json": lambda file: lines(file, {"id": "a", "text": LONG}),
    "p.csv": lambda file: cells(file, ("id", "text"), ("a", LONG)),
    "p.tsv": lambda file: cells(file, ("id", "text"), ("a", LONG)),
    "collection.tsv": text(f"a\t{LONG}\n"),
    "a.txt": text(LONG),
    "squad.json": text(_squad()),
    "dpr.json": text(_dpr()),
    "train.jsonl": lambda file: lines(file, TEVATRON),
}
QUESTIONS: dict[str, tuple[Callable[[Path], str], int]] = {
    "question.jsonl": (lambda file: lines(file, dict(QUESTION) | {"question": LONG}), len(LONG.strip())),
    "answer.jsonl": (lambda file: lines(file, dict(QUESTION) | {"answers": [LONG]}), len(LONG)),
    "qid.jsonl": (lambda file: lines(file, dict(QUESTION) | {"qid": LONG}), len(LONG)),
    "gold.jsonl": (lambda file: lines(file, dict(QUESTION) | {"positive_ids": LONG}), len(LONG)),
    "q.csv": (lambda file: cells(file, tuple(QUESTION), ("q", "What?", str([LONG]), "s1")), len(LONG)),
    "q.tsv": (lambda file: cells(file, tuple(QUESTION), ("q", LONG, "['tower']", "s1")), len(LONG.strip())),
    "nq.qa.csv": (text(f"who?\t['{LONG}']\n"), len(LONG)),
    "answers.jsonl": (lambda file: lines(file, dict(QUESTION) | {"answers": ["tower"] * (BYTES // 20)}), 5),
}
"""A file of questions, and the length of its longest text."""


def inspected(passages: str, questions: str) -> Inspection:
    """What `multiview inspect` finds; no line of it is long."""
    config = Config(corpus=Corpus(source=(passages,)), questions=Questions(source=(questions,)))
    found = inspect(config, lambda number: None)
    shown = (*found.problems.first.values(), *found.remarks.first.values())
    assert all(len(line) <= LONGEST_LINE for line in shown)
    return found


@pytest.mark.parametrize("name", PASSAGES)
def test_a_long_line_is_a_passage(name: str, tmp_path: Path, tally: Tally) -> None:
    tally.add(BAD_INPUTS, of="large files")
    file = PASSAGES[name](tmp_path / name)
    (table,) = passage_tables(file)
    assert table.column("text").to_pylist() == [LONG]


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_long_line_is_a_question(name: str, tmp_path: Path, tally: Tally) -> None:
    tally.add(BAD_INPUTS, of="large files")
    make, length = QUESTIONS[name]
    ((_, question),) = questions_of([make(tmp_path / name)])
    texts = (question.qid, question.question, *question.answers, *question.positive_ids)
    assert max(map(len, texts)) == length


@pytest.mark.parametrize(
    ("passage", "question", "train"),
    [
        # Its answer stands beside where it is said to be.
        ({"text": LONG}, {"positive_ids": ["long"], "answer_starts": [len(LONG) - 9]}, 9),
        pytest.param({"title": LONG, "text": "A tower."}, {}, 9, marks=pytest.mark.torture),
        ({"id": LONG, "text": "A tower."}, {"positive_ids": [LONG]}, 9),
        pytest.param(
            {"text": SENTENCES},
            {"positive_ids": ["long"], "answers": [f"number {MANY - 1}"]},
            9,
            marks=pytest.mark.torture,
        ),
        pytest.param({"text": "A tower."}, {"question": LONG}, 9, marks=pytest.mark.torture),
        ({"text": "A tower."}, {"answers": [LONG], "answer_starts": [0]}, 8),  # which no passage holds
        ({"text": "A tower."}, {"qid": LONG, "answer_starts": [5]}, 9),
    ],
    ids=["text", "title", "id", "sentences", "question", "answer", "qid"],
)
def test_split_and_inspect_take_them(
    passage: dict[str, object], question: dict[str, object], train: int, tmp_path: Path, tally: Tally
) -> None:
    tally.add(BAD_INPUTS, of="large files")
    passages = lines(tmp_path / "p.jsonl", {"id": "long"} | passage, *OTHERS)
    dev = lines(tmp_path / "d.jsonl", *ASKED)
    questions = lines(tmp_path / "q.jsonl", dict(QUESTION) | question, *ASKED)
    assert inspected(passages, questions).passages == 9
    section = Questions(source=(questions,), dev_source=(dev,), max_missing_gold=0.5)
    done = Done(tmp_path / "out", Corpus(source=(passages,)), section)
    assert len(done.passages) == 9 and len(done.train) == train
    assert {each.id: each.text for each in done.passages}[str(passage.get("id", "long"))] == passage["text"]
    if passage["text"] == SENTENCES:
        assert max(len(each.sentence_ends) for each in done.passages) == MANY


def test_the_same_passage_under_one_id_is_one_line_and_under_many_a_corpus(
    tmp_path: Path, tally: Tally
) -> None:
    tally.add(BAD_INPUTS, 2, of="large files")
    questions = lines(tmp_path / "q.jsonl", *ASKED)
    same = lines(tmp_path / "same.jsonl", *({"id": "s1", "text": SENTENCE} for _ in range(20_000)))
    found = inspected(same, questions)
    assert found.passages == 1 and found.problems.counts["passages whose id was used before"] == 19_999
    with pytest.raises(InputError, match=r"same.jsonl row 2: passage id 's1' was used before") as refused:
        Done(tmp_path / "out", Corpus(source=(same,)), Questions(source=(questions,)))
    check_line(refused.value)
    many = lines(tmp_path / "m.jsonl", *({"id": f"s{n}", "text": SENTENCE} for n in range(20_000)))
    assert inspected(many, questions).passages == 20_000
    section = Questions(source=(questions,), dev_share=0.25)
    assert len(Done(tmp_path / "many", Corpus(source=(many,)), section).ids) == 20_000


CORPORA: Mapping[str, list[dict[str, str]]] = {
    "long": [
        {"id": "long", "text": LONG},
        {"id": "titled", "title": LONG, "text": "A tower."},
        {"id": "sentences", "text": SENTENCES},
        *OTHERS,
    ],
    "two texts": [
        {"id": f"s{n}", "text": SENTENCE + ("It is old.", "It is new.")[n % 2]} for n in range(2000)
    ],
}


@pytest.mark.torture
@pytest.mark.parametrize("name", CORPORA)
def test_a_training_and_a_search_over_them_end_well(name: str, tmp_path: Path, tally: Tally) -> None:
    tally.add(BAD_INPUTS, of="large files")
    rows = CORPORA[name]
    gold = [row["id"] for row in rows[:8]]
    asked = [dict(QUESTION) | {"qid": f"q{n}", "positive_ids": [id_]} for n, id_ in enumerate(gold)]
    asked.append(dict(QUESTION) | {"question": LONG})
    new_database(tmp_path)
    overrides = {
        "corpus": {"source": [lines(tmp_path / "p.jsonl", *rows)], "shards": 1},
        "questions": {key: lines(tmp_path / f"{key}.jsonl", *asked) for key in ("source", "dev_source")},
        "bm25": {"depth": 5},
        "model": {"base": str(tiny_bert(tmp_path / "base", width=32)), "views": 4, "passage_length": 64},
        "train": {"batch_size": 4, "max_steps": 2, "rounds": 1, "warmup_steps": None},
        "evaluation": {"depth": 5, "analyses": []},
    }
    store = LocalStore(tmp_path / "store")
    records = run_plan(Request.make("training", overrides).plan, store)
    (index,) = [record for made in records.values() for kind, record in made.items() if kind == names.INDEX]
    retriever = multiview.load(f"{store.url}/{index.folder}")
    for hits in retriever.search([ASKS, LONG], k=5):
        assert len({hit.id for hit in hits}) == 5
        if name == "two texts":
            assert len({hit.score for hit in hits}) == 1
