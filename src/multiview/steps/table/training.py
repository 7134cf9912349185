"""Steps that read the data, and make models with the negatives, queries and questions that they learn from."""

from __future__ import annotations

from dataclasses import replace

from multiview import names
from multiview.steps.step import Step

PAIRS = ("generation.input", "generation.max_length")
"""Settings of the query generator's input, and of the length of its queries."""

SAMPLING = tuple(f"generation.{name}" for name in ("queries", "batch_size", "seed", "device"))
"""Settings of the generator's drawing."""

MATCHING = ("questions.answer_matching", "corpus.language")
"""Settings by which an answer is found in a text."""

_SNIPPETS = tuple(f"make_questions.{name}" for name in ("share", "snippets", "per_passage", "seed"))
"""Settings of the snippets that questions are made from."""

_SPLIT = Step(
    name="split",
    version=6,
    function_path="multiview.data.split:split",
    settings=("corpus", "questions"),
    inputs=(),
    outputs=(names.PASSAGES, names.TRAIN_QUESTIONS, names.DEV_QUESTIONS),
    fingerprint_path="multiview.data.split:sources_fingerprint",
)

STEPS = (
    _SPLIT,
    replace(
        _SPLIT,
        name="split-again",
        inputs=("known",),
        unkeyed_inputs=("known",),
        supersedes="known",
        outputs=(*_SPLIT.outputs, names.LOST_QUESTIONS),
    ),
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
        function_path="multiview.negatives.cross_encoder:teach",
        settings=("mining.cross_encoder", "encode"),
        inputs=("passages", "questions", "hard_negatives"),
        outputs=(names.NEGATIVES,),
        fingerprint_path="multiview.negatives.mined:teacher_fingerprint",
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
    Step(
        name="initial-generator",
        version=1,
        function_path="multiview.generation.generators:initial_generator",
        settings=("generation.model",),
        inputs=(),
        outputs=(names.GENERATOR,),
        fingerprint_path="multiview.generation.generators:generator_fingerprint",
    ),
    Step(
        name="train-generator",
        version=1,
        function_path="multiview.generation.train:train_generator",
        settings=("generation.train", *PAIRS),
        inputs=("base", "passages", "questions"),
        outputs=(names.GENERATOR,),
        checkpoints=True,
        gpu=True,
    ),
    Step(
        name="generate-queries",
        version=1,
        function_path="multiview.generation.generate:generate_queries",
        settings=(*SAMPLING, *PAIRS),
        inputs=("generator", "passages"),
        outputs=(names.QUERIES,),
        sharded=True,
        checkpoints=True,
        gpu=True,
    ),
    Step(
        name="gather-queries",
        version=1,
        function_path="multiview.data.queries:gather_queries",
        settings=(),
        inputs=("parts",),
        list_inputs=("parts",),
        outputs=(names.QUERIES,),
    ),
    Step(
        name="evaluate-queries",
        version=2,
        function_path="multiview.generation.evaluate:evaluate_queries",
        settings=("generation.queries",),
        inputs=("queries", "questions"),
        list_inputs=("queries",),
        outputs=(names.QUERY_EVALUATION,),
    ),
    Step(
        name="crop-questions",
        version=1,
        function_path="multiview.generation.make_questions:crop_questions",
        settings=(*_SNIPPETS, "make_questions.longest", "corpus.language"),
        inputs=("passages",),
        outputs=(names.DRAFTS,),
        sharded=True,
    ),
    Step(
        name="generate-questions",
        version=1,
        function_path="multiview.generation.make_questions:generate_questions",
        settings=(*_SNIPPETS, *(name for name in SAMPLING if name != "generation.queries"), *PAIRS),
        inputs=("generator", "passages"),
        outputs=(names.DRAFTS,),
        sharded=True,
        checkpoints=True,
        gpu=True,
    ),
    Step(
        name="make-questions",
        version=2,
        function_path="multiview.generation.make_questions:make_questions",
        settings=(
            "make_questions.found_within",
            *(
                f"questions.{name}"
                for name in ("origin", "dev_share", "limit", "dev_limit", "one_per_passage", "seed")
            ),
            "bm25.k1",
            "bm25.b",
            "corpus.language",
        ),
        inputs=("passages", "drafts"),
        list_inputs=("drafts",),
        outputs=(names.TRAIN_QUESTIONS, names.DEV_QUESTIONS),
    ),
)
