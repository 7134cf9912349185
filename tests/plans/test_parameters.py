"""Runtime parameters: which a pipeline has, what they change, and what is refused in one line."""

import json

import pytest

from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.plans import PIPELINES
from multiview.plans.parameters import SETTINGS, CompiledRequest, parameters_of
from multiview.plans.request import Request, describe
from tests.fixtures.project import Project

DATA = ["questions.source=demo://train.json", "questions.dev_source=demo://dev.json"]


def compiled(pipeline: str = "training", preset: str | None = None, *settings: str) -> CompiledRequest:
    found = CompiledRequest.of(Request.from_settings(pipeline, preset, settings))
    assert found is not None
    return CompiledRequest.model_validate_json(found.model_dump_json())


def asked(pipeline: CompiledRequest, settings: str = "", **given: object) -> Request:
    changes = pipeline.changes({**pipeline.defaults, **given}, settings)
    return pipeline.request(changes)


def test_a_pipeline_has_the_parameters_that_its_steps_read():
    names = {name: {p.name for p in parameters_of(Request.make(name, {}))} for name in PIPELINES}
    assert names["training"] == names["comparison"] == set(SETTINGS) - {"full_refresh"}
    assert names["refresh"] == {"corpus_source", "questions_source", "dev_questions_source", "full_refresh"}


def test_what_each_system_has_for_itself_is_no_parameter():
    names = [p.name for p in parameters_of(Request.from_settings("comparison", "demo", []))]
    assert "learning_rate" not in names and "batch_size" in names


def test_unchanged_values_change_nothing_and_are_not_even_validated():
    pipeline = compiled("training", "demo")
    assert pipeline.changes(pipeline.defaults, " \n") == {}
    assert pipeline.changes({**pipeline.defaults, "unknown": 1}) == {}
    newer = pipeline.model_copy(update={"config": {"train": {"a_setting_of_tomorrow": 1}}})
    assert newer.changes(pipeline.defaults) == {}
    assert pipeline.changes(pipeline.defaults, "train.max_steps=50") == {}, "as it was compiled"


@pytest.mark.parametrize(
    ("pipeline", "settings"),
    [
        ("training", ["train.positive=max"]),
        ("training", ["train.temperature.schedule=fixed"]),
        ("refresh", ["questions.max_missing_gold=0.1"]),
        ("refresh", ["gate.drops={accuracy_at_1: 0.01, recall_at_5: 0.02}"]),
        ("refresh", ["gate.drops={accuracy_at_1: 0.02}"]),
    ],
)
def test_a_default_of_its_own_is_none_of_the_pipeline_s(pipeline, settings):
    """A value may be the setting's default, and another than that of the architecture or the pipeline."""
    plan = asked(compiled(pipeline, None, *DATA), "; ".join(settings)).plan
    assert plan == Request.from_settings(pipeline, None, [*DATA, *settings]).plan
    assert plan != Request.from_settings(pipeline, None, DATA).plan
    assert compiled().changes({}, "train.epochs=40") == {}, "as it is anyway"


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project.make(tmp_path_factory.mktemp("parameters"))


@pytest.mark.parametrize(
    ("given", "settings", "command"),
    [
        ({"learning_rate": 0.01}, "", ["train.learning_rate=0.01"]),
        ({"epochs": 3.0}, "", ["train.epochs=3"]),
        ({"seed": 7}, "mining.number=3", ["train.seed=7", "mining.number=3"]),
        ({"batch_size": 16}, "train.batch_size=4", ["train.batch_size=4"]),
        (
            {},
            "mining.number=3; bm25.depth=9\ntrain.seed=1\n",
            ["mining.number=3", "bm25.depth=9", "train.seed=1"],
        ),
    ],
)
def test_a_run_with_other_parameters_is_the_run_of_the_same_settings(project, given, settings, command):
    preset, store = str(project.folder / "tiny.yaml"), LocalStore(project.folder / "store")
    request = asked(compiled("training", preset), settings, **given)
    other = Request.from_settings("training", preset, command)
    assert request.plan == other.plan
    assert describe(request, store).id == describe(other, store).id
    assert describe(request, store).id != describe(Request.from_settings("training", preset, []), store).id


