"""Plans and their IR: the shape of each pipeline, decided when it is compiled."""

import json

import pytest

from multiview.artifacts.record import Reference
from multiview.config import Config
from multiview.config.overrides import Overrides, merge
from multiview.errors import InputError
from multiview.plans import PIPELINES
from multiview.plans.comparison import comparison
from multiview.plans.plan import Output, Plan
from multiview.plans.system import training
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, StepState
from multiview.steps.step import key_settings
from multiview.tracking import TrackedRun
from pipelines.kubeflow.compile import compile_request
from pipelines.runs.rerun import cut
from pipelines.runs.study import evaluation_paths
from tests.fixtures.compiled import documents, imports, shared_inputs


def test_training_has_two_rounds_that_start_from_the_pretrained_model():
    plan = training({})
    assert [str(path) for path in plan.nodes] == [
        "split",
        "bm25-negatives",
        "camvr/initial-model",
        "camvr/round-1/train",
        "camvr/round-1/encode",
        "camvr/round-1/index",
        "camvr/round-2/mine",
        "camvr/round-2/train",
        "camvr/round-2/encode",
        "camvr/round-2/index",
        "camvr/round-2/evaluate",
    ]
    first, second, mined = (
        plan.node(f"camvr/{step}") for step in ("round-1/train", "round-2/train", "round-2/mine")
    )
    assert first.inputs["start"] == second.inputs["start"] == [plan.node("camvr/initial-model").output()]
    assert second.inputs["negatives"] == [mined.output()]
    assert mined.inputs["index"] == [plan.node("camvr/round-1/index").output()]


@pytest.mark.parametrize("search", [{"mode": "hybrid"}, {"rerank": "folder"}, {"rerank_depth": 5}])
def test_an_index_that_is_only_mined_from_is_the_same_however_the_last_one_ranks(search: Overrides) -> None:
    plain, ranked = training({}), training({"search": search})
    rebuilt = {str(path) for path, node in ranked.nodes.items() if node != plain.nodes.get(path)}
    assert rebuilt == {"camvr/round-2/index"}
    evaluated = training({"search": search, "evaluation": {"each_round": True}})
    names = {evaluated.node(f"camvr/round-{number}/index").step.name for number in (1, 2)}
    assert names == {"index-with-search"}


def test_the_length_of_questions_changes_no_step_that_reads_passages_alone() -> None:
    given = {"train": {"distill_weight": 0.5}, "mining": {"cross_encoder": "folder"}}
    plain, longer = training(given), training({**given, "encode": {"question_length": 24}})
    changed = {node.step.name for path, node in longer.nodes.items() if node != plain.nodes[path]}
    assert changed == {"mine", "index"}


def test_the_builder_of_a_plan_says_the_architecture_of_each_system():
    systems = {"a": {}, "b": {"model": {"architecture": "mvr"}}}
    plan = comparison({"comparison": {"systems": systems, "fusion": ["a"]}, "train": {"rounds": 0}})
    assert plan.architectures == {"a": "camvr", "b": "mvr", "a-bm25": "camvr"}, "bm25 has none"
    assert training({"model": {"architecture": "dpr", "tied": True}}).architectures == {"dpr": "dpr"}
    means = {"architecture": "camvr", "pooling": "snippet"}
    assert training({"model": means}).architectures == {"camvr": "camvr, pooling snippet"}
    assert not PIPELINES["refresh"]({}).architectures, "it need not be given the settings of its model"


def test_no_architecture_is_guessed_from_the_names_of_inputs():
    plan = Plan("p")
    model = plan.add(StepPath("initial-model"), "initial-model", Config()).output()
    index = Reference(address="/s/index/i", digest="i")
    split = plan.add(StepPath("split"), "split", Config())
    path, passages = StepPath("changes", "challenger"), split.output("passages")
    plan.add(path, "changes", Config(), index=index, model=model, passages=passages)
    assert plan.architectures == {}


