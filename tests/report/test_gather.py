"""The curves of trainings."""

from dataclasses import replace

from multiview.artifacts.record import Artifact
from multiview.report.gather import gather, trainings
from tests.fixtures.compared_systems import BM25, CAMVR, MVR, ComparedSystems
from tests.fixtures.events import RecordedEvents


def test_trainings_are_found_through_the_negatives_and_after_the_warm_up(tmp_path):
    compared = ComparedSystems(tmp_path, {"camvr": CAMVR})
    fill = lambda path: (path / "multiview.json").write_text("{}")  # noqa: E731
    ready = {"start": ["camvr-start"]}
    compared.publish("model", "warm-up", "warm", fill, ready, curves={"loss": [9, 8, 7]})
    compared.publish("negatives", "bm25-negatives", "easy", lambda path: None)
    compared.publish(
        "model", "train", "one", fill, {"start": ["warm"], "negatives": ["easy"]}, curves={"loss": [3, 2, 1]}
    )
    compared.publish("negatives", "mine", "hard", lambda path: None, {"model": ["one"]})
    compared.publish("negatives", "teach", "taught", lambda path: None, {"hard_negatives": ["hard"]})
    inputs = {"start": ["warm"], "negatives": ["taught"]}
    compared.publish("model", "train", "two", fill, inputs, curves={"loss": [2, 1, 0.5]})
    found = trainings(Artifact(compared.store, compared.made["two"]))
    assert [(t.name, list(t.curves["loss"].values())) for t in found] == [
        ("warm-up", [9, 8, 7]),
        ("round 1", [3, 2, 1]),
        ("round 2", [2, 1, 0.5]),
    ]
    assert trainings(Artifact(compared.store, compared.made["camvr-start"])) == []


def test_all_views_together_are_those_of_the_analysis_and_not_the_systems_ranking(tmp_path):
    compared = ComparedSystems(tmp_path, {"camvr": CAMVR, "bm25": BM25})
    found = gather(compared.rows, compared.comparison, compared.evaluations, RecordedEvents())
    camvr, bm25 = found.systems
    assert camvr.metrics["accuracy_at_2"] < 1 and camvr.together == {
        "accuracy_at_1": 1.0,
        "accuracy_at_2": 1.0,
    }
    assert [len(values) for values in camvr.alone.values()] == 2 * [CAMVR.views]
    assert not bm25.alone and not bm25.together


def test_rows_of_one_model_have_one_training_and_the_name_of_its_pooling(tmp_path):
    means = replace(CAMVR, pooling="snippet")
    rows = {"means": means, "mvr": MVR, "means-bm25": replace(means, model="means", analyses=False)}
    compared = ComparedSystems(tmp_path, rows)
    found = gather(compared.rows, compared.comparison, compared.evaluations, RecordedEvents()).systems
    assert [len(system.trainings) for system in found] == [2, 2, 0]
    assert [system.architecture for system in found] == [
        "camvr, pooling snippet",
        "camvr",
        "camvr, pooling snippet",
    ]
