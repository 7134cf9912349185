"""The evaluate step with its analyses, and the files that it writes."""

import json
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.artifacts.record import Reference
from multiview.artifacts.staging import LocalArtifact
from multiview.artifacts.store import LocalStore
from multiview.config import Analysis, Evaluation
from multiview.config.overrides import validate
from multiview.data.passages import PassageLookup
from multiview.encoding.batches import CPU_TOKENS
from multiview.errors import InputError
from multiview.evaluation.analyses import analysis_input
from multiview.evaluation.analyses.analysis_input import Table
from multiview.evaluation.analyses.run import ANALYSES, SHOWN_ROWS, page
from multiview.evaluation.costs import TIMED_ALONE
from multiview.evaluation.evaluate import evaluate
from multiview.evaluation.tables import arrow_markdown
from multiview.index.ranker import Ranker
from multiview.index.view_index import ViewIndex
from multiview.model.encoder import BiEncoder
from multiview.model.layouts import LAYOUTS
from multiview.negatives.filters import AnswerHits
from multiview.refresh.champion import empty_corpus, empty_index
from multiview.steps.context import StepContext
from tests.fixtures.analysed_model import DEPTH, AnalysedModel, fresh_views
from tests.fixtures.artifacts import questions_folder, write_index
from tests.fixtures.events import RecordedEvents
from tests.fixtures.halves import Halves


def run(analysed, folder, **evaluation):
    folder.mkdir()
    events = RecordedEvents()
    evaluate(StepContext(analysed.settings(**evaluation), analysed.inputs, {"evaluation": folder}, events))
    return folder / "analyses", events


def test_every_analysis_has_a_name_in_the_settings():
    assert tuple(ANALYSES) == get_args(Analysis) == Evaluation().analyses


def test_an_approximate_index_is_analysed_by_its_stored_views(padded, tmp_path):
    """An approximate index that searches all of these few passages gives the exact results and analyses."""
    write_index(tmp_path / "index", padded.folder / "embeddings", kind="tiny")
    (exact, exact_events), (found, events) = (
        run(analysed, tmp_path / name, depth=30)
        for name, analysed in (("exact", padded), ("tiny", with_index(padded, tmp_path / "index")))
    )
    assert [name for name, _, _ in exact_events.metrics if name.startswith("index_recall")] == []
    assert [(name, value) for name, value, _ in events.metrics][:1] == [("index_recall_at_10", 1.0)]
    by_exact, by_approximate = (
        json.loads((folder / "metrics.json").read_text()) for folder in (exact, found)
    )
    assert by_approximate == pytest.approx(by_exact, abs=1e-6)
    for file in exact.glob("*.parquet"):
        assert pq.read_table(found / file.name).num_rows == pq.read_table(file).num_rows
    assert "analyses_left_out" not in events.facts


def with_index(analysed: AnalysedModel, folder: Path) -> AnalysedModel:
    other = copy(analysed)
    other.inputs = {**analysed.inputs, "index": replace(analysed.inputs["index"], path=folder)}
    return other


def test_the_champion_that_a_first_refresh_begins_with_has_no_analyses(padded, tmp_path):
    """An index without passages: every analysis is left out, with the reason. It has no first views either."""
    store = LocalStore(tmp_path / "store")
    model = Reference(address=f"{store.url}/model/m", digest=padded.inputs["model"].digest)
    corpus = empty_corpus(store)
    made = empty_index(
        store,
        model,
        Reference(address=f"{store.url}/{corpus.folder}", digest=corpus.digest),
        ViewIndex.load(padded.folder / "index").views.shape[1],
    )
    empty = with_index(padded, tmp_path / "store" / made.data)
    empty.inputs["passages"] = LocalArtifact(tmp_path / "store" / corpus.data, "passages")
    folder, events = run(empty, tmp_path / "evaluation", views=2)
    assert events.facts["analyses_left_out"] == dict.fromkeys(ANALYSES, "the index has no passages")
    assert json.loads((folder / "metrics.json").read_text()) == {}


