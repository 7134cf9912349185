"""Quality and diversity of generated queries, by hand and by the plain formulas."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rouge_score.tokenizers import DefaultTokenizer

from multiview.artifacts.staged import Staged
from multiview.config import Config, Generation
from multiview.data.queries import FILE, write_queries
from multiview.data.questions import Question
from multiview.generation.evaluate import evaluate_queries
from multiview.generation.metrics import (
    Words,
    diversity_levels,
    queries_table,
    rouge_l_by_number,
    self_bleu,
)
from multiview.steps.context import StepContext
from tests.fixtures.events import RecordedEvents
from tests.fixtures.plain_queries import plain_bleu_4, plain_rouge_l
from tests.fixtures.training_material import write_training_data

SENTENCES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=7).map(" ".join)


@given(SENTENCES, st.lists(SENTENCES, max_size=5))
@settings(max_examples=60, deadline=None)
def test_rouge_l_is_the_best_of_the_first_k(question: str, queries: list[str]) -> None:
    scores = [plain_rouge_l(question, query) for query in queries]
    expected = [max(scores[:k], default=0) for k in range(1, 5)]
    assert rouge_l_by_number(question, queries, 4) == pytest.approx(expected)


@given(st.lists(SENTENCES, min_size=2, max_size=5))
@settings(max_examples=60, deadline=None)
def test_self_bleu_is_the_mean_bleu_of_each_against_the_others(queries: list[str]) -> None:
    each = [plain_bleu_4(queries[:i] + queries[i + 1 :], query) for i, query in enumerate(queries)]
    assert self_bleu(queries) == pytest.approx(sum(each) / len(each))


def test_known_values() -> None:
    # Of "the large old bridge" and the question, "the … bridge" is common: 2 · 2 / (4 + 6).
    question = "Who built the bridge of Warsaw?"
    found = rouge_l_by_number(question, ["the large old bridge", "", "who BUILT the bridge of warsaw"], 4)
    assert found == pytest.approx([0.4, 0.4, 1.0, 1.0])
    assert self_bleu(["a b c d e", "a b c d f"]) == pytest.approx((4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    assert self_bleu(["one same long query"] * 3) == pytest.approx(1)
    assert self_bleu(["a b c", "d e f"]) == 0
    assert self_bleu(["only one"]) is None and self_bleu([]) is None


@given(st.text(st.characters(max_codepoint=126)))
def test_words_are_rouge_score_s_own_in_ascii(text: str) -> None:
    assert Words().tokenize(text) == DefaultTokenizer(use_stemmer=False).tokenize(text)


def test_words_of_other_alphabets_count() -> None:
    assert Words().tokenize("Où était Варшава?") == ["où", "était", "варшава"]
    assert rouge_l_by_number("где Варшава", ["где Варшава"], 1) == pytest.approx([1])


def test_levels_have_equal_width_and_both_ends() -> None:
    levels = diversity_levels([0, 0.1999, 0.2, 0.99, 1], {"rouge_l": [0.1, 0.3, 0.5, 0.6, 0.8]})
    assert [(level["start"], level["stop"]) for level in levels] == [
        (0, 0.2),
        (0.2, 0.4),
        (0.4, 0.6),
        (0.6, 0.8),
        (0.8, 1),
    ]
    assert [level["passages"] for level in levels] == [2, 1, 0, 0, 2]
    assert [level["self_bleu_4"] for level in levels] == [pytest.approx(0.09995), 0.2, None, None, 0.995]
    assert [level["rouge_l"] for level in levels] == pytest.approx([0.2, 0.5, None, None, 0.7])


def test_the_table_has_quality_by_number_and_by_diversity() -> None:
    table = queries_table({1: 0.4, 2: 0.5}, diversity_levels([0.5], {"rouge_l": [0.7]}))
    assert "|       2 |   50.00 |" in table
    assert "| 0.4 to 0.6  |        1 | 50.00 |   70.00 |" in table
    assert "| 0.0 to 0.2  |        0 |       |         |" in table


def shard(folder: Path, rows: dict[str, tuple[str, ...]]) -> Staged:
    folder.mkdir()
    write_queries(rows.items(), folder / FILE)
    return Staged(folder, folder.name)


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
