"""The table of steps, with their inputs, outputs and functions."""

from __future__ import annotations

from dataclasses import replace

from multiview import names
from multiview.errors import InputError
from multiview.steps.step import Step

_PAIRS = ("generation.input", "generation.input_length", "generation.max_length")
"""Settings of the query generator's input, and of the length of its queries."""

_SAMPLING = tuple(
    f"generation.{name}" for name in ("queries", "top_k", "top_p", "batch_size", "bucket", "seed", "device")
)

_SNIPPETS = tuple(
    f"make_questions.{name}" for name in ("share", "snippets", "per_passage", "per_snippet", "seed")
)
"""Settings of the snippets that questions are made from."""

_MATCHING = ("questions.answer_matching", "corpus.language")

_SPLIT = Step(
    name="split",
    version=2,
    run="multiview.data.split:split",
    settings=("corpus", "questions"),
    inputs=(),
    outputs=(names.PASSAGES, names.TRAIN_QUESTIONS, names.DEV_QUESTIONS),
    source_fingerprint="multiview.data.split:sources_fingerprint",
)

_BM25 = Step(
    name="evaluate-bm25",
    version=6,
    run="multiview.evaluation.evaluate:evaluate_bm25",
    settings=("evaluation", "bm25", *_MATCHING),
    inputs=("passages", "questions"),
    outputs=(names.EVALUATION,),
    figures="multiview.evaluation.figures:of_evaluation",
)

_CHANGES = Step(
    name="changes",
    version=3,
    run="multiview.refresh.changes:find_changes",
    settings=("corpus.shards", "encode", "refresh.full"),
    inputs=("index", "model", "passages"),
    recorded_inputs=("index", "model"),
    supersedes="index",
    outputs=(names.CHANGES,),
)

STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        _SPLIT,
        replace(_SPLIT, name="split-again", inputs=("known",), unkeyed_inputs=("known",), supersedes="known"),
        Step(
            name="bm25-negatives",
            version=2,
            run="multiview.negatives.bm25:bm25_negatives",
            settings=("bm25", "questions.hard_negatives", *_MATCHING),
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
            name="initial-model",
            version=1,
            run="multiview.model.encoder:initial_model",
            settings=("model",),
            inputs=(),
            outputs=(names.MODEL,),
            source_fingerprint="multiview.model.bases:model_fingerprint",
            torch=True,
        ),
        Step(
            name="train",
            version=4,
            run="multiview.training.train:train",
            settings=("train", *_MATCHING),
            inputs=("start", "passages", "questions", "negatives"),
            outputs=(names.MODEL,),
            checkpoints=True,
            torch=True,
            gpu=True,
        ),
        Step(
            name="initial-generator",
            version=1,
            run="multiview.generation.generators:initial_generator",
            settings=("generation.model",),
            inputs=(),
            outputs=(names.GENERATOR,),
            source_fingerprint="multiview.generation.sources:generator_fingerprint",
            torch=True,
        ),
        Step(
            name="train-generator",
            version=1,
            run="multiview.generation.train:train_generator",
            settings=("generation.train", *_PAIRS),
            inputs=("base", "passages", "questions"),
            outputs=(names.GENERATOR,),
            checkpoints=True,
            torch=True,
            gpu=True,
        ),
        Step(
            name="generate-queries",
            version=1,
            run="multiview.generation.generate:generate_queries",
            settings=(*_SAMPLING, *_PAIRS),
            inputs=("generator", "passages"),
            outputs=(names.QUERIES,),
            sharded=True,
            checkpoints=True,
            torch=True,
            gpu=True,
        ),
        Step(
            name="crop-questions",
            version=1,
            run="multiview.generation.drafts:crop_questions",
            settings=(*_SNIPPETS, "make_questions.shortest", "make_questions.longest", "corpus.language"),
            inputs=("passages",),
            outputs=(names.DRAFTS,),
            sharded=True,
        ),
        Step(
            name="generate-questions",
            version=1,
            run="multiview.generation.drafts:generate_questions",
            settings=(*_SNIPPETS, *(name for name in _SAMPLING if name != "generation.queries"), *_PAIRS),
            inputs=("generator", "passages"),
            outputs=(names.DRAFTS,),
            sharded=True,
            checkpoints=True,
            torch=True,
            gpu=True,
        ),
        Step(
            name="make-questions",
            version=1,
            run="multiview.generation.make_questions:make_questions",
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
        Step(
            name="evaluate-queries",
            version=2,
            run="multiview.generation.evaluate:evaluate_queries",
            settings=("generation.queries",),
            inputs=("queries", "questions"),
            list_inputs=("queries",),
            outputs=(names.QUERY_EVALUATION,),
        ),
        Step(
            name="gather-queries",
            version=1,
            run="multiview.generation.gather:gather_queries",
            settings=(),
            inputs=("parts",),
            list_inputs=("parts",),
            outputs=(names.QUERIES,),
        ),
        Step(
            name="warm-up",
            version=3,
            run="multiview.training.warm_up:warm_up",
            settings=("train",),
            inputs=("start", "passages", "queries"),
            outputs=(names.MODEL,),
            checkpoints=True,
            torch=True,
            gpu=True,
        ),
        Step(
            name="encode-with-queries",
            version=3,
            run="multiview.encoding.encode:encode",
            settings=("encode",),
            inputs=("model", "passages", "queries"),
            outputs=(names.EMBEDDINGS,),
            sharded=True,
            torch=True,
            gpu=True,
        ),
        Step(
            name="encode",
            version=2,
            run="multiview.encoding.encode:encode",
            settings=("encode",),
            inputs=("model", "passages"),
            outputs=(names.EMBEDDINGS,),
            sharded=True,
            torch=True,
            gpu=True,
        ),
        Step(
            name="index",
            version=4,
            run="multiview.index.build:build_index",
            settings=("index", "encode"),
            # The record names the model and passages itself, because embeddings are not kept for ever.
            inputs=("model", "passages", "embeddings"),
            recorded_inputs=("model", "passages"),
            list_inputs=("embeddings",),
            outputs=(names.INDEX,),
        ),
        _CHANGES,
        replace(
            _CHANGES,
            name="changes-with-queries",
            settings=(*_CHANGES.settings, *_SAMPLING, *_PAIRS),
            inputs=(*_CHANGES.inputs, "generator"),
            recorded_inputs=(*_CHANGES.recorded_inputs, "generator"),
        ),
        Step(
            name="refresh-index",
            version=3,
            run="multiview.refresh.index:refresh_index",
            settings=("index", "encode", "refresh.retrain_added", "refresh.retrain_error"),
            inputs=("old", "changes", "model", "passages", "embeddings"),
            recorded_inputs=("model", "passages"),
            list_inputs=("embeddings",),
            supersedes="old",
            outputs=(names.INDEX,),
        ),
        Step(
            name="mine",
            version=4,
            run="multiview.negatives.mined:mine",
            settings=("mining", "encode", *_MATCHING),
            inputs=("model", "index", "passages", "questions", "bm25_negatives"),
            outputs=(names.NEGATIVES,),
            source_fingerprint="multiview.negatives.mined:cross_encoder_fingerprint",
            torch=True,
            gpu=True,
        ),
        Step(
            name="evaluate",
            version=9,
            run="multiview.evaluation.evaluate:evaluate",
            settings=("evaluation", "encode", *_MATCHING),
            inputs=("model", "index", "passages", "questions", "train_questions"),
            outputs=(names.EVALUATION,),
            figures="multiview.evaluation.figures:of_evaluation",
            torch=True,
            gpu=True,
        ),
        _BM25,
        replace(
            _BM25,
            name="evaluate-bm25-with-queries",
            version=1,
            inputs=("passages", "questions", "queries"),
        ),
        Step(
            name="evaluate-fusion",
            version=4,
            run="multiview.evaluation.fusion:evaluate_fusion",
            settings=("evaluation", "comparison.fusion_constant", *_MATCHING),
            inputs=("evaluations", "passages", "questions"),
            list_inputs=("evaluations",),
            outputs=(names.EVALUATION,),
            figures="multiview.evaluation.figures:of_evaluation",
        ),
        Step(
            name="champion",
            version=2,
            run="multiview.refresh.champion:champion",
            settings=("refresh.model", "model.architecture"),
            inputs=(),
            outputs=(names.CHAMPION,),
            forwards=(names.INDEX, names.PASSAGES, names.MODEL, names.CHAMPION_MODEL),
            store_fingerprint="multiview.artifacts.champions:store_fingerprint",
            reads_store=True,
        ),
        Step(
            name="refresh-report",
            version=2,
            run="multiview.report.refreshed:refresh_report",
            settings=(),
            inputs=("promotion", "verdict", "changes", "index"),
            recorded_inputs=("changes", "index"),
            outputs=(names.REPORT,),
            page=names.REPORT_PAGE_FILE,
        ),
        Step(
            name="gate",
            version=1,
            run="multiview.refresh.gate:gate",
            settings=("gate", "comparison.resamples", "comparison.seed"),
            inputs=("champion", "index", "champion_evaluation", "challenger_evaluation"),
            recorded_inputs=("index",),
            outputs=(names.VERDICT,),
            figures="multiview.refresh.gate:figures",
            reads_store=True,
        ),
        Step(
            name="promote",
            version=1,
            run="multiview.refresh.promote:promote",
            settings=("notify",),
            inputs=("champion", "verdict", "index", "model", "passages"),
            recorded_inputs=("index", "model", "passages"),
            outputs=(names.PROMOTION,),
            still_holds="multiview.refresh.promote:still_holds",
            reads_store=True,
        ),
        Step(
            name="champion-now",
            version=1,
            run="multiview.refresh.champion_now:champion_now",
            settings=("export.formats",),
            inputs=("promotion",),
            outputs=(names.CHAMPION_NOW,),
            forwards=(names.INDEX, names.PASSAGES, names.REPLACED, names.REPLACED_PASSAGES),
            reads_store=True,
        ),
        Step(
            name="export",
            version=1,
            run="multiview.export.step:export",
            settings=("export.formats",),
            # An index is read with the model and the passages that its record names. Its digest does not cover the
            # corpus's own columns, that of the passages does.
            inputs=(names.INDEX, names.PASSAGES, names.REPLACED, names.REPLACED_PASSAGES),
            recorded_inputs=(names.INDEX, names.PASSAGES, names.REPLACED, names.REPLACED_PASSAGES),
            outputs=(names.EXPORT,),
            supersedes=names.REPLACED,
            reads_store=True,
            torch=True,
        ),
        Step(
            name="follow-champion",
            version=1,
            run="multiview.export.following:follow",
            settings=("export.qdrant_url", "export.alias", "export.keep"),
            inputs=("promotion",),
            outputs=(names.FOLLOWED,),
            still_holds="multiview.export.following:still_follows",
            reads_store=True,
            torch=True,
        ),
        Step(
            name="compare",
            version=6,
            run="multiview.evaluation.compare:compare",
            settings=(
                "comparison.rows",
                "comparison.seeds_of",
                "comparison.paper",
                "comparison.baseline",
                "comparison.resamples",
                "comparison.seed",
            ),
            inputs=("evaluations",),
            list_inputs=("evaluations",),
            outputs=(names.COMPARISON,),
            figures="multiview.evaluation.figures:of_comparison",
        ),
        Step(
            name="report",
            version=2,
            run="multiview.report.page:report",
            settings=("comparison.rows",),
            inputs=("comparison", "evaluations"),
            list_inputs=("evaluations",),
            outputs=(names.REPORT,),
            page=names.REPORT_PAGE_FILE,
        ),
    )
}


GPU_STEPS = {step.name for step in STEPS.values() if step.gpu}
"""Names of the steps that use a GPU."""


def step(name: str) -> Step:
    """Returns the step called `name`. Raises InputError for an unknown step."""
    try:
        return STEPS[name]
    except KeyError:
        raise InputError(f"there is no step {name!r}; steps are {', '.join(STEPS)}") from None
