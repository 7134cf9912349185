"""The evaluate step with its analyses, and what it leaves."""

import json
from typing import get_args

import pyarrow.parquet as pq
import pytest

from multiview.config import Analysis, Evaluation
from multiview.errors import InputError
from multiview.evaluation.analyses.run import ANALYSES
from multiview.evaluation.evaluate import evaluate
from multiview.overrides import validate
from tests.recording import Recorder


def run(world, folder, **evaluation):
    folder.mkdir()
    tell = Recorder()
    evaluate(world.settings(**evaluation), world.inputs, {"evaluation": folder}, tell)
    return folder / "analyses", tell


def test_every_analysis_has_a_name_in_the_settings():
    assert tuple(ANALYSES) == get_args(Analysis) == Evaluation().analyses


def test_all_analyses_of_a_model(padded, tmp_path):
    folder, tell = run(padded, tmp_path / "one")
    tables = {name for name in ANALYSES if name != "speed"}
    assert {file.name for file in folder.iterdir()} == {f"{t}.parquet" for t in tables} | {"metrics.json"}
    metrics = json.loads((folder / "metrics.json").read_text())
    told = {name: value for name, value, _ in tell.metrics}
    assert metrics.items() <= told.items()
    overall = json.loads((folder.parent / "metrics.json").read_text())
    assert not overall.keys() & metrics.keys(), "the comparison's table stays as it was"
    for name in (
        "view_4/accuracy_at_5",
        "attention_divergence",
        "lv_softmax",
        "view_ppl",
        "view_cosine",
        "avq",
    ):
        assert name in metrics
    last = pq.read_table(folder / "each_view.parquet").to_pylist()[-1]
    assert last["view"] is None and last["accuracy_at_3"] == overall["accuracy_at_3"]
    parts = (metrics[f"{part}_view{s}/accuracy_at_3"] for part, s in (("answer", ""), ("other", "s")))
    assert sum(parts) == pytest.approx(overall["accuracy_at_3"])
    assert tell.facts["encode_milliseconds_per_passage"] > 0 < tell.facts["search_milliseconds_per_question"]
    assert "analyses_left_out" not in tell.facts
    again, _ = run(padded, tmp_path / "two")
    for file in folder.iterdir():
        assert file.read_bytes() == (again / file.name).read_bytes(), file.name


def test_what_does_not_suit_one_view_is_left_out_and_said(dpr, tmp_path):
    folder, tell = run(dpr, tmp_path / "one")
    assert {file.name for file in folder.iterdir()} == {
        "groups.parquet",
        "training_answers.parquet",
        "metrics.json",
    }
    left_out = {"each_view", "answer_view", "attention", "variation", "usage", "cosine", "padding"}
    assert set(tell.facts["analyses_left_out"]) == left_out


def test_analyses_are_chosen_by_name(padded, tmp_path):
    folder, _ = run(padded, tmp_path / "one", analyses=("usage",))
    assert {file.name for file in folder.iterdir()} == {"usage.parquet", "metrics.json"}
    folder, tell = run(padded, tmp_path / "none", analyses=())
    assert not folder.exists() and "encode_milliseconds_per_passage" not in tell.facts
    with pytest.raises(InputError, match="evaluation.analyses"):
        validate({"evaluation": {"analyses": ["perplexity"]}})


def test_data_without_training_questions_or_answers(camvr, tmp_path):
    inputs = {name: staged for name, staged in camvr.inputs.items() if name != "train_questions"}
    (tmp_path / "one").mkdir()
    tell = Recorder()
    evaluate(camvr.settings(), inputs, {"evaluation": tmp_path / "one"}, tell)
    assert set(tell.facts["analyses_left_out"]) == {"training_answers", "padding"}
