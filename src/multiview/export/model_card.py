"""The model card of an exported model: README.md with the front matter that the Hugging Face hub reads."""

from __future__ import annotations

from collections.abc import Sequence

import jinja2
import yaml
from markupsafe import Markup

from multiview import metric_names
from multiview.config import JsonObject, Model
from multiview.export.description import Description
from multiview.export.passage_inputs import PassageInput
from multiview.model.encoder import score_scale

POOLED = {
    "viewer": "the last hidden state of its token",
    "snippet": "the mean of its tokens' last hidden states",
    "both": "the last hidden state of its token plus the mean of its tokens'",
}


def model_card(
    name: str,
    settings: Model,
    dimension: int,
    example: Sequence[PassageInput],
    alone: bool,
    described: Description | None = None,
) -> str:
    """Returns the card of the model `name`: what it is, how it is used, and, where `described`, its training and evaluation.

    `example` is what `encode_document` takes for one passage, and `alone` whether sentence-transformers loads the model
    by itself. Texts from outside, such as the names of sources, are escaped and stand in HTML, which Markdown leaves
    alone.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("multiview.export"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"short": metric_names.short, "one_line": _one_line, "pythonic": _pythonic}
    body = environment.get_template("model_card.md").render(
        name=name,
        settings=settings,
        dimension=dimension,
        pooled=POOLED[settings.pooling],
        scale=score_scale(settings),
        example=list(example),
        marked=settings.architecture in ("camvr", "dual-cross"),
        several=settings.architecture in ("dual-cross", "sentence", "equal-splits"),
        alone=alone,
        described=described,
    )
    front = yaml.safe_dump(front_matter(settings, described), sort_keys=False, allow_unicode=True)
    return f"---\n{front}---\n\n{body}"


def front_matter(settings: Model, described: Description | None) -> JsonObject:
    """Returns what the hub reads; no licence and no language, because the store knows neither."""
    matter: JsonObject = {
        "library_name": "sentence-transformers",
        "pipeline_tag": "feature-extraction",
        "tags": ["sentence-transformers", "multi-vector", "multiview", settings.architecture],
    }
    if described and described.hub:
        matter["base_model"] = described.hub
    return matter


def _one_line(text: str) -> str:
    """Returns `text` without line breaks: an empty line would end the HTML around it."""
    return " ".join(text.split())


def _pythonic(value: object) -> Markup:
    """Returns a value as Python code; it stands in a block of code, which Markdown shows as it is."""
    return Markup(repr(value).replace("`", "\\x60"))
