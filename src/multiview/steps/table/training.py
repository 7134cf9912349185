"""Steps that make models, and the negatives that they learn from."""

from __future__ import annotations

from multiview import names
from multiview.steps.step import Step
from multiview.steps.table.settings import MATCHING

STEPS = (
    Step(
        name="initial-model",
        version=1,
        run="multiview.model.encoder:initial_model",
        settings=("model",),
        inputs=(),
        outputs=(names.MODEL,),
        source_fingerprint="multiview.model.bases:model_fingerprint",
    ),
    Step(
        name="bm25-negatives",
        version=3,
        run="multiview.negatives.bm25:bm25_negatives",
        settings=("bm25", "questions.hard_negatives", *MATCHING),
        inputs=("passages", "questions"),
        outputs=(names.NEGATIVES,),
    ),
    Step(
        name="given-negatives",
        version=1,
        run="multiview.negatives.given:given_negatives",
        settings=(),
        inputs=("questions",),
        outputs=(names.NEGATIVES,),
    ),
    Step(
        name="mine",
        version=8,
        run="multiview.negatives.mined:mine",
        settings=("mining", "encode", *MATCHING),
        inputs=("model", "index", "passages", "questions", "bm25_negatives"),
        streamed="multiview.index.view_index:streamed_files",
        outputs=(names.NEGATIVES,),
        source_fingerprint="multiview.negatives.mined:cross_encoder_fingerprint",
        gpu=True,
    ),
    Step(
        name="teach",
        version=1,
        run="multiview.negatives.teacher:teach",
        settings=("mining.cross_encoder", "encode"),
        inputs=("passages", "questions", "hard_negatives"),
        outputs=(names.NEGATIVES,),
        source_fingerprint="multiview.negatives.teacher:teacher_fingerprint",
        gpu=True,
    ),
    Step(
        name="warm-up",
        version=6,
        run="multiview.training.warm_up:warm_up",
        settings=("train",),
        inputs=("start", "passages", "queries"),
        outputs=(names.MODEL,),
        checkpoints=True,
        gpu=True,
    ),
    Step(
        name="train",
        version=7,
        run="multiview.training.train:train",
        settings=("train", *MATCHING),
        inputs=("start", "passages", "questions", "negatives"),
        outputs=(names.MODEL,),
        checkpoints=True,
        gpu=True,
    ),
)
