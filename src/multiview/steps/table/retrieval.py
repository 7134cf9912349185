"""Steps that encode passages, build indexes, measure systems and compare them."""

from dataclasses import replace

from multiview import names
from multiview.steps.step import Step
from multiview.steps.table.training import MATCHING, VIEWS

_BM25 = Step(
    name="evaluate-bm25",
    about="Metrics of BM25 on the dev questions.",
    version=7,
    function_path="multiview.evaluation.evaluate:evaluate_bm25",
    settings=("evaluation", "bm25", *MATCHING),
    inputs=("passages", "questions"),
    outputs=(names.EVALUATION,),
)

_ENCODE = Step(
    name="encode",
    about="Views of the passages of one shard.",
    version=10,
    function_path="multiview.encoding.encode:encode",
    settings=(*VIEWS, "encode.device"),
    inputs=("model", "passages"),
    outputs=(names.EMBEDDINGS,),
    sharded=True,
    gpu=True,
)

SEARCH_SETTINGS = ("search", "bm25.k1", "bm25.b", "corpus.language")
"""Settings of an index that does not rank by views alone."""

_INDEX = Step(
    name="index",
    about="The search index over the views of all shards.",
    version=10,
    function_path="multiview.index.build:build_index",
    settings=("index", "encode"),
    # The record names the model and passages itself, because embeddings are not kept for ever.
    inputs=("model", "passages", "embeddings"),
    recorded_inputs=("model", "passages"),
    list_inputs=("embeddings",),
    outputs=(names.INDEX,),
)

STEPS = (
    _ENCODE,
    replace(
        _ENCODE,
        name="encode-with-queries",
        about="Views of the passages of one shard, each read with its generated queries.",
        inputs=("model", "passages", "queries"),
    ),
    _INDEX,
    replace(
        _INDEX,
        name="index-with-search",
        about="The search index over the views of all shards, with BM25's or a reranker.",
        version=2,
        function_path="multiview.index.build:build_index_with_search",
        settings=(*_INDEX.settings, *SEARCH_SETTINGS),
        recorded_inputs=("model",),
        fingerprint_path="multiview.index.ranker:reranker_fingerprint",
    ),
    Step(
        name="evaluate",
        about="Metrics of an index on the dev questions, and analyses of its model.",
        version=23,
        function_path="multiview.evaluation.evaluate:evaluate",
        settings=("evaluation", "encode.device", *MATCHING),
        inputs=("model", "index", "passages", "questions", "train_questions"),
        traced_inputs=("index",),  # for the settings that questions are encoded with
        outputs=(names.EVALUATION,),
        gpu=True,
    ),
    _BM25,
    replace(
        _BM25,
        name="evaluate-bm25-with-queries",
        about="Metrics of BM25 over passages with their generated queries (DocT5Query) on the dev questions.",
        version=2,
        inputs=("passages", "questions", "queries"),
    ),
    Step(
        name="compare",
        about="One table of all evaluations.",
        version=10,
        function_path="multiview.evaluation.compare:compare",
        settings=tuple(f"comparison.{name}" for name in ("rows", "seeds_of", "paper", "baseline", "seed")),
        inputs=("evaluations",),
        list_inputs=("evaluations",),
        traced_inputs=("evaluations",),  # for the settings in which systems differ, and what they cost
        outputs=(names.COMPARISON,),
    ),
    Step(
        name="report",
        about="One page about a comparison.",
        version=10,
        function_path="multiview.report.page:report",
        settings=("comparison.rows",),
        inputs=("comparison", "evaluations"),
        list_inputs=("evaluations",),
        traced_inputs=("evaluations",),
        outputs=(names.REPORT,),
    ),
)
