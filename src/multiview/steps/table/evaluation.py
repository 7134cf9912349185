"""Steps that measure systems and compare them."""

from __future__ import annotations

from dataclasses import replace

from multiview import names
from multiview.steps.step import Step
from multiview.steps.table.settings import MATCHING

_BM25 = Step(
    name="evaluate-bm25",
    version=7,
    run="multiview.evaluation.evaluate:evaluate_bm25",
    settings=("evaluation", "bm25", *MATCHING),
    inputs=("passages", "questions"),
    outputs=(names.EVALUATION,),
    figures="multiview.evaluation.figures:of_evaluation",
)

STEPS = (
    Step(
        name="evaluate",
        version=12,
        run="multiview.evaluation.evaluate:evaluate",
        settings=("evaluation", "encode", *MATCHING),
        inputs=("model", "index", "passages", "questions", "train_questions"),
        streamed="multiview.index.view_index:streamed_files",
        outputs=(names.EVALUATION,),
        figures="multiview.evaluation.figures:of_evaluation",
        gpu=True,
    ),
    _BM25,
    replace(
        _BM25,
        name="evaluate-bm25-with-queries",
        version=2,
        inputs=("passages", "questions", "queries"),
    ),
    Step(
        name="evaluate-fusion",
        version=4,
        run="multiview.evaluation.fusion:evaluate_fusion",
        settings=("evaluation", "comparison.fusion_constant", *MATCHING),
        inputs=("evaluations", "passages", "questions"),
        list_inputs=("evaluations",),
        outputs=(names.EVALUATION,),
        figures="multiview.evaluation.figures:of_evaluation",
    ),
    Step(
        name="compare",
        version=7,
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
        traced_inputs=("evaluations",),  # for the settings in which systems differ, and what they cost
        outputs=(names.COMPARISON,),
        figures="multiview.evaluation.figures:of_comparison",
    ),
    Step(
        name="report",
        version=4,
        run="multiview.report.page:report",
        settings=("comparison.rows",),
        inputs=("comparison", "evaluations"),
        list_inputs=("evaluations",),
        traced_inputs=("evaluations",),
        outputs=(names.REPORT,),
        page=names.REPORT_PAGE_FILE,
    ),
)