def test_all_analyses_of_a_model(padded, tmp_path, monkeypatch):
    folder, events = run(padded, tmp_path / "one")
    tables = {name for name in ANALYSES if name != "speed"}
    written = {"metrics.json", "tables.md", *(f"{table}.parquet" for table in tables)}
    assert {file.name for file in folder.iterdir()} == written
    metrics = json.loads((folder / "metrics.json").read_text())
    logged = {name: value for name, value, _ in events.metrics}
    whole = {name: value for name, value in metrics.items() if "/" not in name}
    assert {name: logged.get(name) for name in whole} == whole
    assert not [name for name in logged if "/" in name], "views are in the tables"
    overall = json.loads((folder.parent / "metrics.json").read_text())
    assert not overall.keys() & metrics.keys(), "the comparison's table stays as it was"
    shown = {"accuracy_at_5/view_4", "attention_divergence", "lv_softmax", "view_ppl", "view_cosine", "avq"}
    assert shown <= metrics.keys()
    last = pq.read_table(folder / "each_view.parquet").to_pylist()[-1]
    assert last["view"] is None and last["accuracy_at_3"] == overall["accuracy_at_3"]
    parts = (metrics[f"accuracy_at_3/{part}_view{s}"] for part, s in (("answer", ""), ("other", "s")))
    assert sum(parts) == pytest.approx(overall["accuracy_at_3"])
    times = ("encode_milliseconds_per_passage", "search_milliseconds_per_question")
    alone = ("single_question_milliseconds", "single_search_milliseconds")
    assert all(events.facts[name] > 0 for name in (*times, *alone))
    assert "analyses_left_out" not in events.facts
    page = (folder / "tables.md").read_text()
    assert "\n## answer_view\n\nAccuracy by snippets" in page
    assert "| ---: | ---: | ---: | ---: |\n| 1 | 0." in page
    for analysis in ANALYSES.values():  # which speak to readers of the code
        monkeypatch.setattr(analysis, "__doc__", None)
    again, _ = run(padded, tmp_path / "two")
    for file in folder.iterdir():
        assert file.read_bytes() == (again / file.name).read_bytes(), file.name


