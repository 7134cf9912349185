"""The step make-questions: the round trip, what is held out, and systems trained without a label."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from multiview import load, names
from multiview.artifacts.staging import LocalArtifact
from multiview.artifacts.store import LocalStore
from multiview.config import Config, MakeQuestions, Questions
from multiview.config.data import Bm25
from multiview.config.overrides import gather, merge
from multiview.config.section import Section
from multiview.data.passages import Passage, PassageLookup
from multiview.data.question_selection import limited
from multiview.data.questions import FILE, GENERATED, Question, read_questions
from multiview.data.reading.readers import read_all_questions
from multiview.errors import InputError, Report
from multiview.generation import make_questions as module
from multiview.generation.make_questions import make_questions
from multiview.index.bm25 import Bm25Index
from multiview.plans.plan import Plan
from multiview.plans.system import training
from multiview.steps.context import StepContext
from multiview.steps.events import read_metrics
from tests.fixtures.artifacts import questions_folder, write_passages
from tests.fixtures.chat_server import ChatServer, chat_server
from tests.fixtures.events import RecordedEvents
from tests.fixtures.inprocess import Records, run_plan
from tests.fixtures.project import Project
from tests.fixtures.tiny import tiny_t5

WORDS = ["tower", "river", "battle", "violin", "oxygen", "harbour", "poet", "bridge", "comet", "garden"]
PASSAGES = [
    Passage(f"p{number:02d}", "", f"The {word} number{number} stood here. All of it is old.", (30, 51))
    for number, word in enumerate(WORDS * 4)
]
GOOD = [
    Question(f"{GENERATED}{p.id}:0", f"number{number}", ("stood here",), None, (p.id,))
    for number, p in enumerate(PASSAGES)
]
LOST = [
    Question(f"{GENERATED}{p.id}:30", "All of it is old", ("All of it is old.",), None, (p.id,))
    for p in PASSAGES
]
"""Questions that every passage answers: BM25 finds the passages with the smallest ids."""


class Made:
    """What the step makes of drafts in two shards."""

    def __init__(self, folder: Path, drafts: list[Question], made: Any = None, **asked: Any) -> None:
        for name in ("train", "dev"):
            (folder / name).mkdir(parents=True)
        middle = len(drafts) // 2
        parts = [
            LocalArtifact(questions_folder(folder / f"drafts-{number}", part), "")
            for number, part in enumerate((drafts[:middle], drafts[middle:]))
        ]
        passages = LocalArtifact(write_passages(folder / "passages", PASSAGES, shards=2), "")
        sections: dict[str, Section] = {
            "make_questions": MakeQuestions(**(made or {})),
            "questions": Questions(**{"origin": "crop", **asked}),
            "bm25": Bm25(),
        }
        corpus = {"corpus": Config().corpus}
        self.events = RecordedEvents()
        make_questions(
            StepContext(
                Config.partial({**sections, **corpus}),
                {"passages": passages, "drafts": parts},
                {names.TRAIN_QUESTIONS: folder / "train", names.DEV_QUESTIONS: folder / "dev"},
                self.events,
            )
        )
        self.train, self.dev = read_questions(folder / "train"), read_questions(folder / "dev")


def test_training_questions_are_those_with_which_bm25_finds_their_passage(tmp_path: Path) -> None:
    made = Made(tmp_path, [*GOOD, *LOST], {"found_within": 3})
    index = Bm25Index.of(PASSAGES, Bm25())
    dev_passages = {question.positive_ids[0] for question in made.dev}
    asked = {question.question for question in made.dev}
    expected = []
    for question in (*GOOD, *LOST):
        top = index.search([question.question], 3).passages[0]
        found = {index.ids[row].as_py() for row in top if row >= 0}
        held_out = question.positive_ids[0] in dev_passages or question.question in asked
        if question.positive_ids[0] in found and not held_out:
            expected.append(question)
    assert made.train == expected
    assert set(GOOD) & set(made.train) and not set(LOST) & set(made.train), "dev asks what the lost ones ask"
    assert len(made.train) < len(GOOD) + len(LOST) - len(made.dev), "some are filtered"
    assert made.events.facts["generated"] == "crop"
    assert made.events.facts["train_questions"] == len(made.train)


def test_without_a_round_trip_all_are_kept_but_what_dev_questions_ask(tmp_path: Path) -> None:
    made = Made(tmp_path, [*GOOD, *LOST], {"found_within": None})
    asked = {question.question for question in made.dev}
    left_out = {*GOOD, *LOST} - {*made.train, *made.dev}
    assert set(GOOD) <= {*made.train, *made.dev} and all(q.question in asked for q in left_out)


def test_dev_questions_are_about_other_passages_and_are_not_filtered(tmp_path: Path) -> None:
    made = Made(tmp_path, [*GOOD, *LOST], {"found_within": 1}, dev_share=0.3)
    train, dev = ({q.positive_ids[0] for q in questions} for questions in (made.train, made.dev))
    assert not train & dev and len(dev) == round(0.3 * len(PASSAGES))
    assert [q for q in LOST if q.positive_ids[0] in dev] == [q for q in made.dev if q in LOST]
    limited_dev = Made(tmp_path / "limited", [*GOOD, *LOST], dev_share=0.3, dev_limit=5)
    assert len(limited_dev.dev) == 5 and set(limited_dev.dev) < set(made.dev)


def test_a_limit_draws_from_all_kept_questions_and_searches_for_no_more_than_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DRAFTS_AT_ONCE", 4)
    drafts = [*GOOD, *LOST]
    whole = Made(tmp_path / "whole", drafts, {"found_within": 2})
    few = Made(tmp_path / "few", drafts, {"found_within": 2}, limit=7)
    assert few.train == limited(whole.train, 7, 0) and len(few.train) == 7
    assert few.events.facts["searched_questions"] < whole.events.facts["searched_questions"]


def test_one_per_passage_holds_for_made_questions(tmp_path: Path) -> None:
    made = Made(tmp_path, [*GOOD, *LOST], {"found_within": None}, one_per_passage=True)
    assert len({q.positive_ids for q in made.train}) == len(made.train) < len(GOOD)


def test_nothing_to_train_on_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="make_questions: 0 questions drafted, 0 without repeats, about fewer than two"
    ):
        Made(tmp_path / "none", [])
    lost = [q for q in LOST if q.positive_ids[0] > "p05"]
    with pytest.raises(InputError, match="make_questions.found_within=1: the passage of none of"):
        Made(tmp_path / "lost", lost, {"found_within": 1})


def test_of_questions_of_a_language_model_with_the_same_words_one_is_kept(tmp_path: Path) -> None:
    same = [replace(q, question=f"Where: stood  {q.question.upper()}?") for q in GOOD[:6]]
    drafts = [
        *(replace(q, qid=f"{q.qid}:1") for q in same),
        *GOOD,
        *(replace(q, question="Where stood?") for q in LOST),
    ]
    first = replace(GOOD[3], question="where stood number3")
    made = Made(tmp_path / "llm", [*drafts, first], {"found_within": None}, origin="llm")
    assert sorted(q.qid for q in (*made.train, *made.dev)) == sorted(
        [
            first.qid,
            LOST[0].qid,
            *(q.qid for q in GOOD),
            *(f"{q.qid}:1" for q in same if q.positive_ids != ("p03",)),
        ]
    )
    assert made.events.facts["repeated_questions"] == len(LOST)
    assert made.events.facts["generated"] == "llm"


@pytest.fixture
def chat() -> Iterator[ChatServer]:
    with chat_server() as server:
        yield server


@pytest.mark.parametrize("origin", ["crop", "generator", "llm"])
def test_questions_are_made_and_camvr_trains_by_their_answers_and_is_evaluated_without_a_label(
    tmp_path: Path, chat: ChatServer, origin: str
) -> None:
    project = Project.make(tmp_path)
    settings = merge(
        gather(str(project.folder / "tiny.yaml"), []),
        {
            "questions": {"origin": origin, "source": [], "dev_source": [], "limit": 24, "dev_limit": 8},
            "make_questions": {
                "found_within": 20 if origin == "crop" else None,
                "llm": {"model": "m", "base_url": chat.url},
            },
            "generation": {"model": str(tiny_t5(tmp_path / "t5")), "max_length": 12},
            "model": {"architecture": "camvr"},
            "train": {"rounds": 1, "max_steps": 3},
        },
    )
    store, plan = LocalStore(tmp_path / "store"), training(settings)
    if origin != "crop":  # which goes on to a model and its evaluation
        nodes = {path: node for path, node in plan.nodes.items() if not str(path).startswith("camvr")}
        plan = Plan(plan.name, nodes=nodes)
    records = run_plan(plan, store)
    made = records["make-questions"]
    train, dev = (
        read_questions(store.root / made[kind].data) for kind in (names.TRAIN_QUESTIONS, names.DEV_QUESTIONS)
    )
    assert made[names.TRAIN_QUESTIONS].facts["generated"] == origin
    assert len(train) == 24 and len(dev) == 8
    lookup = PassageLookup(store.root / records["split"]["passages"].data)
    gold = lookup.passages([q.positive_ids[0] for q in (*train, *dev)])
    for question in (*train, *dev):
        assert question.answer_starts is not None
        (start,), (answer,) = question.answer_starts, question.answers
        assert gold[question.positive_ids[0]].text[start:].startswith(answer)

    asked = len(chat.asked)
    assert bool(asked) == (origin == "llm")
    assert run_plan(plan, store) == records and len(chat.asked) == asked
    file = str(store.root / made[names.DEV_QUESTIONS].data / FILE)
    named = read_all_questions(Questions(dev_source=(file,)), Report())[1]
    assert named == dev, "they can be named as questions.dev_source"
    if origin == "crop":
        events = list(read_metrics(store, records["camvr/round-1/train"]["model"].data))
        fallback = [event.value for event in events if event.name == "fallback_share"]
        assert fallback and set(fallback) == {0.0}, "every question has the view of its answer"
        evaluation = records["camvr/round-1/evaluate"]["evaluation"]
        found = json.loads((store.root / evaluation.data / names.ANALYSES / "metrics.json").read_text())
        assert found["training_answers_offset"] == 1.0 and evaluation.facts["questions"] == 8


def test_an_index_must_find_the_passage_too_asked_as_any_search_asks_it(tmp_path: Path) -> None:
    """With questions of a length of its own, which the index says."""
    project, store = Project.make(tmp_path), LocalStore(tmp_path / "store")

    tiny = gather(str(project.folder / "tiny.yaml"), [])

    def made(length: int | None = None, corpus: Any = None, **more: Any) -> Records:
        settings = {
            "corpus": corpus or {},
            "questions": {"origin": "crop", "source": [], "dev_source": [], "limit": None},
            "make_questions": {"found_within": 3, **more},
            "model": {"architecture": "camvr"},
            "train": {"rounds": 0},
            "encode": {"question_length": length},
            "evaluation": {"analyses": []},
        }
        return run_plan(training(merge(tiny, settings)), store)

    records = made(8)
    by_bm25 = read_questions(store.root / records["make-questions"][names.TRAIN_QUESTIONS].data)
    address = f"{store.url}/{records['camvr/round-0/index'][names.INDEX].folder}"
    both = made(found_by=address)["make-questions"][names.TRAIN_QUESTIONS]
    by_both = read_questions(store.root / both.data)
    found = load(address).search([question.question for question in by_bm25], 3)
    pairs = zip(by_bm25, found, strict=True)
    assert by_both == [q for q, hits in pairs if q.positive_ids[0] in [hit.id for hit in hits]]
    assert 0 < len(by_both) < len(by_bm25)
    newer = tmp_path / "newer.jsonl"
    newer.write_text(
        '{"id": "n", "title": "", "text": "A copper bell was cast for the northern tower that year."}\n'
    )
    with pytest.raises(
        InputError, match="found_by: this index lacks the passages of [1-9].* of this very corpus"
    ):
        made(found_by=address, corpus={"source": [*tiny["corpus"]["source"], str(newer)]})
    with pytest.raises(InputError, match="found_by needs make_questions.found_within"):
        made(found_by=address, found_within=None)
    passages = f"{store.url}/{records['split'][names.PASSAGES].folder}"
    with pytest.raises(InputError, match="found_by: .* is the address of passages, not of an index"):
        made(found_by=passages)
