"""Judgement of pairs by a cross-encoder: of hits, so that unlabelled positives are not trained on as negatives (RocketQA
3.3), and of what a question trains on, for distillation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from safetensors import SafetensorError
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from multiview.config import Config, Encode, JsonObject
from multiview.data.passages import COLUMNS, Passage, PassageLookup, passages_of
from multiview.data.questions import Question
from multiview.encoding.batches import Buckets, Shape
from multiview.encoding.encode import arithmetic, smaller_batches, weights_type
from multiview.errors import InputError
from multiview.model.base_model.checkpoint import staged_base
from multiview.model.base_model.loading import LoadedModel, quiet
from multiview.model.devices import device
from multiview.model.layouts import PreTrainedTokenizer, TokenSequence
from multiview.negatives.filtering import hits_by_passage
from multiview.steps.events import Events

SETTING = "mining.cross_encoder"
PAIR_LENGTH = 512
"""Longest pair in tokens, unless the model allows less; the longer of the two texts is cut first."""
ROWS = 8
"""The rows of a batch are a multiple of this: products over fewer rows, as in a classifier's head, depend on a row's place."""

HitPosition = tuple[int, int]
"""(question, column) of a hit among the retrieved passages [q, k]."""


class CrossEncoder:
    """A sequence classifier with one logit, the relevance of a passage to a question.

    Batches have the same shapes as the encoder's batches, so that a pair's score depends only on the pair.
    """

    def __init__(self, folder: Path, settings: Encode, name: str) -> None:
        """Loads the checkpoint in `folder`, called `name` in error lines. Raises InputError if it is not such a classifier."""
        self.settings = settings
        self.device = device(settings.device, "encode.device")
        model, notes, self.tokenizer = _load(folder, weights_type(settings), name)
        if (labels := model.config.num_labels) != 1:
            raise InputError(
                f"{SETTING}: {name} gives {labels} logits per pair; give a cross-encoder with one (num_labels 1)"
            )
        if missing := sorted(notes["missing_keys"]):
            raise InputError(
                f"{SETTING}: {name} has no weights for {missing[0]}; give a model trained as a cross-encoder"
            )
        self.model = model.to(self.device).eval()
        positions = getattr(model.config, "max_position_embeddings", PAIR_LENGTH)
        self.length = min(PAIR_LENGTH, positions, self.tokenizer.model_max_length)

    def logits(
        self, pairs: Iterable[tuple[str, Passage, HitPosition]]
    ) -> Iterator[tuple[HitPosition, float]]:
        """Yields each pair's position and logit, batch by batch, so in another order."""
        buckets: Buckets[tuple[HitPosition, list[int] | None]] = Buckets(
            self.settings, self.device, self.length, ROWS
        )
        with smaller_batches(self.settings):
            for shape, members in buckets.batches(map(self._tokens, pairs)):
                found = self._logits(members, shape)
                for (_, (position, _)), logit in zip(members, found, strict=False):
                    yield position, float(logit)

    def _tokens(
        self, pair: tuple[str, Passage, HitPosition]
    ) -> tuple[TokenSequence, tuple[HitPosition, list[int] | None]]:
        """Returns a pair's token ids with (position, segment ids); None for segment ids if the model has no segments."""
        question, passage, position = pair
        text = f"{passage.title} {passage.text}".strip()
        tokens = self.tokenizer(question, text, truncation="longest_first", max_length=self.length)
        return TokenSequence(tokens["input_ids"], ()), (position, tokens.get("token_type_ids"))

    @torch.inference_mode()
    def _logits(
        self,
        members: Sequence[tuple[TokenSequence, tuple[HitPosition, list[int] | None]]],
        shape: Shape,
    ) -> np.ndarray:
        """Returns the logits [rows] of a batch, which is filled up with its first pair."""
        filled = [*members, *[members[0]] * (shape.rows - len(members))]
        unpadded: dict[str, list[list[int] | None]] = {
            "input_ids": [sequence.input_ids for sequence, _ in filled]
        }
        if filled[0][1][1] is not None:
            unpadded["token_type_ids"] = [segments for _, (_, segments) in filled]
        batch = self.tokenizer.pad(
            unpadded, padding="max_length", max_length=shape.length, return_tensors="pt"
        )
        with arithmetic(self.settings, self.device):
            return self.model(**batch.to(self.device)).logits.float().cpu().numpy()[:, 0]


def logits(
    passage_rows: np.ndarray,
    wanted: np.ndarray,
    ids: pa.Array,
    passages: Path,
    questions: Sequence[Question],
    settings: Config,
    events: Events,
) -> np.ndarray:
    """Returns the logit [q, k] float64 that `mining.cross_encoder` gives each wanted hit; 0 elsewhere.

    `passage_rows` [q, k] and `ids` are as in `hits_by_passage`. The passages are read once, and only the texts that
    fill a batch of each length are in memory. Reads settings.mining and .encode. Raises InputError for a model that is
    no cross-encoder, or whose logits are not finite.
    """
    result, total = np.zeros(passage_rows.shape), int(wanted.sum())
    if not total:
        return result
    name = settings.mining.cross_encoder or ""
    with staged_base(name, SETTING) as folder:
        cross_encoder = CrossEncoder(Path(folder), settings.encode, name)

    def pairs() -> Iterator[tuple[str, Passage, tuple[int, int]]]:
        corpus = PassageLookup(passages)
        for table, *hits in hits_by_passage(passage_rows, wanted, ids, corpus, COLUMNS):
            some = list(passages_of(table))
            for number, question, column in zip(*(each.tolist() for each in hits), strict=True):
                yield questions[question].question, some[number], (question, column)

    for done, (position, logit) in enumerate(cross_encoder.logits(pairs()), 1):
        if not np.isfinite(logit):
            raise InputError(f"{SETTING}: {name} gives scores that are not numbers; give another model")
        result[position] = logit
        events.progress(done, total, "pairs")
    return result


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Returns the probabilities that pairs with these logits are positives: 1 / (1 + exp(-logit))."""
    return 1 / (1 + np.exp(-logits))


def _load(folder: Path, dtype: torch.dtype, name: str) -> tuple[LoadedModel, JsonObject, PreTrainedTokenizer]:
    """Returns the classifier, transformers' notes on loading it, and its tokenizer."""
    try:
        with quiet():
            model, notes = AutoModelForSequenceClassification.from_pretrained(
                folder, dtype=dtype, use_safetensors=True, trust_remote_code=False, output_loading_info=True
            )
            return model, notes, AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, ImportError, KeyError, SafetensorError) as error:
        raise InputError(f"{SETTING}: cannot load {name}: {' '.join(str(error).split())}") from error
