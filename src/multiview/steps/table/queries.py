"""Steps that generate queries and questions."""

from __future__ import annotations

from multiview import names
from multiview.steps.step import Step
from multiview.steps.table.settings import PAIRS, SAMPLING

_SNIPPETS = tuple(f"make_questions.{name}" for name in ("share", "snippets", "per_passage", "seed"))
"""Settings of the snippets that questions are made from."""

STEPS = (
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
