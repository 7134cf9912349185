"""The papers' presets: their numbers as the papers give them, shown by `multiview config`, and compiled."""

from typing import Any

import pytest

from multiview.config.documents import document_names
from multiview.config.overrides import gather, read_preset
from multiview.model.systems import resolve, stage_settings
from multiview.plans.comparison import comparison
from multiview.plans.request import Request
from pipelines.kubeflow.compile import compile_request

DPR = {
    "model.base": "bert-base-uncased",
    "model.tied": False,
    "model.question_length": 128,
    "model.passage_length": 256,
    "model.pooling": "viewer",
    "model.normalise": False,
    "train.batch_size": 128,
    "train.negative_group": None,
    "train.negatives": 1,
    "train.learning_rate": 2e-5,
    "train.epochs": 40,
    "train.warmup_steps": 1237,
    "train.weight_decay": 0,
    "train.max_grad_norm": 2,
    "train.dropout": 0.1,
    "train.attention_dropout": None,
    "train.positive_passage": "first",
    "train.start_from": "pretrained",
    "train.precision": "bfloat16",
    "encode.compute": "bfloat16",
}
ROUNDS = {
    "bm25.depth": 50,
    "mining.depth": 200,
    "mining.number": 30,
    "mining.answer_hits": "exclude",
    "train.rounds": 2,
}
ANNEALED = {
    "train.temperature.schedule": "annealed",
    "train.temperature.floor": 0.3,
    "train.temperature.alpha": 0.1,
    "train.temperature.clock": "epoch",
}
FIXED = {"train.temperature.schedule": "fixed", "train.temperature.value": 1, "train.local_weight": 0}

MVR = {
    **DPR,
    **ANNEALED,
    "model.architecture": "mvr",
    "model.views": 8,
    "train.positive": "max",
    "train.local_weight": 0.01,
    "encode.index_padding_views": True,
}

PAPERS: dict[str, dict[str, Any]] = {
    "paper-dpr": {**DPR, **FIXED, "model.architecture": "dpr", "train.rounds": 1},
    "paper-mvr": {**MVR, **ROUNDS, "model.base": "Luyu/co-condenser-wiki"},
    "paper-mvr-bert": {**MVR, "train.rounds": 1},
    "paper-camvr": {
        **DPR,
        **ROUNDS,
        **ANNEALED,
        "model.architecture": "camvr",
        "model.base": "Luyu/co-condenser-wiki",
        "model.views": 8,
        "model.merge_title": True,
        "train.positive": "answer",
        "train.local_weight": 0,
        "train.batch_size": 56 * 2,
        "train.learning_rate": 1e-5,
        "train.gradient_checkpointing": True,
        "encode.index_padding_views": True,
    },
    "cocondenser-two-round": {
        **DPR,
        **ROUNDS,
        **FIXED,
        "model.architecture": "dpr",
        "model.base": "Luyu/co-condenser-wiki",
        "train.batch_size": 32 * 4,
        "train.learning_rate": 5e-6,
        "round_two train.epochs": 40,  # 20 with each kind of negative
    },
    "paper-dual-cross": {
        **DPR,
        **FIXED,
        "model.architecture": "dual-cross",
        "model.tied": True,
        "model.question_length": 16,
        "model.passage_length": 128,
        "encode.question_length": 32,
        "train.rounds": 1,
        "train.batch_size": 32 * 8,
        "train.negative_group": 32,
        "train.negatives": 7,
        "train.learning_rate": 5e-6,
        "train.epochs": 20,
        "train.warmup_steps": None,
        "train.warmup_ratio": 0.1,
        "generation.queries": 10,
        "generation.max_length": 64,
        "warm_up train.epochs": 10,
        "warm_up train.batch_size": 256 * 8,
        "warm_up train.negative_group": 256,
        "warm_up train.learning_rate": 5e-6,
    },
}
"""Dotted names, for a stage of training behind its name, and what the papers' tables have there; the arithmetic is ours."""


@pytest.mark.parametrize("name", PAPERS)
def test_a_paper_s_preset_has_its_numbers(name):
    config = resolve(read_preset(name))
    for setting, expected in PAPERS[name].items():
        stage, _, name_of_setting = setting.rpartition(" ")
        value: Any = stage_settings(config, stage) if stage else config  # type: ignore[arg-type]
        for part in name_of_setting.split("."):
            value = getattr(value, part)
        assert value == expected, setting


def test_the_preset_with_a_generator_and_a_warm_up_compiles(tmp_path):
    """The others' graphs are those of the commands that docs/cluster.md submits."""
    request = Request.make("training", read_preset("paper-dual-cross"))
    assert compile_request(request, tmp_path / "training.yaml").stat().st_size > 1000


@pytest.mark.parametrize("preset", document_names("preset"))
def test_every_preset_is_valid_for_every_pipeline(preset):
    assert comparison(gather(preset, [])).nodes
