"""The steps: what each reads, writes and runs. The one table that says so."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from multiview import names
from multiview.artifacts.store import Store
from multiview.config import Config, Section, canonical_json
from multiview.errors import InputError

HANDED_ON_FILE = "handed_on.json"
"""A step's file with the references of the artifacts that it hands on, by output."""


@dataclass(frozen=True)
class Step:
    """A kind of step. `version` rises whenever the same inputs would give another output."""

    name: str
    version: int
    run: str
    """The function that does the work, as `module:function`; imported only when there is work."""
    settings: tuple[str, ...]
    """Sections that it reads, whole (`encode`) or one setting of them (`questions.seed`)."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    """Kinds of its artifacts."""
    sources: str | None = None
    """A function (settings) -> JSON that fingerprints what is read from outside the store."""
    lists: tuple[str, ...] = ()
    """Inputs that are lists of artifacts."""
    shards: bool = False
    """Whether it works on one shard of its passages."""
    checkpoints: bool = False
    """Whether its function takes `checkpoints`, from which an interrupted one goes on."""
    together: bool = False
    """Whether several nodes can do it together."""
    torch: bool = False
    """Whether it imports torch, which takes seconds."""
    named: tuple[str, ...] = ()
    """Inputs that its record names and that are not staged."""
    standing: str | None = None
    """A function (store, settings) -> JSON that tells what it reads of the store beside its inputs, for its key."""
    store: bool = False
    """Whether its function takes the `store`."""
    hands_on: tuple[str, ...] = ()
    """Further outputs: artifacts that are there already, which the first output names in `HANDED_ON_FILE`."""
    page: str | None = None
    """A file of its first output, which Kubeflow's pages show in the record's place."""

    @property
    def by_shard(self) -> tuple[str, ...]:
        """Inputs of which a step on one shard reads that shard's file alone."""
        return tuple(name for name in ("passages", "queries") if self.shards and name in self.inputs)

    def configure(self, config: Config) -> str:
        """The canonical JSON of the settings that this step reads."""
        settings: dict[str, dict[str, Any]] = {}
        for setting in self.settings:
            section, _, name = setting.partition(".")
            values = getattr(config, section).model_dump(mode="json")
            settings.setdefault(section, {}).update({name: values[name]} if name else values)
        return canonical_json(settings)

    def parse(self, config: str) -> SimpleNamespace:
        """The settings object that the step's function gets, from `configure`'s JSON."""
        sections = {}
        for name, values in json.loads(config).items():
            section_class: type[Section] = Config.model_fields[name].annotation  # type: ignore[assignment]
            sections[name] = section_class.model_validate(values)
        return SimpleNamespace(**sections)

    def key_settings(self, settings: SimpleNamespace) -> dict[str, Any]:
        """The settings that change the output, as the key and the record have them."""
        return {name: section.key_settings() for name, section in vars(settings).items()}

    def key(self, settings: SimpleNamespace, digests: Mapping[str, Any], sources: Any) -> str:
        """The key of the step's outputs: a digest of all that decides their bytes."""
        return key_of(self.name, self.version, self.key_settings(settings), digests, sources)

    def function(self) -> Any:
        return load_function(self.run)

    def fingerprint(self, settings: SimpleNamespace, store: Store) -> Any:
        """What decides its outputs beside settings and inputs: sources by content, and what stands in the store."""
        if self.standing:
            return load_function(self.standing)(store, settings)
        return load_function(self.sources)(settings) if self.sources else {}


def key_of(
    step: str, version: int, config: Mapping[str, Any], digests: Mapping[str, Any], sources: Any
) -> str:
    """The key of what a step makes, from what its record says of it."""
    identity = {
        "step": step,
        "version": version,
        "config": config,
        "inputs": dict(digests),
        "sources": sources,
    }
    return hashlib.sha256(canonical_json(identity).encode()).hexdigest()[:32]


