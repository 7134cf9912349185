"""Formulas of what a plan takes, against the files of real indexes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from multiview.config.overrides import Overrides
from multiview.index.view_index import INDEX_FILE
from multiview.plans import PIPELINES
from multiview.plans.estimate import base_config, config_of, cost_of, estimate, faiss_bytes, shards_for
from multiview.plans.request import Request
from multiview.plans.scenario import SHAPES, ModelShape, Scenario
from multiview.steps.path import StepPath
from multiview.steps.table import STEPS
from tests.fixtures.artifacts import write_embeddings, write_index

SCENARIO = Scenario(21e6, 100, 50_000, 3_000, SHAPES["bert-base"], gpus=8)


@pytest.mark.parametrize("kind", ["exact", "compact", "tiny", "hnsw", "Flat"])
def test_indexes_have_the_bytes_of_the_formula(tmp_path: Path, kind: str) -> None:
    passages, views, dim = 2_000, 5, 64
    vectors = np.random.default_rng(0).normal(size=(passages, views, dim)).astype(np.float32)
    ids = [f"passage-{number}" for number in range(passages)]
    write_index(tmp_path / "index", write_embeddings(tmp_path / "shard", ids, list(vectors)), kind=kind)
    files = {file.name: file.stat().st_size for file in (tmp_path / "index").iterdir()}
    config = base_config("training", {"model": {"views": views}})
    scenario = Scenario(passages, 9, 9, 9, ModelShape(1, dim, dim), config=config)
    centroids = 4 * scenario.view_count**0.5 * 4 * dim if kind in ("compact", "tiny") else 0.0
    faiss = faiss_bytes(kind, scenario)
    assert files.get(INDEX_FILE, 0) == pytest.approx(faiss + centroids, rel=0.4 if centroids else 0.03)
    assert sum(files.values()) == pytest.approx(scenario.view_bytes + faiss, rel=0.06)


@pytest.mark.parametrize(
    ("step", "kind", "views", "dim", "peak"),
    [
        ("index", "tiny", 150_000, 768, 1.320e9),
        ("index", "compact", 150_000, 768, 0.904e9),
        ("index", "Flat", 300_000, 384, 1.124e9),
        ("refresh-index", "Flat", 300_000, 384, 1.698e9),
    ],
)
def test_an_index_takes_no_more_memory_than_the_formula(
    step: str, kind: str, views: int, dim: int, peak: float
) -> None:
    """Peaks of the step's process, measured with vectors at random."""
    config = base_config("training", {"index": {"kind": kind}, "model": {"views": 2}})
    stated = cost_of(step, Scenario(views / 2, 9, 9, 9, ModelShape(1, dim, dim), config=config)).memory
    assert peak < stated < 2.5 * peak


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_step_has_its_cost(pipeline: str) -> None:
    request = Request.make(pipeline, {})
    costs = estimate(request, SCENARIO)
    assert [*costs] == [*request.plan.nodes]
    assert all(cost.seconds > 0 and cost.memory > 0 for cost in costs.values())


@pytest.mark.parametrize("gpus", [0, 8])
def test_more_passages_and_questions_never_take_less(gpus: int) -> None:
    some = replace(SCENARIO, config=base_config("training", {}), gpus=gpus)
    more = replace(some, passages=2e8, questions=1e6, dev_questions=1e5)
    for step in STEPS:
        few, many = cost_of(step, some), cost_of(step, more)
        for name in ("seconds", "memory", "disk", "gpu_memory"):
            assert getattr(many, name) >= getattr(few, name), f"{step} {name}"


def test_pairs_that_a_cross_encoder_scores_take_as_long_in_every_step() -> None:
    def seconds(step: str, **overrides: object) -> float:
        return cost_of(step, replace(SCENARIO, config=base_config("training", overrides))).seconds

    pairs = SCENARIO.questions * (1 + base_config("training", {}).bm25.depth + 10)
    a_pair = seconds("teach", mining={"number": 10}) / pairs
    mined = seconds("mine", mining={"cross_encoder": "x", "depth": 300}) - seconds(
        "mine", mining={"depth": 300}
    )
    assert mined == pytest.approx(300 * SCENARIO.questions * a_pair, rel=0.1)
    reranked = seconds("evaluate", search={"rerank": "x", "rerank_depth": 70}) - seconds("evaluate")
    assert reranked == pytest.approx(70 * SCENARIO.dev_questions * a_pair, rel=0.1)
    assert seconds("index-with-search", search={"rerank": "x"}) == seconds("index")
    assert seconds("index-with-search", search={"mode": "hybrid"}) > seconds("index")


@pytest.mark.parametrize("step", ["challenger/encode", "challenger/generate-queries"])
def test_a_refresh_encodes_what_changed(step: str) -> None:
    request = Request.make("refresh", {"model": {"architecture": "dual-cross"}})
    some, more = (
        estimate(request, replace(SCENARIO, changed=share))[StepPath.parse(step)].disk
        for share in (0.01, 0.03)
    )
    assert more == pytest.approx(3 * some)


def test_steps_are_estimated_with_the_settings_of_their_system_and_stage() -> None:
    overrides: Overrides = {
        "train": {"round_two": {"epochs": 3}},
        "comparison": {"systems": {"a": {"model": {"tied": True}}, "b": {"encode": {"compute": "bfloat16"}}}},
    }
    request = Request.make("comparison", overrides)
    nodes = {str(path): config_of(node, request) for path, node in request.plan.nodes.items()}
    assert nodes["a/round-1/train"].model.tied and not nodes["b/round-1/train"].model.tied
    assert nodes["b/round-2/encode"].encode.compute == "bfloat16"
    assert (nodes["a/round-1/train"].train.epochs, nodes["a/round-2/train"].train.epochs) == (40, 3)
    assert nodes["bm25/evaluate"].bm25 == base_config("comparison", overrides).bm25


def test_a_fused_row_is_estimated_with_the_settings_of_its_system() -> None:
    systems = {name: {"model": {"architecture": name}} for name in ("dpr", "camvr")}
    request = Request.make("comparison", {"comparison": {"systems": systems, "fusion": ["dpr", "camvr"]}})
    for row, node in ((f"{name}-bm25", name) for name in systems):
        (fused,) = (each for path, each in request.plan.nodes.items() if str(path) == f"{row}/index")
        assert config_of(fused, request).model.architecture == node


@pytest.mark.parametrize(
    ("passages", "gpus", "shards"),
    [(1e4, 0, 2), (1e4, 8, 8), (21e6, 8, 8), (1e9, 8, 96), (1e9, 64, 64), (1e9, 128, 100)],
)
def test_a_shard_is_done_within_hours(passages: float, gpus: int, shards: int) -> None:
    assert shards_for("training", {}, replace(SCENARIO, passages=passages, gpus=gpus)) == shards