def test_questions_are_timed_as_the_index_ranks_and_passages_in_the_batches_that_they_are_encoded_in(
    padded, tmp_path, monkeypatch
):
    """Questions all at once, as the evaluation asks, and alone."""
    asked, search, shapes, encode_passages = [], Ranker.search, set(), BiEncoder.encode_passages

    def searching(self, texts, *given, **more):
        asked.append(texts)
        return search(self, texts, *given, **more)

    def encoding(self, batch):
        shapes.add(tuple(batch["input_ids"].shape))
        return encode_passages(self, batch)

    monkeypatch.setattr("multiview.index.ranker.ranking", lambda header: "reranked")
    monkeypatch.setattr(Ranker, "search", searching)
    monkeypatch.setattr(BiEncoder, "encode_passages", encoding)
    _, events = run(padded, tmp_path / "one", analyses=("speed",))
    all_at_once, *alone = asked
    assert all_at_once == [question.question for question in padded.questions]
    assert {len(texts) for texts in alone} == {1} and {text for (text,) in alone} <= set(all_at_once)
    assert len(alone) == 2 * (1 + min(TIMED_ALONE, len(all_at_once)))
    seconds = events.facts["search_seconds_per_question"]
    assert events.facts["search_milliseconds_per_question"] == round(1000 * seconds, 3)
    assert shapes and {rows for rows, _ in shapes} != {1}
    assert all(rows == max(1, CPU_TOKENS // length) for rows, length in shapes)


def test_what_does_not_suit_one_view_is_left_out_and_said(dpr, tmp_path):
    folder, events = run(dpr, tmp_path / "one")
    assert {file.name for file in folder.iterdir()} == {
        "training_answers.parquet",
        "metrics.json",
        "tables.md",
    }
    left_out = {"each_view", "first_views", "answer_view", "attention", "variation", "usage", "cosine"}
    assert set(events.facts["analyses_left_out"]) == left_out
    assert all("view" in reason for reason in events.facts["analyses_left_out"].values())


def test_analyses_are_chosen_by_name(padded, tmp_path):
    folder, _ = run(padded, tmp_path / "one", analyses=("usage",))
    assert {file.name for file in folder.iterdir()} == {"usage.parquet", "metrics.json", "tables.md"}
    folder, events = run(padded, tmp_path / "none", analyses=())
    assert not folder.exists() and "encode_milliseconds_per_passage" not in events.facts
    with pytest.raises(InputError, match="evaluation.analyses"):
        validate({"evaluation": {"analyses": ["perplexity"]}})


def test_views_are_searched_once_and_texts_of_hits_read_once(padded, tmp_path, monkeypatch):
    """All rankings share a pass; a few questions are searched for again, because the time of their search is a fact."""
    passes, readings = [], []

    def counted(calls, function):
        return lambda *given, **options: calls.append(given) or function(*given, **options)

    monkeypatch.setattr(ViewIndex, "search_views", counted(passes, ViewIndex.search_views))
    monkeypatch.setattr(PassageLookup, "tables", counted(readings, PassageLookup.tables))
    monkeypatch.setattr(analysis_input, "TIMED", 2)
    run(padded, tmp_path / "one", analyses=("each_view", "first_views", "answer_view"))
    assert [(len(ranges), len(queries)) for _, ranges, queries, *_ in passes] == [
        (7, len(padded.questions)),
        (1, 2),
    ]
    assert [columns for _, _, columns in readings].count(["text"]) == 1


@pytest.mark.parametrize("kind", ["exact", "tiny"])
def test_a_shared_pass_finds_what_searches_find_one_by_one(padded, tmp_path, kind):
    """The whole index's passages, scores and views, and the rankings by some views; of an approximate index too."""
    write_index(tmp_path / "index", padded.folder / "embeddings", kind=kind)
    index = ViewIndex.load(tmp_path / "index")
    given = padded.subject(analyses=("each_view", "first_views"))
    given.index = index
    given.search()
    assert given.top.exact == index.exact == (kind == "exact")
    assert given.search_seconds > 0
    whole = index.search(given.queries, DEPTH)
    for name in ("passages", "scores", "winning_views"):
        np.testing.assert_array_equal(getattr(given.top, name), getattr(whole, name))
    assert list(given.rankings) == [(0, None), *((v, v + 1) for v in range(4)), (0, 2), (0, 3)]
    answers = AnswerHits(given.questions, index.ids, given.corpus, given.matching)
    for each, ranking in given.rankings.items():
        (alone,) = index.search_views([each], given.queries, DEPTH)
        np.testing.assert_array_equal(given._by_range.get(each, given.top.passages), alone.passages)
        np.testing.assert_array_equal(ranking.holds, answers.holds(alone.passages))
        np.testing.assert_array_equal(ranking.gold, given.positives.hits(alone.passages))


def test_data_without_training_questions_or_answers(camvr, tmp_path):
    bare = [replace(question, answers=(), answer_starts=None) for question in camvr.questions]
    inputs = {name: staged for name, staged in camvr.inputs.items() if name != "train_questions"}
    inputs["questions"] = LocalArtifact(questions_folder(tmp_path / "questions", bare), "bare")
    (tmp_path / "one").mkdir()
    events = RecordedEvents()
    evaluate(StepContext(camvr.settings(), inputs, {"evaluation": tmp_path / "one"}, events))
    left_out = {"training_answers", "answer_view"}
    assert set(events.facts["analyses_left_out"]) == left_out
    metrics = json.loads((tmp_path / "one" / "analyses" / "metrics.json").read_text())
    assert "recall_at_5/view_1" in metrics and "accuracy_at_5/view_1" not in metrics


def test_an_architecture_of_several_sequences(tmp_path, monkeypatch):
    """There is no attention between two sequences with a view each; all other analyses are as for any layout."""
    monkeypatch.setitem(LAYOUTS, Halves.name, Halves)
    analysed = AnalysedModel(tmp_path / "halves", architecture="halves", pooling="snippet", normalise=True)
    folder, events = run(analysed, tmp_path / "one")
    assert set(events.facts["analyses_left_out"]) == {"attention"}
    views, rows = fresh_views(analysed), pq.read_table(folder / "variation.parquet").to_pylist()
    asked = {question.qid: question for question in analysed.questions}
    queries = dict(zip(asked, analysed.subject().queries, strict=True))
    assert rows and {row["view"] for row in rows} == {1, 2}
    for row in rows:
        halves, _ = views[row["passage_id"]]
        assert row["passage_id"] == asked[row["qid"]].positive_ids[0] and row["views"] == len(halves) == 2
        assert row["view"] == 1 + (halves @ queries[row["qid"]]).argmax()


def test_tables_to_read():
    table = pa.table({"view": [1, None], "share": [0.5, 1.0], "group": ["a", "b"]})
    expected = "| view | share | group |\n| ---: | ---: | --- |\n| 1 | 0.500 | a |\n|  | 1.000 | b |\n"
    assert arrow_markdown(table) == expected
    long = pa.table({"view": range(SHOWN_ROWS + 1)})
    assert page({"usage": Table("Which wins.", table), "long": Table("All.", long)}) == (
        f"# Analyses\n\n## usage\n\nWhich wins.\n\n{expected}\n## long\n\nAll.\n\n{SHOWN_ROWS + 1} rows: `long.parquet`\n"
    )
