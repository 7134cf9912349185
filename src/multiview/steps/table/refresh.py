"""Steps of a refresh."""

from dataclasses import replace

from multiview import names
from multiview.config import Model
from multiview.steps.step import Step
from multiview.steps.table.retrieval import SEARCH_SETTINGS
from multiview.steps.table.training import PAIRS, SAMPLING, VIEWS

_CHANGES = Step(
    name="changes",
    about="Changes of the corpus since an index was built.",
    version=7,
    function_path="multiview.refresh.changes:find_changes",
    settings=("corpus.shards", *VIEWS, "index.merge_views", "refresh.full"),
    inputs=("index", "model", "passages"),
    recorded_inputs=("index", "model"),
    fingerprint_path="multiview.refresh.changes:versions_fingerprint",
    supersedes="index",
    outputs=(names.CHANGES,),
)

_REFRESH_INDEX = Step(
    name="refresh-index",
    about="Index of the changed corpus, made from the old index and the embeddings of new passages.",
    version=11,
    function_path="multiview.refresh.index:refresh_index",
    settings=("index", "encode"),
    inputs=("old", "changes", "model", "passages", "embeddings"),
    recorded_inputs=("model", "passages"),
    list_inputs=("embeddings",),
    supersedes="old",
    outputs=(names.INDEX,),
)

STEPS = (
    Step(
        name="champion",
        about="The champion's index and passages, and the model to encode with.",
        version=3,
        function_path="multiview.refresh.champion:champion",
        # All that a model is saved with, to refuse other settings.
        settings=(
            *("refresh.model", "evaluation.views", "index.kind", "index.merge_views"),
            *(f"model.{name}" for name in Model.model_fields if name not in ("base", "seed")),
        ),
        outputs=(names.CHAMPION,),
        forwards=(names.INDEX, names.PASSAGES, names.MODEL, names.CHAMPION_MODEL),
        fingerprint_path="multiview.artifacts.champions:store_fingerprint",
        reads_store=True,
    ),
    _CHANGES,
    replace(
        _CHANGES,
        name="changes-with-queries",
        about="Changes of the corpus since an index of passages with generated queries was built.",
        version=8,
        settings=(*_CHANGES.settings, *SAMPLING, *PAIRS),
        inputs=(*_CHANGES.inputs, "generator"),
        recorded_inputs=(*_CHANGES.recorded_inputs, "generator"),
    ),
    _REFRESH_INDEX,
    replace(
        _REFRESH_INDEX,
        name="refresh-index-with-search",
        about="Index of the changed corpus, with BM25's or a reranker, made from the old index and the new passages.",
        version=4,
        function_path="multiview.refresh.index:refresh_index_with_search",
        settings=(*_REFRESH_INDEX.settings, *SEARCH_SETTINGS),
        recorded_inputs=("model",),
        fingerprint_path="multiview.index.ranker:reranker_fingerprint",
    ),
    Step(
        name="gate",
        about="Verdict on whether the challenger becomes the champion.",
        version=7,
        function_path="multiview.refresh.gate:gate",
        settings=("gate", "comparison.seed"),
        # It decides by the digests of the index and of its passages, whose own columns the index's does not cover.
        inputs=(
            "champion",
            "index",
            "passages",
            "champion_evaluation",
            "challenger_evaluation",
            names.LOST_QUESTIONS,
        ),
        recorded_inputs=("index", "passages"),
        traced_inputs=("index",),  # for the question length of its settings
        outputs=(names.VERDICT,),
        reads_store=True,
    ),
    Step(
        name="promote",
        about="Promotion of the challenger to champion, where the verdict says so.",
        version=1,
        function_path="multiview.refresh.gate:promote",
        settings=("notify",),
        inputs=("champion", "verdict", "index", "model", "passages"),
        recorded_inputs=("index", "model", "passages"),
        traced_inputs=("index",),  # the champion's question length is that of its settings
        outputs=(names.PROMOTION,),
        still_holds="multiview.refresh.gate:still_holds",
        reads_store=True,
    ),
    Step(
        name="champion-now",
        about="The champion after the verdict.",
        version=2,
        function_path="multiview.refresh.champion:champion_now",
        inputs=("promotion",),
        outputs=(names.CHAMPION_NOW,),
        forwards=(names.INDEX, names.PASSAGES),
        reads_store=True,
    ),
    Step(
        name="export",
        about="Files of the champion's index for other systems.",
        version=6,
        function_path="multiview.export.step:export",
        settings=("export.formats",),
        # An index is read with the model and the passages that its record names. Its digest does not cover the
        # corpus's own columns, that of the passages does.
        inputs=(names.INDEX, names.PASSAGES),
        recorded_inputs=(names.INDEX, names.PASSAGES),
        traced_inputs=(names.INDEX,),  # for the question length of its settings
        outputs=(names.EXPORT,),
        reads_store=True,
    ),
    Step(
        name="follow-champion",
        about="The champion's collection in a vector database, and the alias that refers to it.",
        version=2,
        function_path="multiview.export.step:follow",
        settings=("export.qdrant_url", "export.alias", "export.keep"),
        inputs=("promotion",),
        outputs=(names.FOLLOWED,),
        still_holds="multiview.export.step:still_follows",
        reads_store=True,
    ),
    Step(
        name="refresh-report",
        about="One page about a refresh.",
        version=6,
        function_path="multiview.report.page:refresh_report",
        inputs=("promotion", "verdict", "changes", "index", "evaluation"),
        recorded_inputs=("changes", "index"),
        outputs=(names.REPORT,),
    ),
)
