"""The cross-encoder: a model that reads a question together with a passage and scores the pair."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from tokenizers import normalizers
from torch import Tensor
from transformers import AutoModelForSequenceClassification

from multiview.config import Encode
from multiview.data.passages import Passage
from multiview.encoding.batches import Buckets, Member, Shape
from multiview.encoding.encode import arithmetic, laid_out_ahead, smaller_batches, weights_type
from multiview.errors import InputError, naming, one_line
from multiview.model.base_model.loading import load_model, load_tokenizer, max_positions, normalise_first
from multiview.model.base_model.sentence_transformers import read_pairs
from multiview.model.batch import moved
from multiview.model.devices import device, read_behind
from multiview.model.layouts.base import PreTrainedTokenizer, TokenSequence

PAIR_LENGTH = 512
"""Longest pair in tokens, unless the model allows less; the longer of the two texts is cut first."""
ROWS = 8
"""A batch's rows are a multiple of this: in products over fewer, as in a classifier's head, a row's place matters."""

HitPosition = tuple[int, int]
"""(question, column) of a hit among the retrieved passages [q, k]."""
Tag = tuple[HitPosition, list[int] | None]
"""A pair's position and its segment ids, which are None if the model has no segments."""


class CrossEncoder:
    """A sequence classifier with one logit, the relevance of a passage to a question.

    Pairs are batched as the encoder's sequences are (`Buckets`), so that a pair's score depends only on the pair.
    """

    def __init__(self, folder: Path, settings: Encode, name: str, setting: str) -> None:
        """Loads the checkpoint in `folder`; error messages call it by its `name` and the `setting` that names it.

        Raises InputError if it is not such a classifier, or cannot score a pair.
        """
        self.settings, self._called = settings, f"{setting}: {name}"
        self.device = device(settings.device, "encode.device")
        model = load_model(AutoModelForSequenceClassification, folder, setting, name, weights_type(settings))
        self.tokenizer: PreTrainedTokenizer = load_tokenizer(folder, name, setting, model)
        if (labels := model.config.num_labels) != 1:
            raise InputError(
                f"{self._called} gives {labels} logits per pair; give a cross-encoder with one (num_labels 1)"
            )
        # A decoder's head reads a pair's last token that is not the padding of its configuration, if that names one.
        own, padding = model.config.get_text_config(), self.tokenizer.pad_token_id
        if own.pad_token_id is None or not 0 <= own.pad_token_id < len(self.tokenizer):
            own.pad_token_id = padding
        elif own.pad_token_id != padding:
            self.tokenizer.pad_token = self.tokenizer.convert_ids_to_tokens(own.pad_token_id)
        self.model = model.to(self.device)
        with naming(self._called):
            longest, lower_case = read_pairs(folder)
        if lower_case:
            normalise_first(self.tokenizer.backend_tokenizer, normalizers.Lowercase())
        lengths = (max_positions(model), longest, int(self.tokenizer.model_max_length))
        self.length = min(PAIR_LENGTH, *filter(None, lengths))
        words = Passage("", "", "a b c d " * self.length, ())
        try:
            _ = list(self.logits([("who?", words, (0, 0))]))
        except InputError:
            raise
        except Exception as error:  # of any kind: the model's code may expect other inputs
            raise InputError(f"{self._called} cannot score a pair: {one_line(error)}") from error

    def logits(
        self, pairs: Iterable[tuple[str, Passage, HitPosition]], processes: int = 0
    ) -> Iterator[tuple[HitPosition, float]]:
        """Yields each pair's position and logit, batch by batch, so not in the order given.

        `processes` workers tokenise ahead (`laid_out_ahead`). Raises InputError for a logit that is not finite.
        """
        buckets: Buckets[Tag] = Buckets(self.settings, self.device, self.length, ROWS)
        ahead = laid_out_ahead(partial(pair_tokens, self.tokenizer, self.length), pairs, processes)

        def runs() -> Iterator[tuple[list[Member[Tag]], Tensor]]:
            for shape, members in buckets.batches(member for _, member in ahead):
                yield members, self._logits(members, shape)

        with smaller_batches(self.settings):
            for members, found in read_behind(runs()):
                for (_, (position, _)), logit in zip(members, found, strict=False):
                    if not np.isfinite(logit):
                        overflow = "set encode.compute=bfloat16, or " * (self.settings.compute == "float16")
                        raise InputError(
                            f"{self._called} gives scores that are not numbers; {overflow}give another model"
                        )
                    yield position, float(logit)

    @torch.inference_mode()
    def _logits(self, members: Sequence[Member[Tag]], shape: Shape) -> Tensor:
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
        given = {name: moved(tensor, self.device) for name, tensor in batch.items()}
        with arithmetic(self.settings, self.device):
            return self.model(**given).logits.float()[:, 0]


def pair_tokens(
    tokenizer: PreTrainedTokenizer, length: int, question: str, passage: Passage, position: HitPosition
) -> Member[Tag]:
    """Returns the tokens of a pair, up to `length`, with its tag."""
    text = f"{passage.title} {passage.text}".strip()
    tokens = tokenizer(question, text, truncation="longest_first", max_length=length)
    return TokenSequence(tokens["input_ids"], ()), (position, tokens.get("token_type_ids"))