@pytest.mark.parametrize(("rounds", "steps"), [(0, 5), (1, 7), (2, 11), (3, 15)])
def test_rounds_shape_the_dag(rounds, steps):
    plan = training({"train": {"rounds": rounds}})
    assert len(plan.nodes) == steps and str([*plan.nodes][-1]) == f"camvr/round-{rounds}/evaluate"


def test_every_round_is_measured_where_that_is_asked_for():
    plan, usual = training({"evaluation": {"each_round": True}}), training({})
    first, last = (plan.node(f"camvr/round-{number}/evaluate") for number in (1, 2))
    assert set(plan.nodes) - set(usual.nodes) == {first.path}
    assert first.inputs["index"] == plan.node("camvr/round-2/mine").inputs["index"], "no other index is built"
    assert json.loads(first.config)["evaluation"]["analyses"] == []
    settings = [key_settings(node.step.parse(node.config)) for node in (last, usual.nodes[last.path])]
    assert settings[0] == settings[1], "the last evaluation is found again"
    assert evaluation_paths("seed-1", plan) == {"seed-1": last.path}


def test_round_two_may_have_settings_of_its_own():
    """And the architecture's defaults."""
    plan = training({"train": {"epochs": 40, "round_two": {"epochs": 20}}})
    found = [json.loads(plan.node(f"camvr/round-{n}/train").config)["train"] for n in (1, 2)]
    assert [(each["epochs"], each["positive"]) for each in found] == [(40, "answer"), (20, "answer")]
    with pytest.raises(InputError, match=r"train\.round_two: .*train\.epoch.*epochs"):
        training({"train": {"round_two": {"epoch": 20}}})


@pytest.mark.parametrize(
    ("start_from", "starts"),
    [("pretrained", ["initial-model", "initial-model"]), ("round_one", ["round-1/train", "round-2/train"])],
)
def test_a_third_round_mines_with_the_model_of_the_second(start_from, starts):
    settings = {"rounds": 3, "start_from": start_from, "epochs": 40, "round_two": {"epochs": 20}}
    plan = training({"train": settings})
    second, third = (plan.node(f"camvr/round-{number}/train") for number in (2, 3))
    assert third.config == second.config and json.loads(third.config)["train"]["epochs"] == 20
    mined = plan.node("camvr/round-3/mine")
    assert third.inputs["negatives"] == [mined.output()]
    assert mined.inputs["model"] == [second.output()]
    assert mined.inputs["index"] == [plan.node("camvr/round-2/index").output()]
    assert mined.inputs["bm25_negatives"] == [plan.node("bm25-negatives").output()]
    expected = [[plan.node(f"camvr/{step}").output()] for step in starts]
    assert [each.inputs["start"] for each in (second, third)] == expected


def test_a_teacher_scores_what_each_round_trains_on():
    settings = {"mining": {"cross_encoder": "some/judge"}, "train": {"distill_weight": 0.5}}
    plan = training(settings)
    for number, negatives in ((1, "bm25-negatives"), (2, "camvr/round-2/mine")):
        taught, train = (plan.node(f"camvr/round-{number}/{step}") for step in ("teach", "train"))
        assert taught.inputs["hard_negatives"] == [plan.node(negatives).output()]
        assert train.inputs["negatives"] == [taught.output()]
    plain = training({})
    assert [path for path in plan.nodes if path.step != "teach"] == list(plain.nodes), "nothing else changes"
    later = training(
        {**settings, "train": {"negatives": 0, "round_two": {"negatives": 4, "distill_weight": 1}}}
    )
    assert [str(path) for path in later.nodes if path.step == "teach"] == ["camvr/round-2/teach"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"train": {"distill_weight": 0.5}}, "needs a teacher; set mining.cross_encoder"),
        (
            {"train": {"distill_weight": 0.5, "negatives": 0}, "mining": {"cross_encoder": "some/judge"}},
            r"without hard negatives in round 1 \(train.negatives=0\)",
        ),
    ],
)
def test_a_distillation_without_a_teacher_or_negatives_is_refused_before_any_work(settings, message):
    with pytest.raises(InputError, match=f"^train.distill_weight: .*{message}"):
        training(settings)