def test_a_source_is_a_list_of_which_one_is_as_good_as_its_name():
    request = asked(compiled("training", None, *DATA), questions_source=["demo://dev.json"])
    assert request.overrides["questions"]["source"] == "demo://dev.json"
    request = asked(compiled("training", None, *DATA), corpus_source=["gs://b/a.tsv", "gs://b/b.tsv"])
    assert request.config.corpus.source == ("gs://b/a.tsv", "gs://b/b.tsv")


def test_a_setting_of_one_system_and_of_one_stage_is_taken():
    request = asked(compiled("comparison", "demo"), "comparison.systems.mvr.train.learning_rate=0.5")
    rates = {
        path.system: json.loads(node.config)["train"]["learning_rate"]
        for path, node in request.plan.nodes.items()
        if node.step.name == "train"
    }
    assert rates == {"mvr": 0.5, "snippet-means": 3e-5}
    request = asked(compiled(), "train.round_two={epochs: 2}")
    epochs = [
        json.loads(n.config)["train"]["epochs"] for n in request.plan.nodes.values() if n.step.name == "train"
    ]
    assert epochs == [40, 2]


@pytest.mark.parametrize(
    ("pipeline", "given", "settings", "line"),
    [
        ("training", {"learning_rate": -1.0}, "", "train.learning_rate: input should be greater than 0, not -1"),
        ("training", {}, "train.epoch=3", "there is no setting train.epoch; did you mean epochs"),
        ("training", {}, "epochs", "expected SECTION.NAME=VALUE"),
        ("training", {}, "train.round_two={rounds: 1}", "train.round_two: rounds cannot differ in a stage"),
        (
            "training",
            {"epochs": 3.0},
            "train.rounds=1",
            "the settings shape the pipeline (it would differ at camvr/round-1/evaluate), which is fixed when it is "
            "compiled: submit training as before, with --set for each of train.epochs=3, train.rounds=1",
        ),
        ("training", {}, "corpus.shards=3", "shape the pipeline (it would differ at camvr/round-1/encode)"),
        ("training", {}, "model.architecture=mvr", "with --set for each of model.architecture=mvr"),
        ("training", {}, "evaluation.each_round=true", "with --set for each of evaluation.each_round=true"),
        ("comparison", {}, "comparison.systems.mvr2={model: {views: 3}}", "each of comparison.systems.mvr2.model.views=3"),
        (
            "training",
            {},
            "kubeflow.gpu.gpus=4; mining.depth=7",
            "kubeflow.gpu.gpus=4: where the pipeline's steps run is fixed when it is compiled: submit training as before, "
            "with --set for each of kubeflow.gpu.gpus=4, mining.depth=7",
        ),
        ("training", {}, "notify.url=http://example.org", "notify.url=http://example.org: where the pipeline's steps run"),
        ("training", {}, "generation.queries=3", "generation.queries=3 changes no step of this pipeline"),
        ("comparison", {}, "train.learning_rate=0.5", "train.learning_rate=0.5 changes no step of this pipeline"),
    ],
)  # fmt: skip
def test_what_cannot_be_had_is_one_line(pipeline, given, settings, line):
    with pytest.raises(InputError) as refused:
        asked(compiled(pipeline, "demo"), settings, **given)
    assert line in str(refused.value) and "\n" not in str(refused.value)


def test_no_round_that_is_gone_goes_unnoticed():
    with pytest.raises(InputError, match="shape the pipeline .* evaluation.each_round=false"):
        asked(compiled("training", None, "evaluation.each_round=true"), "evaluation.each_round=false")
