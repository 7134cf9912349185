"""The evaluation of rankings, by hand, by other tools and of real models."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Bm25, Config, Corpus, Evaluation, Questions
from multiview.data.answers import has_answer
from multiview.data.queries import FILE
from multiview.data.questions import Question, relevance
from multiview.errors import InputError
from multiview.evaluation.evaluate import best_ranks_of, evaluate, evaluate_bm25, ranks_of, write_evaluation
from multiview.evaluation.top_hits import HitViews, write_top_hits
from multiview.index.bm25 import Bm25Index
from multiview.index.ranking import TopPassages
from multiview.steps.context import StepContext
from multiview.steps.events import Events
from tests.fixtures.artifacts import passage, question, questions_folder, write_passages
from tests.fixtures.by_trec import by_trec, read_qrels, read_trec_run
from tests.fixtures.cjk_files import ARTICLES, squad_file
from tests.fixtures.events import RecordedEvents
from tests.fixtures.retrieval_run import SETTINGS, scores_by_plain_formula
from tests.fixtures.split_run import Done
from tests.fixtures.written_queries import write_queries


def measured(passages: Path, folder: Path, events: Events | None = None, **evaluation: Any) -> StepContext:
    """The context of a step that writes an evaluation into `folder`."""
    settings = Config(evaluation=Evaluation(**evaluation))
    inputs, outputs = {"passages": LocalArtifact(passages, "")}, {"evaluation": folder}
    return StepContext(settings, inputs, outputs, events or RecordedEvents())


def by_bm25(folder: Path, settings: Config, **inputs: Path) -> Path:
    """A folder with the evaluation of BM25 on what some folders hold."""
    staged = {name: LocalArtifact(path, name) for name, path in inputs.items()}
    (out := folder / "evaluation").mkdir()
    evaluate_bm25(StepContext(settings, staged, {"evaluation": out}, RecordedEvents()))
    return out


def test_other_tools_find_our_figures_in_the_files(tmp_path):
    """Scores do not tie. Three questions of twelve: one without gold, one without results."""
    rng = np.random.default_rng(0)
    passages = [passage(f"p{i}", f"text {i}") for i in range(40)]
    questions = []
    for i in range(12):
        drawn = rng.choice(40, 4, replace=False).tolist() if i else []
        grades = {f"p{number}": int(rng.integers(1, 4)) for number in drawn}
        questions.append(Question(f"q {i}", "?", ("text 1",), None, tuple(grades), relevance(grades)))
    top = TopPassages.empty(12, 20)
    for row in range(11):
        top.passages[row] = rng.permutation(40)[:20]
        top.scores[row] = np.sort(rng.random(20).astype(np.float32))[::-1]
    folder = write_passages(tmp_path / "passages", passages)
    (tmp_path / "out").mkdir()
    ids = pa.array([p.id for p in passages])
    context = measured(folder, tmp_path / "out", depth=20, at=(1, 5))
    write_evaluation(context, top, ids, questions)
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    for name, measure in {
        "ndcg_at_10": ir_measures.nDCG @ 10,
        "mrr_at_10": ir_measures.RR @ 10,
        "recall_at_5": ir_measures.R @ 5,
    }.items():
        assert 0 < metrics[name] == pytest.approx(by_trec(tmp_path / "out", measure), abs=1e-6), name
    table = pq.read_table(tmp_path / "out" / "questions.parquet")
    for name, mean in metrics.items():
        values = [value for value in table.column(name).to_pylist() if value is not None]
        assert len(values) == (12 if name.startswith("accuracy") else 11)
        assert mean == pytest.approx(sum(values) / len(values), abs=1e-12)


def test_an_evaluation_by_hand(tmp_path):
    """Four questions over five passages; p4 holds q0's answer only in its title, which is not searched."""
    texts = {"p0": "red fox", "p1": "blue whale", "p2": "a red car", "p3": "green tea"}
    passages = [passage(id_, text) for id_, text in texts.items()] + [passage("p4", "nothing", "red")]
    folder = write_passages(tmp_path / "passages", passages, shards=2)
    questions = [
        question("q0", "?", ["red"], ["p2"]),
        question("q1", "?", ["tea"], ["p3"]),
        question("q2", "?", ["blue"], ["p1", "p4"]),
        question("q3", "?", ["zebra"], ["p0"]),
    ]
    ranked = np.array([[4, 0, 2], [0, 1, 3], [4, 1, -1], [-1, -1, -1]])
    scores = np.where(ranked < 0, -np.inf, [[3.0, 2.0, 1.0]]).astype(np.float32)
    top = TopPassages(ranked, scores, np.where(ranked < 0, -1, 5).astype(np.int32))
    ids = pa.array([p.id for p in passages])

    def views_of(rows, numbers):
        """Six views per passage, of which the last wins and stands for a part of the text in two questions."""
        spans = [(0, 3), (2, 7), None, None]
        return [
            [HitViews([0.0] * 5 + [1.0], [None] * 5 + [spans[row]]) for number in found if number >= 0]
            for row, found in zip(rows, numbers, strict=True)
        ]

    def write(name):
        (tmp_path / name).mkdir()
        events = RecordedEvents()
        context = measured(folder, tmp_path / name, events, depth=3, at=(1, 2, 3, 100))
        write_evaluation(context, top, ids, questions, find_views=views_of)
        return tmp_path / name, events

    out, events = write("one")
    # First answers: p0 at 2, p3 at 3, p1 at 2, none. Gold: p2 at 3, p3 at 3, p4 at 1 and p1 at 2, none.
    expected = {"accuracy_at_1": 0.0, "accuracy_at_2": 0.5, "accuracy_at_3": 0.75}
    expected |= {"recall_at_1": 0.5 / 4, "recall_at_2": 1 / 4, "recall_at_3": 3 / 4}
    metrics = json.loads((out / "metrics.json").read_text())
    assert metrics == pytest.approx(expected)  # nothing at 100, beyond the depth
    assert {name: value for name, value, _ in events.metrics} == metrics
    table = pq.read_table(out / "questions.parquet")
    assert table.column("recall_at_2").to_pylist() == [0, 0, 1, 0]
    assert table.column("accuracy_at_2").to_pylist() == [1, 0, 1, 0]
    rows = table.drop_columns(list(metrics))
    assert rows.column_names == [
        *("qid", "rank_of_first_answer", "rank_of_first_gold"),
        *("top_passage_id", "top_score", "top_view", "top_start", "top_stop"),
    ]
    assert [list(row.values()) for row in rows.to_pylist()] == [
        ["q0", 2, 3, "p4", 3.0, 5, 0, 3],
        ["q1", 3, 3, "p0", 3.0, 5, 2, 7],
        ["q2", 2, 1, "p4", 3.0, 5, None, None],
        ["q3", *[None] * 7],
    ]
    assert list(read_trec_run(out / "run.trec")) == ["q0", "q1", "q2"]
    assert read_qrels(out / "qrels.trec")["q2"] == {"p1": 1, "p4": 1}
    again, _ = write("two")
    for file in out.iterdir():
        assert file.read_bytes() == (again / file.name).read_bytes()