def test_a_comparison_shares_split_negatives_and_questions():
    systems = {"b": {}, "a": {"model": {"architecture": "mvr"}, "train": {"rounds": 0}}}
    plan = comparison({"comparison": {"systems": systems}})
    steps = [node.step.name for node in plan.nodes.values()]
    assert steps.count("split") == steps.count("bm25-negatives") == 1
    compare = plan.node("compare")
    compared = ["b/round-2/evaluate", "a/round-0/evaluate", "bm25/evaluate"]
    assert compare.inputs["evaluations"] == [plan.node(path).output() for path in compared]
    assert json.loads(compare.config)["comparison"]["rows"] == ["b", "a", "bm25"]
    report = plan.node("report")
    assert report.inputs == {**compare.inputs, "comparison": [compare.output()]}
    assert json.loads(report.config)["comparison"]["rows"] == ["b", "a", "bm25"]
    assert json.loads(plan.node("b/round-1/train").config)["train"]["local_weight"] == 0.0


def test_a_comparison_with_generated_queries_has_a_row_for_doct5query():
    systems = {"dual-cross": {"model": {"architecture": "dual-cross", "tied": True}}, "dpr": {}}
    settings = {"comparison": {"systems": systems}, "train": {"rounds": 0}}
    plan = comparison(settings)
    node = plan.node("doct5query/evaluate")
    assert node.step.name == "evaluate-bm25-with-queries"
    assert node.inputs["queries"] == [plan.node("gather-queries").output()]
    assert json.loads(plan.node("compare").config)["comparison"]["rows"] == [
        *systems, "bm25", "doct5query"
    ]  # fmt: skip
    assert "doct5query" not in plan.architectures
    settings["comparison"]["bm25"] = False
    assert json.loads(comparison(settings).node("compare").config)["comparison"]["rows"] == [*systems]
    with pytest.raises(InputError, match="systems.doct5query: .* not bm25 or doct5query"):
        comparison({"comparison": {"systems": {"doct5query": {}}}})


def test_a_plan_refuses_wrong_inputs_wrong_outputs_and_wrong_order():
    plan = Plan("p")
    split = plan.add(StepPath("split"), "split", Config())
    assert split.output() == split.output("passages")
    with pytest.raises(ValueError, match=r"split has outputs .*, not model"):
        split.output("model")
    with pytest.raises(ValueError, match="has inputs"):
        plan.add(StepPath("encode"), "encode", Config(), model=Output(StepPath("x"), "model"))
    with pytest.raises(ValueError, match="does not come before"):
        inputs = {name: Output(StepPath("x"), name) for name in ("passages", "questions")}
        plan.add(StepPath("b"), "evaluate-bm25", Config(), **inputs)


def earlier_run(plan: Plan, **config) -> TrackedRun:
    steps = {}
    for node in plan.nodes.values():
        for path in node.paths():
            key = str(path).replace("/", "-")
            outputs = {
                kind: Reference(address=f"/store/{kind}/{key}", digest=f"{kind} of {path}")
                for kind in node.step.outputs
            }
            steps[str(path)] = StepState(path=str(path), step=path.step, status="done", outputs=outputs)
    return TrackedRun("m", "/store", Run(id="r", pipeline=plan.name, config=config), steps)


@pytest.mark.parametrize(
    "path", ["split", "camvr/round-1/encode/shard-01", "camvr/round-1/index", "camvr/round-2/train"]
)
def test_any_step_is_cut_out_with_its_inputs_and_compiles(path, tmp_path):
    plan = training({})
    part = cut(earlier_run(plan), path, {}, downstream=False)
    plan = part.plan
    (node,) = plan.nodes.values()
    assert [str(path) for path in node.paths()] == [path]
    assert {name for name, _ in node.sources()} == set(node.step.inputs)
    assert all(isinstance(source, Reference) for _, source in node.sources())
    ir, _ = documents(compile_request(part, tmp_path / "part.yaml"))
    lists = sum(len(node.inputs[name]) for name in node.step.list_inputs)
    imported = imports(ir)
    read = [(source.address, source.digest) for _, _, source in plan.artifacts()]
    assert len(imported) == len(read) - lists and set(imported) <= set(read)
    assert not shared_inputs(ir)


