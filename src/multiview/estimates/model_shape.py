"""The shape of a BERT-like encoder, which decides its parameters and its floating-point operations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from multiview.config import JsonObject
from multiview.errors import InputError, nearest
from multiview.model.bases import BASE, CONFIG_FILE, staged_base


@dataclass(frozen=True)
class ModelShape:
    """The sizes of an encoder's layers, as in its config.json.

    >>> f"{KNOWN['bert-base'].parameters / 1e6:.0f} million"
    '109 million'
    """

    layers: int
    width: int
    inner: int
    """Width of the feed-forward layers."""
    vocabulary: int
    positions: int

    @property
    def multiplied(self) -> int:
        """The parameters that every token is multiplied with: L (4 D² + 2 D I), of L layers, D wide, I wide inside.

        Embeddings are looked up, and biases and norms are little beside these.
        """
        return self.layers * (4 * self.width**2 + 2 * self.width * self.inner)

    @property
    def parameters(self) -> int:
        """All parameters of one encoder, without a pooler: the multiplied ones, embeddings, biases and norms."""
        embeddings = (self.vocabulary + self.positions + 2 + 2) * self.width
        return self.multiplied + embeddings + self.layers * (9 * self.width + self.inner)

    def forward_flops(self, tokens: float, length: float) -> float:
        """Floating-point operations of a forward pass over `tokens` tokens, in sequences of `length` tokens.

        tokens · (2 · multiplied + 4 · L · length · D): a multiplication and an addition per parameter and token, and as
        much for the products of attention, queries with keys and weights with values.
        """
        return tokens * (2 * self.multiplied + 4 * self.layers * length * self.width)


SIZES = ("num_hidden_layers", "hidden_size", "intermediate_size", "vocab_size", "max_position_embeddings")
"""Fields of a config.json in the order of `ModelShape`."""

BERT_VOCABULARY, BERT_POSITIONS = 30_522, 512
KNOWN = {
    "minilm-l6": ModelShape(6, 384, 1536, BERT_VOCABULARY, BERT_POSITIONS),
    "bert-base": ModelShape(12, 768, 3072, BERT_VOCABULARY, BERT_POSITIONS),
    "bert-large": ModelShape(24, 1024, 4096, BERT_VOCABULARY, BERT_POSITIONS),
}
"""Shapes by the names that `multiview plan --model` takes besides those of `model.base`."""
SAME_SHAPE = {
    "bert-base-uncased": "bert-base",
    "bert-large-uncased": "bert-large",
    "Luyu/co-condenser-wiki": "bert-base",
}
"""Models of the hub whose shape is known without asking for it: those of the defaults and presets, among others."""


def shape_of(model: str, setting: str = "model") -> ModelShape:
    """The shape of a known model, or of a base model as in `model.base`, from its config.json.

    Raises InputError that names `setting` where there is none, or it is no BERT-like model.
    """
    if known := KNOWN.get(SAME_SHAPE.get(model, model)):
        return known
    try:
        with staged_base(model, setting) as folder:
            config = json.loads((Path(folder) / CONFIG_FILE).read_text())
    except InputError as error:
        if setting == BASE:  # which takes none of the names
            raise
        raise InputError(f"{error}{nearest(model, KNOWN)}") from error
    if missing := [name for name in SIZES if name not in config]:
        raise InputError(
            f"{setting}: the config.json of {model} has no {missing[0]}: give one of {', '.join(KNOWN)}"
        )
    return shape_in(config)


def shape_in(config: JsonObject) -> ModelShape:
    """The shape that a model's config.json states."""
    return ModelShape(*(config[name] for name in SIZES))
