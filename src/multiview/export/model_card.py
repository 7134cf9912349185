"""The model card of an exported model, README.md: what it is, how it is used, and what the store knows of its base,
corpus, trainings and evaluations, with the front matter that the Hugging Face hub reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import jinja2
import yaml
from markupsafe import Markup

from multiview import metric_names, names
from multiview.artifacts.record import Artifact, load_record, read_record
from multiview.config import JsonObject, Model
from multiview.errors import InputError, counted
from multiview.evaluation.files import metrics_of
from multiview.evaluation.tables import metric_columns
from multiview.lineage.trace import corpus_name
from multiview.model.encoder import score_scale

EXAMPLE = {"title": "Tower", "text": "It was built by the king. He died in 1850."}
"""The card's passage."""

POOLED = {
    "viewer": "the last hidden state of its token",
    "snippet": "the mean of its tokens' last hidden states",
    "both": "the last hidden state of its token plus the mean of its tokens'",
}


@dataclass(frozen=True)
class Evaluation:
    """The figures of one evaluation, and what was measured."""

    questions: str
    index: str
    metrics: dict[str, float]
    """Metric to share."""


@dataclass(frozen=True)
class Description:
    """A model by its records."""

    digest: str = ""
    """The model's digest; empty where no record tells anything of it."""
    base: str = ""
    """The base model: a name of the hub with its commit, or the digest of its files."""
    hub: str | None = None
    """Name of the base model on the hub."""
    corpus: str = ""
    """Names of the corpus's files, `+` between them."""
    passages: int | None = None
    stages: list[str] = field(default_factory=list)
    """Trainings, the first one first: on how many questions, from which files, with what settings."""
    evaluations: list[Evaluation] = field(default_factory=list)
    language: str = "english"
    """`corpus.language`, by which texts were split into sentences."""
    padding_views: bool = False
    """`encode.index_padding_views` of the index."""


def read_subject(address: str) -> tuple[Artifact, Artifact | None]:
    """Returns the model at an address, or the model of the index there together with that index.

    Raises InputError for an address of anything else.
    """
    found = load_record(address)
    if found.record.kind == names.MODEL:
        return found, None
    model = found.input("model") if found.record.kind == names.INDEX else None
    if model is None:
        raise InputError(f"{address} is neither a model nor an index with a model: give the address of one")
    return model, found


def describe(model: Artifact, index: Artifact | None = None) -> Description:
    """Returns the description of a model; with `index`, the corpus and the evaluations are those of that index."""
    records = list(_trainings(model))
    base = _base(records[0]) if records else {}
    trained = [record for record in records if record.record.step == "train"]
    passages = (index or model).remembered_input("passages")
    corpus = passages.record if passages else None
    encode = index.record.config.get("encode", {}) if index else {}
    return Description(
        digest=model.record.digest,
        base=_base_name(base),
        hub=base.get("hub"),
        corpus=corpus_name(corpus) if corpus else "",
        passages=corpus.facts.get("passages") if corpus else None,
        stages=[_stage(each) for each in trained],
        evaluations=_evaluations(model, index),
        language=corpus.config.get("corpus", {}).get("language", "english") if corpus else "english",
        padding_views=encode.get("index_padding_views", False),
    )


def _trainings(model: Artifact) -> Iterator[Artifact]:
    """Yields the models that a model was trained from, the first one first, itself last."""
    if start := model.remembered_input("start"):
        yield from _trainings(start)
    yield model


def _base(model: Artifact) -> JsonObject:
    """Returns the source that an untrained model was made from."""
    sources = (model.record.sources, *model.record.sources.values())
    return next((s for s in sources if isinstance(s, dict) and {"hub", "files", "checksums"} & s.keys()), {})


def _base_name(base: JsonObject) -> str:
    if "hub" in base:
        return f"{base['hub']} at {base['commit']}"
    digest = base.get("files") or base.get("checksums")
    return f"a checkpoint with digest {digest}" if digest else ""


def _stage(model: Artifact) -> str:
    record = model.record
    told = [f"{name}: {value}" for name, value in record.config.get("train", {}).items()]
    if negatives := model.remembered_input("negatives"):
        told.append(f"hard negatives by step {negatives.record.step}")
    asked, facts = _origin(model.remembered_input("questions"), "questions"), record.facts
    count = counted(facts["questions"], "question") if "questions" in facts else "questions"
    steps = [counted(facts["steps"], "step")] if "steps" in facts else []
    return "; ".join([f"{count}{asked}", *steps, *told])


def _origin(questions: Artifact | None, *uses: str) -> str:
    if questions is None:
        return ""
    if how := questions.record.facts.get(names.GENERATED):
        return f", generated from the corpus ({how})"
    files = next(filter(None, (questions.record.sources.get(use) for use in uses)), [])
    return f" of {', '.join(file['name'] for file in files)}" if files else ""


def _evaluations(model: Artifact, index: Artifact | None) -> list[Evaluation]:
    """Returns the evaluations in the model's store: of `index`, or of any index of the model.

    Their order is that of what they say, and not of their dates, so that no clock decides on the bytes of a card.
    """
    name, digest = ("index", index.record.digest) if index else ("model", model.record.digest)
    store = model.store
    records = (read_record(store, names.EVALUATION, key) for key in store.folders(names.EVALUATION))
    told = (
        _evaluation(Artifact(store, record))
        for record in records
        if record and any(reference.digest == digest for reference in record.inputs.get(name, ()))
    )
    return sorted(told, key=lambda each: (each.questions, each.index, *each.metrics.items()))


def _evaluation(evaluation: Artifact) -> Evaluation:
    questions, passages = (evaluation.remembered_input(name) for name in ("questions", "passages"))
    count = evaluation.record.facts.get("questions")
    asked = counted(count, "question") if count is not None else "Questions"
    among = passages.record.facts.get("passages") if passages else None
    over = counted(among, "passage") if among is not None else "Passages"
    metrics = metrics_of(evaluation.store, evaluation.record)
    return Evaluation(
        f"{asked}{_origin(questions, 'dev_questions', 'questions')}",
        f"{over}{f' of {corpus_name(passages.record)}' if passages else ''}",
        {metric: metrics[metric] for metric in metric_columns({"": metrics})},
    )


def model_card(
    name: str, settings: Model, dimension: int, separator: str | None, described: Description
) -> str:
    """Returns the card of the model `name`, which tells what is `described`.

    `separator` stands between title and text where sentence-transformers loads the model by itself; None where it needs
    our module. Texts from outside, such as the names of sources, are escaped and stand in HTML, which Markdown leaves
    alone.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("multiview.export"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # An empty line would end the HTML around a text; a block of code is shown by Markdown as it is.
    environment.filters["one_line"] = lambda text: " ".join(text.split())
    environment.filters["pythonic"] = lambda value: Markup(repr(value).replace("`", "\\x60"))
    environment.filters["short"] = metric_names.short
    body = environment.get_template("model_card.md").render(
        name=name,
        settings=settings,
        dimension=dimension,
        pooled=POOLED[settings.pooling],
        scale=score_scale(settings),
        example=EXAMPLE if separator is None else separator.join(EXAMPLE.values()),
        alone=separator is not None,
        described=described,
    )
    # No licence and no language, because the store knows neither.
    front: JsonObject = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "feature-extraction",
        "tags": ["sentence-transformers", "multi-vector", "multiview", settings.architecture],
        **({"base_model": described.hub} if described.hub else {}),
    }
    return f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n\n{body}"