def test_downstream_of_round_ones_encoding_is_all_that_follows():
    plan = training({})
    changes = {"encode": {"compute": "autocast"}}
    part = cut(earlier_run(plan), "camvr/round-1/encode", changes, downstream=True)
    assert list(part.plan.nodes) == list(plan.nodes)[4:]
    read: dict[str, set[str]] = {}
    for node, name, _ in part.plan.artifacts():
        read.setdefault(str(node.path).removeprefix("camvr/"), set()).add(name)
    assert read == {
        "round-1/encode": {"model", "passages"},
        "round-1/index": {"model", "passages"},
        "round-2/mine": {"model", "passages", "questions", "bm25_negatives"},
        "round-2/train": {"start", "passages", "questions"},
        "round-2/encode": {"passages"},
        "round-2/index": {"passages"},
        "round-2/evaluate": {"passages", "questions", "train_questions"},
    }
    for name in ("round-1/encode", "round-1/index", "round-2/mine", "round-2/encode"):
        assert json.loads(part.plan.node(f"camvr/{name}").config)["encode"]["compute"] == "autocast"


def test_a_rerun_of_a_step_whose_inputs_were_never_made_says_what_to_do():
    run = earlier_run(training({}))
    del run.steps["camvr/round-1/encode/shard-01"]
    with pytest.raises(
        InputError, match="camvr/round-1/index needs embeddings of camvr/round-1/encode/shard-01"
    ):
        cut(run, "camvr/round-1/index", {}, downstream=False)
    with pytest.raises(InputError, match="is one shard"):
        cut(run, "camvr/round-1/encode/shard-01", {}, downstream=True)


@pytest.mark.parametrize(
    "gone", [{"train": {"adam_epsilon": 1e-8}}, {"evaluation": {"analyses": ["groups"]}}]
)
def test_a_rerun_of_a_run_with_settings_of_another_version_names_the_run(gone: Overrides) -> None:
    ((section, values),) = gone.items()
    run = earlier_run(training({}), **gone)
    for changes in ({}, {section: {name: ["usage"] for name in values}}):
        with pytest.raises(
            InputError, match=f"run r was made by another version .* without this: .*{section}"
        ):
            cut(run, "split", changes, downstream=False)


@pytest.mark.parametrize(
    ("path", "changes", "says"),
    [
        ("camvr/round-2/encode", {"corpus": {"shards": 1}}, "corpus.shards is not read by .*rerun split --downstream"),
        ("camvr/round-2/encode", {"train": {"epochs": 3}}, "train.epochs is not read by .*rerun camvr/round-1/train"),
        ("camvr/round-2/evaluate", {"questions": {"dev_limit": 5}}, "questions.dev_limit is not read by"),
        ("camvr/round-2/train", {"train": {"rounds": 1}}, "has no step"),
        ("camvr/round-1/train", {"train": {"start_from": "round_one"}}, "shape at camvr/round-2/train"),
        ("split", {"corpus": {"shards": 3}}, "shape at camvr/round-1/encode"),
    ],
)  # fmt: skip
def test_a_rerun_refuses_settings_that_it_could_not_carry_out(path, changes, says):
    with pytest.raises(InputError, match=says):
        cut(earlier_run(training({})), path, changes, downstream=False)


def test_a_rerun_refuses_a_shared_setting_where_its_system_has_its_own():
    systems = {name: {"model": {"architecture": name}} for name in ("mvr", "camvr")}
    config: Overrides = {"comparison": {"systems": merge(systems, {"mvr": {"train": {"epochs": 3}}})}}
    run, changes = earlier_run(comparison(config), **config), {"train": {"epochs": 2}}
    with pytest.raises(InputError, match="^train.epochs changes nothing of mvr/round-1/train: .*of its own"):
        cut(run, "mvr/round-1/train", changes, downstream=False)
    cut(run, "camvr/round-1/train", changes, downstream=False)
