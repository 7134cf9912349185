"""Steps that make models, and the negatives that they learn from."""

from __future__ import annotations

from multiview import names
from multiview.steps.step import Step
from multiview.steps.table.settings import MATCHING

STEPS = (
    Step(
        name="initial-model",
        version=1,
        function_path="multiview.model.encoder:initial_model",
        settings=("model",),
        inputs=(),
        outputs=(names.MODEL,),
        fingerprint_path="multiview.model.base_model.checkpoint:model_fingerprint",
    ),
    Step(
        name="bm25-negatives",
        version=3,
        function_path="multiview.negatives.bm25:bm25_negatives",
        settings=("bm25", "questions.hard_negatives", *MATCHING),
        inputs=("passages", "questions"),
        outputs=(names.NEGATIVES,),
    ),
    Step(
        name="given-negatives",
        version=1,
        function_path="multiview.negatives.negatives_file:given_negatives",
        settings=(),
        inputs=("questions",),
        outputs=(names.NEGATIVES,),
    ),
    Step(
        name="mine",
        version=9,
        function_path="multiview.negatives.mined:mine",
        settings=("mining", "encode", *MATCHING),
        inputs=("model", "index", "passages", "questions", "bm25_negatives"),
        outputs=(names.NEGATIVES,),
        fingerprint_path="multiview.negatives.mined:cross_encoder_fingerprint",
        gpu=True,
    ),
    Step(
        name="teach",
        version=2,
        function_path="multiview.negatives.teacher:teach",
        settings=("mining.cross_encoder", "encode"),
        inputs=("passages", "questions", "hard_negatives"),
        outputs=(names.NEGATIVES,),
        fingerprint_path="multiview.negatives.teacher:teacher_fingerprint",
        gpu=True,
    ),
    Step(
        name="warm-up",
        version=7,
        function_path="multiview.training.train:warm_up",
        settings=("train",),
        inputs=("start", "passages", "queries"),
        outputs=(names.MODEL,),
        checkpoints=True,
        gpu=True,
    ),
    Step(
        name="train",
        version=8,
        function_path="multiview.training.train:train",
        settings=("train", *MATCHING),
        inputs=("start", "passages", "questions", "negatives"),
        outputs=(names.MODEL,),
        checkpoints=True,
        gpu=True,
    ),
)
