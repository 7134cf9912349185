"""The model card of an exported model, README.md: what it is, how it is used, and what the store knows of its base,
corpus and trainings, with the front matter that the Hugging Face hub reads."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import jinja2
import yaml
from markupsafe import Markup

from multiview import names
from multiview.artifacts.record import Artifact, load_record
from multiview.config import JsonObject, Model, Train
from multiview.data import cjk
from multiview.errors import InputError, counted
from multiview.lineage.trace import corpus_name
from multiview.model.encoder import score_scale
from multiview.model.layouts import LAYOUTS

OWN_SENTENCES = {"english", *cjk.LANGUAGES}
"""Languages whose sentences need no data from elsewhere."""
EXAMPLE = {"title": "Tower", "text": "It was built by the king. He died in 1850."}
POOLED = {
    "viewer": "the last hidden state of its token",
    "snippet": "the mean of its tokens' last hidden states",
    "last": "the last hidden state of its last token",
    "both": "the last hidden state of its token plus the mean of its tokens'",
}


@dataclass(frozen=True)
class Description:
    """What the records tell of a model."""

    digest: str = ""
    """The model's digest; empty for a model without records."""
    base: str = ""
    """The base model: a name of the hub with its commit, or the digest of its files."""
    hub: str | None = None
    """Name of the base model on the hub."""
    corpus: str = ""
    """Names of the corpus's files, `+` between them."""
    passages: int | None = None
    stages: list[str] = field(default_factory=list)
    """Trainings in their order: on how many questions, from which files, with what settings."""
    language: str = "english"
    """`corpus.language`, by which texts were split into sentences."""
    padding_views: bool = False
    """`encode.index_padding_views` of the index."""
    question_length: int | None = None
    """`encode.question_length` of the index; None for that of the model."""


def read_subject(address: str) -> tuple[Artifact, Artifact | None]:
    """Returns the model at an address, or the index there and its model. Raises InputError for anything else."""
    found = load_record(address)
    if found.record.kind == names.MODEL:
        return found, None
    model = found.input("model") if found.record.kind == names.INDEX else None
    if model is None:
        raise InputError(f"{address} is neither a model nor an index with a model: give the address of one")
    return model, found


def question_length(index: Artifact | None) -> int | None:
    """Returns the longest question that an index takes, in tokens; None if that is its model's."""
    return index.record.config.get("encode", {}).get("question_length") if index else None


def describe(model: Artifact, index: Artifact | None = None) -> Description:
    """Returns the description of a model; with `index`, the corpus is that of the index."""
    records = list(_trainings(model))
    base = records[0].record.sources if records else {}
    trained = [record for record in records if record.record.step in ("warm-up", "train")]
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
        language=corpus.config.get("corpus", {}).get("language", "english") if corpus else "english",
        padding_views=encode.get("index_padding_views", False),
        question_length=question_length(index),
    )


def _trainings(model: Artifact) -> Iterator[Artifact]:
    """Yields the models that a model was trained from, in order, and itself last."""
    if start := model.remembered_input("start"):
        yield from _trainings(start)
    yield model


def _base_name(base: JsonObject) -> str:
    if "hub" in base:
        return f"{base['hub']} at {base['commit']}"
    digest = base.get("files") or base.get("checksums")
    return f"a checkpoint with digest {digest}" if digest else ""


def _stage(model: Artifact) -> str:
    record, questions = model.record, model.remembered_input("questions")
    settings, facts = record.config.get("train", {}), record.facts
    told = [f"{name}: {value}" for name, value in settings.items()]
    read = settings.get("negatives", Train().negatives)
    if read and (negatives := model.remembered_input("negatives")):
        # A cross-encoder may have scored them.
        negatives = negatives.remembered_input("hard_negatives") or negatives
        told.append(f"hard negatives by step {negatives.record.step}")
    count = counted(facts["questions"], "question") if "questions" in facts else "questions"
    if record.step == "warm-up":
        count += ", generated from the passages"
    elif questions and (how := questions.record.facts.get(names.GENERATED)):
        count += f", generated from the corpus ({how})"
    elif questions and (files := questions.record.sources.get("questions")):
        count += f" of {', '.join(file['name'] for file in files)}"
    steps = [counted(facts["steps"], "step")] if "steps" in facts else []
    if facts.get("best_step", facts.get("steps")) != facts.get("steps"):
        steps.append(f"the model of step {facts['best_step']}")
    return "; ".join([count, *steps, *told])


def model_card(
    name: str, settings: Model, dimension: int, separator: str | None, described: Description
) -> str:
    """Returns the card of the model `name`. Texts from outside, such as names of sources, are escaped and stand in
    HTML. `separator` stands between title and text if sentence-transformers loads the model by itself, else None."""
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
    body = environment.get_template("model_card.md").render(
        name=name,
        settings=settings,
        dimension=dimension,
        pooled=POOLED[settings.pooling],
        scale=score_scale(settings),
        example=EXAMPLE if separator is None else separator.join(EXAMPLE.values()),
        alone=separator is not None,
        separator=separator,
        described=described,
        by_nltk=LAYOUTS[settings.architecture].reads_sentences and described.language not in OWN_SENTENCES,
    )
    # No licence and no language, because the store knows neither.
    front: JsonObject = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "feature-extraction",
        "tags": ["sentence-transformers", "multi-vector", "multiview", settings.architecture],
        **({"base_model": described.hub} if described.hub else {}),
    }
    return f"---\n{yaml.safe_dump(front, sort_keys=False, allow_unicode=True)}---\n\n{body}"
