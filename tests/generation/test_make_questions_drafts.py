"""Questions drafted from snippets: where they come from, and that neither shards nor order matter."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Corpus, Encode, Generation, MakeQuestions
from multiview.data import queries
from multiview.data.passages import Passage
from multiview.data.questions import FILE, GENERATED, Question, read_questions
from multiview.generation import make_questions
from multiview.generation.generate import QueryGenerator
from multiview.generation.make_questions import (
    crop,
    crop_questions,
    draw_snippets,
    generate_questions,
    write_drafts,
)
from multiview.model.layouts.snippets import split_snippets
from multiview.steps.checkpoints import NO_CHECKPOINTS, Checkpoints
from multiview.steps.context import StepContext
from tests.fixtures import training_material
from tests.fixtures.checkpoints import KeptCheckpoints
from tests.fixtures.events import RecordedEvents
from tests.fixtures.tiny import tiny_t5

PASSAGES = [training_material.passage(number) for number in range(24)]
BY_ID = {passage.id: passage for passage in PASSAGES}
GENERATION = Generation(max_length=8, batch_size=4)
BLANK = Passage("blank", "Title", "  \n", (3,))


def context(
    passages: LocalArtifact, output: Path, checkpoints: Checkpoints = NO_CHECKPOINTS, **made: Any
) -> StepContext:
    """The context of a crop; `made` are settings of make_questions, and `generation` those of a generator."""
    output.mkdir()
    generation = {"generation": made.pop("generation")} if "generation" in made else {}
    inputs = {"passages": passages, **({"generator": made.pop("generator")} if generation else {})}
    chosen = Config.partial(
        {
            "encode": Encode(),
            "make_questions": MakeQuestions(**made),
            "corpus": Corpus.partial({"language": "english"}),
            **generation,
        }
    )
    return StepContext(chosen, inputs, {"drafts": output}, RecordedEvents(), checkpoints)


def cropped(folder: Path, passages: Sequence[Passage], **made: Any) -> list[Question]:
    output = folder / "drafts"
    crop_questions(context(training_material.write_shard(folder / "passages", passages), output, **made))
    return read_questions(output)


@given(
    order=st.permutations(range(len(PASSAGES))),
    cuts=st.sets(st.integers(1, len(PASSAGES) - 1), max_size=3),
    seed=st.integers(0, 3),
    share=st.sampled_from([0.4, 1.0]),
)
@settings(max_examples=15, deadline=None)
def test_drafts_depend_neither_on_the_order_nor_on_the_shards(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], cuts: set[int], seed: int, share: float
) -> None:
    made = {"seed": seed, "share": share}
    whole = cropped(tmp_path_factory.mktemp("whole"), PASSAGES, **made)
    edges = [0, *sorted(cuts), len(order)]
    parts = [
        question
        for start, stop in pairwise(edges)
        for question in cropped(
            tmp_path_factory.mktemp("part"), [PASSAGES[number] for number in order[start:stop]], **made
        )
    ]
    assert {question.qid: question for question in parts} == {question.qid: question for question in whole}
    assert len(parts) == len(whole) > 0
    if cuts and order == sorted(order):
        assert parts == whole


def test_an_answer_is_a_whole_snippet_at_its_offset_and_the_question_a_run_of_its_words(
    tmp_path: Path,
) -> None:
    questions = cropped(tmp_path, [*PASSAGES, BLANK], snippets=4)
    for question in questions:
        assert question.answer_starts is not None
        (answer,), (start,), (positive,) = question.answers, question.answer_starts, question.positive_ids
        passage = BY_ID[positive]
        assert question.qid.startswith(GENERATED) and passage.text[start:].startswith(answer)
        spans: list[tuple[int, int]] = []
        for n in range(1, 5):  # fewer views have coarser snippets, and each holds finer ones whole
            snippets = split_snippets(passage.title, passage.text, passage.sentence_ends, n)
            spans = [snippet.span for snippet in snippets if snippet.span]
            assert sum(first <= start and start + len(answer) <= stop for first, stop in spans) == 1
        texts = [passage.text[slice(*span)].strip() for span in spans]
        assert answer in texts, "the snippets of n = 4"
        assert 4 <= len(question.question.split()) <= 10
        assert f" {question.question} " in f" {' '.join(answer.split())} "
    assert len({question.qid for question in questions}) == len(questions) > len(PASSAGES)


def test_every_length_and_every_place_of_a_crop_occurs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_questions, "LONGEST_CROP", 6)
    words = [f"w{number}" for number in range(6)]
    passage = Passage("p", "", " ".join(words), (len(" ".join(words)),))
    (snippet,) = draw_snippets(passage, MakeQuestions())
    found = {crop(snippet, MakeQuestions(seed=seed)) for seed in range(400)}
    runs = {" ".join(words[i : i + n]) for n in (4, 5, 6) for i in range(len(words) - n + 1)}
    assert found == runs


def test_snippets_with_few_words_and_titles_are_not_drawn() -> None:
    passage = Passage("p", "A long title of six words", "Yes. The tower was built by the king. ", (5, 38))
    settings = MakeQuestions(per_passage=8)
    assert [snippet.text for snippet in draw_snippets(passage, settings, 2)] == [
        "The tower was built by the king."
    ]
    assert draw_snippets(BLANK, settings) == []


def test_per_passage_draws_different_snippets_and_a_larger_share_draws_more_passages() -> None:
    def drawn(**made: Any) -> set[str]:
        return {
            snippet.name for passage in PASSAGES for snippet in draw_snippets(passage, MakeQuestions(**made))
        }

    assert all(len(draw_snippets(passage, MakeQuestions(per_passage=3))) <= 3 for passage in PASSAGES)
    assert drawn(per_passage=1) < drawn(per_passage=2) < drawn(per_passage=8)
    assert drawn(seed=0, per_passage=1) != drawn(seed=1, per_passage=1)
    few, more = drawn(share=0.2), drawn(share=0.6)
    assert set() < few < more < drawn()


def test_a_snippet_without_a_question_has_no_draft(tmp_path: Path) -> None:
    made = context(training_material.write_shard(tmp_path / "passages", PASSAGES[:2]), tmp_path / "drafts")
    write_drafts(made, lambda snippets: ((n, "" if n else "what?") for n in reversed(range(len(snippets)))))
    (draft,) = read_questions(tmp_path / "drafts")
    snippet = draw_snippets(PASSAGES[0], MakeQuestions())[0]
    assert (draft.qid, draft.question) == (f"{GENERATED}{snippet.name}", "what?")


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> LocalArtifact:
    return LocalArtifact(tiny_t5(tmp_path_factory.mktemp("t5")), "t5")


def test_a_generator_reads_the_snippet_in_place_of_the_passage(t5: LocalArtifact, tmp_path: Path) -> None:
    passages = training_material.write_shard(tmp_path / "passages", PASSAGES[:8])
    made: dict[str, Any] = {"generator": t5, "generation": GENERATION}
    generate_questions(context(passages, tmp_path / "drafts", **made))
    found = read_questions(tmp_path / "drafts")
    generator = QueryGenerator(t5.path, GENERATION.model_copy(update={"queries": 1}))
    expected = []
    for passage in PASSAGES[:8]:
        for snippet in draw_snippets(passage, MakeQuestions()):
            alone = Passage(snippet.name, passage.title, snippet.text, (len(snippet.text),))
            ((_, (text,)),) = generator.queries([alone])
            expected += [snippet.question(text)] if text else []
    assert found == expected and len(found) > 8


def test_a_killed_generation_continues_and_ends_with_the_same_bytes(
    t5: LocalArtifact, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make_questions, "ROW_GROUP", 5)
    monkeypatch.setattr(queries, "PARTS_PER_CHECKPOINT", 2)
    passages = training_material.write_shard(tmp_path / "passages", PASSAGES)
    made: dict[str, Any] = {"generator": t5, "generation": GENERATION}
    generate_questions(context(passages, tmp_path / "whole", **made))
    with pytest.raises(KeyboardInterrupt):
        generate_questions(
            context(passages, tmp_path / "killed", KeptCheckpoints(tmp_path / "kept", stop_after=4), **made)
        )
    asked: list[int] = []
    whole = QueryGenerator.queries

    def counted(self: QueryGenerator, passages: Sequence[Passage]) -> Any:
        asked.append(len(passages))
        return whole(self, passages)

    monkeypatch.setattr(QueryGenerator, "queries", counted)
    again = context(passages, tmp_path / "again", KeptCheckpoints(tmp_path / "kept"), **made)
    generate_questions(again)
    assert isinstance(events := again.events, RecordedEvents)
    assert events.steps[-1] == (len(PASSAGES), len(PASSAGES), "passages")
    assert events.facts["passages"] == len(PASSAGES)
    assert events.facts["questions"] == len(read_questions(tmp_path / "again"))
    assert (tmp_path / "again" / FILE).read_bytes() == (tmp_path / "whole" / FILE).read_bytes()
    parts = pq.ParquetFile(tmp_path / "whole" / FILE).metadata.num_row_groups
    assert 0 < len(asked) == parts - 4, "the parts of the checkpoint are not generated again"