def test_evaluation_of_a_model(retrieval):
    out, events = retrieval.run("evaluation", evaluate)
    run = read_trec_run(out / "run.trec")
    plain = scores_by_plain_formula(retrieval)
    texts = {p.id: p.text for p in retrieval.passages}
    first = []
    for q in retrieval.questions:
        ranking = run[q.qid]
        assert len(ranking) == 20
        scores = [score for _, score in ranking]
        np.testing.assert_allclose(scores, [plain[q.qid][name] for name, _ in ranking], rtol=1e-4)
        np.testing.assert_allclose(scores, sorted(plain[q.qid].values())[::-1][:20], rtol=1e-4)
        first.append([has_answer(texts[name], q.answers) for name, _ in ranking])
    metrics = json.loads((out / "metrics.json").read_text())
    counted = {f"{m}_at_{k}" for m in ("accuracy", "recall") for k in (1, 5, 20)}
    assert set(metrics) == counted | {"mrr_at_10", "ndcg_at_10"}
    for k in (1, 5, 20):
        assert metrics[f"accuracy_at_{k}"] == pytest.approx(np.mean([any(row[:k]) for row in first]))
    assert events.facts["search_seconds_per_question"] > 0


def test_doct5query_is_bm25_over_passages_with_their_queries_appended(tmp_path):
    passages = [
        passage("p0", "Coffee keeps people awake.", "Coffee"),
        passage("p1", "Tea keeps people awake too.", "Tea"),
        passage("p2", "Rust is a language.", "Rust"),
    ]
    drawn = [("p0", ("beans", "beans")), ("p1", ("leaves beans water",)), ("p2", ())]
    (tmp_path / "queries").mkdir()
    write_queries(drawn, tmp_path / "queries" / FILE)
    asked = [
        question("q0", "beans?", ["beans"], ["p0"]),
        question("q1", "leaves", ["tea"], ["p1"]),
        question("q2", "awake", ["awake"], ["p0"]),
        question("q3", "rust", ["language"], ["p2"]),
    ]
    folder, given = (
        write_passages(tmp_path / "passages", passages),
        questions_folder(tmp_path / "asked", asked),
    )
    out = by_bm25(tmp_path, SETTINGS, passages=folder, questions=given, queries=tmp_path / "queries")
    found = read_trec_run(out / "run.trec")
    texts = [replace(p, text=f"{p.text} {' '.join(dict(drawn)[p.id])}") for p in passages]
    index = Bm25Index.of(texts, Bm25(), "english")
    top = index.search([each.question for each in asked], 3)
    for row, each in enumerate(asked):
        rows = [number for number in top.passages[row].tolist() if number >= 0]
        assert [name for name, _ in found[each.qid]] == [f"p{number}" for number in rows]
        assert [score for _, score in found[each.qid]] == pytest.approx(top.scores[row, : len(rows)].tolist())
    assert [name for name, _ in found["q0"]] == ["p0", "p1"], "a query that was drawn twice counts twice"
    assert [name for name, _ in found["q1"]] == ["p1"], "by a query's word alone"
    assert (out / "run.trec").read_text().splitlines()[0].endswith("doct5query")
    rows = pq.read_table(out / "questions.parquet").to_pylist()
    assert [row["rank_of_first_answer"] for row in rows] == [None, 1, 1, 1], "a query holds no answer"
    assert [row["rank_of_first_gold"] for row in rows] == [1, 1, 1, 1]


