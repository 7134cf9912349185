"""The step `evaluate-queries`: generated queries beside the questions of the same passages."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Generation
from multiview.data.queries import FILE
from multiview.data.questions import Question
from multiview.generation.evaluate import evaluate_queries
from multiview.steps.context import StepContext
from tests.fixtures.events import RecordedEvents
from tests.fixtures.training_material import write_training_data
from tests.fixtures.written_queries import write_queries


def shard(folder: Path, rows: dict[str, tuple[str, ...]]) -> LocalArtifact:
    folder.mkdir()
    write_queries(rows.items(), folder / FILE)
    return LocalArtifact(folder, folder.name)


def test_the_step_measures_the_queries_of_gold_passages(tmp_path: Path) -> None:
    same = "what is the old bridge"
    shards = [
        shard(tmp_path / "a", {"p0": (same, same), "p1": ("who sang", "when was the war", "x y")}),
        shard(tmp_path / "b", {"p2": (), "p3": ("single query",), "unasked": ("no", "matter")}),
    ]
    gold = {"q0": "p0", "q1": "p1", "q2": "p1", "q3": "p2", "q4": "p3", "q5": None}
    texts = {"q0": "is the bridge old", "q1": "who sang", "q2": "when was the battle", "q4": "single"}
    questions = [
        Question(qid, texts.get(qid, "?"), ("x",), None, ("not in the corpus", name) if name else ())
        for qid, name in gold.items()
    ]
    inputs = {"queries": shards, **write_training_data(tmp_path, questions, {})}
    events, output = RecordedEvents(), tmp_path / "out"
    output.mkdir()
    chosen = Config.partial({"generation": Generation(queries=3)})
    evaluate_queries(StepContext(chosen, inputs, {"query_evaluation": output}, events))
    # q0: "is the bridge" of 4 and 5 words; q1: all at once; q2: nothing, then "when was the"; q4: 1 of 1 and 2.
    by_question = [[6 / 9] * 3, [1] * 3, [0, 6 / 8, 6 / 8], [2 / 3] * 3]
    table = pq.read_table(output / "questions.parquet").to_pydict()
    assert table["qid"] == ["q0", "q1", "q2", "q4"] and table["passage_id"] == ["p0", "p1", "p1", "p3"]
    assert np.array(table["rouge_l"]) == pytest.approx(np.array(by_question))
    assert table["self_bleu_4"] == [pytest.approx(1), 0, 0, None]
    metrics = json.loads((output / "metrics.json").read_text())
    means = np.mean(by_question, axis=0)
    assert metrics == pytest.approx(
        {**{f"rouge_l_at_{k}": means[k - 1] for k in (1, 2, 3)}, "self_bleu_4": 0.5}
    )
    assert {(name, value) for name, value, _ in events.metrics} == set(metrics.items())
    levels = json.loads((output / "levels.json").read_text())
    assert [level["passages"] for level in levels] == [1, 0, 0, 0, 1]
    assert levels[0]["rouge_l"] == pytest.approx((1 + 0.75) / 2) and levels[-1][
        "self_bleu_4"
    ] == pytest.approx(1)
    assert (output / "table.md").read_text().startswith("| queries | ROUGE-L |")
    assert events.facts == {"questions": 4, "questions_without_queries": 1}


def test_where_nothing_can_be_measured_the_run_goes_on_and_says_so(tmp_path: Path) -> None:
    questions = [Question("q0", "?", ("x",), None, ("p9",))]
    inputs = {
        "queries": [shard(tmp_path / "a", {"p0": ("a",)})],
        **write_training_data(tmp_path, questions, {}),
    }
    output, events = tmp_path / "out", RecordedEvents()
    output.mkdir()
    evaluate_queries(
        StepContext(
            Config.partial({"generation": Generation()}), inputs, {"query_evaluation": output}, events
        )
    )
    assert json.loads((output / "metrics.json").read_text()) == {} and events.metrics == []
    assert events.facts["questions"] == 0 and events.facts["questions_without_queries"] == 1
    assert events.warnings == ["no question has a gold passage with generated queries: they are not measured"]
    assert pq.read_table(output / "questions.parquet").num_rows == 0
