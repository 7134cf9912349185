"""Models and tokenizers as transformers loads them, and the viewer tokens that are added to them."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from multiview.config import Model
from multiview.errors import InputError
from multiview.model.layouts import PreTrainedTokenizer
from multiview.model.layouts.base import CLS_FIRST, SNIPPET_MEAN

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LoadedModel: TypeAlias = Any
"""A model as transformers loads it: to a type checker its classes have neither `to` nor `generate`."""

VIEWER_STD = 0.02
"""Standard deviation of new tokens' embeddings (BERT's own initialisation)."""
_SHIFTED_POSITIONS = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet"}
"""Model types whose positions start after the padding token's id."""


def load_encoder(folder: str, dtype: torch.dtype, base: str | None = None) -> "PreTrainedModel":
    """Returns a model without its pooler, which is unused: unused parameters stop distributed training.

    Raises InputError if it cannot be loaded; the error names the model as `base` does, otherwise its folder.
    """
    from transformers import AutoModel

    # With attention by torch where transformers has it for the model: not for MPNet and DeBERTa.
    problem = f"model.base: cannot load {base or folder}"
    encoder = load_pretrained(AutoModel, folder, problem, dtype=dtype, use_safetensors=True)
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    return encoder


def load_tokenizer(folder: str, base: str | None = None) -> PreTrainedTokenizer:
    """Returns a model's tokenizer. Raises InputError, as `load_encoder` does."""
    from transformers import AutoTokenizer

    return load_pretrained(
        AutoTokenizer, folder, f"model.base: cannot load the tokenizer of {base or folder}"
    )


def load_pretrained(kind: Any, folder: Path | str, problem: str, **options: object) -> Any:
    """Returns what one of transformers' `Auto` classes loads from a folder, without running code from there.

    Raises InputError with `problem`, which names the setting and the model, where it cannot be loaded.
    """
    try:
        with quiet():
            return kind.from_pretrained(folder, trust_remote_code=False, **options)
    except (OSError, ValueError, ImportError, KeyError, SafetensorError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise InputError(f"{problem}: {reason}") from error


def first_position(encoder: LoadedModel) -> int:
    """Returns the position id of the first token."""
    config = encoder.config
    return config.pad_token_id + 1 if config.model_type in _SHIFTED_POSITIONS else 0


def max_positions(encoder: LoadedModel) -> int | None:
    """Returns the maximum number of tokens per sequence; None if the model has no limit."""
    positions = getattr(encoder.config, "max_position_embeddings", None)
    return None if positions is None else positions - first_position(encoder)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Silences transformers' progress bars and notes, such as the one about the missing pooler."""
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def add_viewers(
    encoder: "PreTrainedModel", tokenizer: PreTrainedTokenizer, tokens: list[str], settings: Model
) -> None:
    """Adds the viewer tokens that are missing, with embeddings drawn from N(0, 0.02) (MVR 3.2) or around `[CLS]`.

    With `cls-first` those that may stand anywhere, all but the first two, are moved to the first position too.

    The embeddings are drawn here, because transformers' mean initialisation on resizing makes them almost equal. They
    are zero where the tokens start from their snippets (`add_snippet_means`).
    """
    new = [token for token in tokens if token not in tokenizer.get_vocab()]
    tokenizer.add_tokens(new, special_tokens=True)
    if len(tokenizer) > len(embedding_matrix(encoder)):
        encoder.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    weight = embedding_matrix(encoder)
    generator = torch.Generator().manual_seed(settings.seed)
    with torch.no_grad():
        for token in new:
            embedding = torch.randn(weight.shape[1], generator=generator) * VIEWER_STD
            if settings.init in ("cls", CLS_FIRST):
                embedding += weight[tokenizer.cls_token_id]
                if settings.init == CLS_FIRST and token not in tokens[:2]:
                    embedding += _to_first_position(encoder, settings)
            elif settings.init == SNIPPET_MEAN:
                embedding.zero_()
            weight[tokenizer.convert_tokens_to_ids(token)] = embedding


def _to_first_position(encoder: LoadedModel, settings: Model) -> Tensor:
    """What a token's embedding lacks to be read as at the first position, on average over the positions of a passage."""
    first = first_position(encoder)
    positions = encoder.embeddings.position_embeddings.weight[first : first + settings.passage_length]
    return positions[0] - positions[1:].mean(dim=0)


def embedding_matrix(encoder: nn.Module) -> Tensor:
    """Returns the word embeddings [vocabulary, D] of one encoder of a bi-encoder."""
    from transformers import PreTrainedModel

    assert isinstance(encoder, PreTrainedModel)
    weight = encoder.get_input_embeddings().weight
    assert isinstance(weight, Tensor)
    return weight