@pytest.mark.parametrize("language", sorted(ARTICLES))
def test_bm25_and_answers_without_spaces_between_words(tmp_path, language):
    """Each question finds its passage, and its answer there; by English rules none does."""
    file = squad_file(tmp_path / "dev.json", language)
    found = {}
    for setting in (language, "english"):
        corpus = Corpus(language=setting, shards=1)
        done = Done(tmp_path / setting, corpus, Questions(source=(file,), dev_source=(file,)))
        chosen = Config(corpus=corpus, evaluation=Evaluation(at=(1, 3), depth=3))
        passages, questions = (done.output[name] for name in ("passages", "dev_questions"))
        out = by_bm25(tmp_path / setting, chosen, passages=passages, questions=questions)
        found[setting] = json.loads((out / "metrics.json").read_text())
    assert found[language]["recall_at_1"] == found[language]["accuracy_at_1"] == 1
    assert found["english"]["accuracy_at_1"] < 0.5


def test_no_questions_is_an_error_that_names_the_way_out(retrieval):
    none = LocalArtifact(questions_folder(retrieval.folder / "none", []), "none")
    with pytest.raises(InputError, match=r"no questions .*dev_source"):
        retrieval.run("evaluation", evaluate_bm25, questions=none)


@pytest.mark.parametrize("last", ["tea", "tea|leaves"])
def test_a_run_says_that_what_it_found_holds_no_answer_at_all(last, tmp_path):
    """As where each cell of answers is one glued text: every accuracy is 0, whatever the retriever."""
    folder = write_passages(tmp_path / "passages", [passage("p0", "red fox"), passage("p1", "green tea")])
    questions = [question("q0", "?", ["red|fox"], []), question("q1", "?", [last], [])]
    top = TopPassages(np.array([[0, 1]] * 2), np.ones((2, 2), np.float32), np.zeros((2, 2), np.int32))
    (tmp_path / "out").mkdir()
    events = RecordedEvents()
    context = measured(folder, tmp_path / "out", events, depth=2)
    write_evaluation(context, top, pa.array(["p0", "p1"]), questions)
    line = "no passage among the first 2 of any question holds an answer (first: 'red|fox')"
    assert [warning.startswith(line) for warning in events.warnings] == [True] * (last == "tea|leaves")
    nothing = RecordedEvents()
    context = measured(folder, tmp_path / "out", nothing, depth=2)
    write_evaluation(context, TopPassages.empty(2, 2), pa.array([], pa.string()), questions)
    assert not nothing.warnings  # as of a first refresh, which has no champion