def load_function(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


_PAIRS = ("generation.input", "generation.input_length", "generation.max_length")
"""What the query generator reads, and how long its queries are."""

_SAMPLING = tuple(
    f"generation.{name}" for name in ("queries", "top_k", "top_p", "batch_size", "bucket", "seed", "device")
)

_MATCHING = ("questions.answer_matching", "corpus.language")

STEPS: dict[str, Step] = {
    step.name: step
    for step in (
        Step(
            name="split",
            version=2,
            run="multiview.data.split:split",
            settings=("corpus", "questions"),
            inputs=(),
            outputs=(names.PASSAGES, names.TRAIN_QUESTIONS, names.DEV_QUESTIONS),
            sources="multiview.data.split:fingerprint",
        ),
        Step(
            name="bm25-negatives",
            version=1,
            run="multiview.negatives.bm25:bm25_negatives",
            settings=("bm25", *_MATCHING),
            inputs=("passages", "questions"),
            outputs=(names.NEGATIVES,),
        ),
        Step(
            name="initial-model",
            version=1,
            run="multiview.model.encoder:initial_model",
            settings=("model",),
            inputs=(),
            outputs=(names.MODEL,),
            sources="multiview.model.bases:fingerprint",
            torch=True,
        ),
        Step(
            name="train",
            version=2,
            run="multiview.training.train:train",
            settings=("train", "questions.answer_matching"),
            inputs=("start", "passages", "questions", "negatives"),
            outputs=(names.MODEL,),
            checkpoints=True,
            together=True,
            torch=True,
        ),
        Step(
            name="initial-generator",
            version=1,
            run="multiview.generation.generators:initial_generator",
            settings=("generation.model",),
            inputs=(),
            outputs=(names.GENERATOR,),
            sources="multiview.generation.sources:fingerprint",
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
        ),
        Step(
            name="generate-queries",
            version=1,
            run="multiview.generation.generate:generate_queries",
            settings=(*_SAMPLING, *_PAIRS),
            inputs=("generator", "passages"),
            outputs=(names.QUERIES,),
            shards=True,
            checkpoints=True,
            torch=True,
        ),
        Step(
            name="evaluate-queries",
            version=1,
            run="multiview.generation.evaluate:evaluate_queries",
            settings=("generation.queries",),
            inputs=("queries", "questions"),
            lists=("queries",),
            outputs=(names.QUERY_EVALUATION,),
        ),
        Step(
            name="gather-queries",
            version=1,
            run="multiview.generation.gather:gather_queries",
            settings=(),
            inputs=("parts",),
            lists=("parts",),
            outputs=(names.QUERIES,),
        ),
        Step(
            name="warm-up",
            version=1,
            run="multiview.training.warm_up:warm_up",
            settings=("train",),
            inputs=("start", "passages", "queries"),
            outputs=(names.MODEL,),
            checkpoints=True,
            together=True,
            torch=True,
        ),
        Step(
            name="encode-with-queries",
            version=1,
            run="multiview.encoding:encode",
            settings=("encode",),
            inputs=("model", "passages", "queries"),
            outputs=(names.EMBEDDINGS,),
            shards=True,
            torch=True,
        ),
        Step(
            name="encode",
            version=1,
            run="multiview.encoding:encode",
            settings=("encode",),
            inputs=("model", "passages"),
            outputs=(names.EMBEDDINGS,),
            shards=True,
            torch=True,
        ),
        Step(
            name="index",
            version=2,
            run="multiview.indexing:build_index",
            settings=("index", "encode"),
            # What it answers with, said by its own record: embeddings are not kept for ever.
            inputs=("model", "passages", "embeddings"),
            named=("model", "passages"),
            lists=("embeddings",),
            outputs=(names.INDEX,),
        ),
        Step(
            name="changes",
            version=1,
            run="multiview.refresh.changes:find_changes",
            settings=("corpus.shards", "encode", "refresh.full"),
            inputs=("index", "model", "passages"),
            named=("index", "model"),
            outputs=(names.CHANGES,),
        ),
        Step(
            name="refresh-index",
            version=1,
            run="multiview.refresh.indexing:refresh_index",
            settings=("index", "encode", "refresh.retrain_added", "refresh.retrain_error"),
            inputs=("old", "changes", "model", "passages", "embeddings"),
            named=("model", "passages"),
            lists=("embeddings",),
            outputs=(names.INDEX,),
        ),
        Step(
            name="mine",
            version=2,
            run="multiview.negatives.mined:mine",
            settings=("mining", "encode", "questions.answer_matching"),
            inputs=("model", "index", "passages", "questions", "bm25_negatives"),
            outputs=(names.NEGATIVES,),
            sources="multiview.negatives.mined:fingerprint",
            torch=True,
        ),
        Step(
            name="evaluate",
            version=5,
            run="multiview.evaluation.evaluate:evaluate",
            settings=("evaluation", "encode", "questions.answer_matching"),
            inputs=("model", "index", "passages", "questions", "train_questions"),
            outputs=(names.EVALUATION,),
            torch=True,
        ),
        Step(
            name="evaluate-bm25",
            version=5,
            run="multiview.evaluation.evaluate:evaluate_bm25",
            settings=("evaluation", "bm25", *_MATCHING),
            inputs=("passages", "questions"),
            outputs=(names.EVALUATION,),
        ),
        Step(
            name="evaluate-fusion",
            version=4,
            run="multiview.evaluation.fusion:evaluate_fusion",
            settings=("evaluation", "comparison.fusion_constant", "questions.answer_matching"),
            inputs=("evaluations", "passages", "questions"),
            lists=("evaluations",),
            outputs=(names.EVALUATION,),
        ),
        Step(
            name="champion",
            version=1,
            run="multiview.refresh.standing:champion",
            settings=("refresh.model", "model.architecture"),
            inputs=(),
            outputs=(names.CHAMPION,),
            hands_on=(names.INDEX, names.PASSAGES, names.MODEL, names.CHAMPION_MODEL),
            standing="multiview.refresh.champions:standing",
            store=True,
        ),
        Step(
            name="refresh-report",
            version=1,
            run="multiview.report.refreshed:refresh_report",
            settings=(),
            inputs=("promotion", "verdict", "changes", "index"),
            named=("changes", "index"),
            outputs=(names.REPORT,),
            page=names.REPORT_FILE,
        ),
        Step(
            name="gate",
            version=1,
            run="multiview.refresh.gate:gate",
            settings=("gate", "comparison.resamples", "comparison.seed"),
            inputs=("champion", "index", "champion_evaluation", "challenger_evaluation"),
            named=("index",),
            outputs=(names.VERDICT,),
        ),
        Step(
            name="promote",
            version=1,
            run="multiview.refresh.promote:promote",
            settings=("notify",),
            inputs=("champion", "verdict", "index", "model", "passages"),
            named=("index", "model", "passages"),
            outputs=(names.PROMOTION,),
            store=True,
        ),
        Step(
            name="compare",
            version=5,
            run="multiview.evaluation.compare:compare",
            settings=(
                "comparison.rows",
                "comparison.seeds_of",
                "comparison.baseline",
                "comparison.resamples",
                "comparison.seed",
            ),
            inputs=("evaluations",),
            lists=("evaluations",),
            outputs=(names.COMPARISON,),
        ),
        Step(
            name="report",
            version=1,
            run="multiview.report.page:report",
            settings=("comparison.rows",),
            inputs=("comparison", "evaluations"),
            lists=("evaluations",),
            outputs=(names.REPORT,),
            page=names.REPORT_FILE,
        ),
    )
}


def step(name: str) -> Step:
    """Raises InputError for an unknown step."""
    try:
        return STEPS[name]
    except KeyError:
        raise InputError(f"there is no step {name!r}; steps are {', '.join(STEPS)}") from None