def test_bm25_on_squad_reaches_the_figures_measured_for_it(tmp_path):
    """Dev questions over all passages: top-5 0.895 by answer and 0.872 by gold passage, top-20 0.952 and 0.936."""
    data = Path(os.environ.get("MULTIVIEW_DATA", Path(__file__).parents[3] / "shared" / "data")) / "squad"
    if not (data / "dev.parquet").is_file():
        pytest.skip("no SQuAD: set MULTIVIEW_DATA to the folder that holds squad/")
    table = pq.read_table(data / "passages.parquet", columns=["id", "title", "text"])
    ends = pa.array([[len(text)] for text in table["text"].to_pylist()], pa.list_(pa.int32()))
    table = table.append_column("sentence_ends", ends).append_column("content_hash", table["id"])
    (tmp_path / "passages").mkdir()
    pq.write_table(table, tmp_path / "passages" / "shard-00.parquet")
    rows = pq.read_table(data / "dev.parquet").to_pylist()[::35]
    questions = [question(r["qid"], r["question"], r["answers"], [r["positive_passage_id"]]) for r in rows]
    asked = questions_folder(tmp_path / "questions", questions)
    settings = Config.partial(vars(SETTINGS) | {"evaluation": Evaluation()})
    out = by_bm25(tmp_path, settings, passages=tmp_path / "passages", questions=asked)
    metrics = json.loads((out / "metrics.json").read_text())
    measured = {"accuracy_at_5": 0.895, "accuracy_at_20": 0.952, "accuracy_at_100": 0.98}
    measured |= {"recall_at_5": 0.872, "recall_at_20": 0.936, "recall_at_100": 0.971}
    for name, value in measured.items():
        # 303 of 10,570 questions (standard error 0.02 at top-5), and our stemmer and stop words.
        assert metrics[name] == pytest.approx(value, abs=0.05), name


def test_a_gold_passage_counts_for_a_question_whose_answer_no_passage_holds(tmp_path):
    """Of yes or no: what wins against a baseline needs an answer, what must be found is a gold or answer-holding passage."""
    columns = {
        "rank_of_first_answer": [None, 4, None, 2],
        "rank_of_first_gold": [1, 2, None, None],
        "accuracy_at_1": [0.0, 0.0, 0.0, None],
    }
    kinds = [pa.int32(), pa.int32(), pa.float64()]
    arrays = [pa.array(values, kind) for values, kind in zip(columns.values(), kinds, strict=True)]
    pq.write_table(pa.table(arrays, names=list(columns)), tmp_path / "questions.parquet")
    assert best_ranks_of(tmp_path).tolist() == [1, 2, np.inf, 2]
    assert ranks_of(tmp_path).tolist() == [np.inf, 4, np.inf, np.inf]


def test_a_passage_without_views_that_bm25_found_has_no_winner(tmp_path):
    top = TopPassages(np.array([[1, 0]]), np.ones((1, 2), np.float32), np.array([[-1, 0]], np.int32))
    views = [[HitViews((), ()), HitViews((0.5,), ((3, 7),))]]
    none, asked = np.zeros((1, 2), bool), [question("q", "who?", [], ["a"])]
    file = tmp_path / "best.parquet"
    spans = write_top_hits(file, top, pa.array(["a", "b"]), none, none, asked, lambda *_: views)
    assert spans == [None] and pq.read_table(file)["view"].to_pylist() == [None, 0]
