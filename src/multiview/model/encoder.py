"""The bi-encoder: one or two BERT-like models without poolers, with the viewer tokens of a layout."""

import contextlib
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from pydantic import ValidationError
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedModel

from multiview.config import Model, canonical_json
from multiview.errors import InputError
from multiview.model.bases import SETTINGS_FILE, staged_base
from multiview.model.batch import Batch, pool
from multiview.model.layouts import Layout, architecture, layout
from multiview.steps.context import StepContext

PASSAGE = "passage"
QUESTION = "question"
VIEWER_STD = 0.02
"""Standard deviation of new tokens' embeddings (BERT's own initialisation)."""
_SHIFTED_POSITIONS = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet"}
"""Model types that count positions from the padding token's id on."""


class BiEncoder(nn.Module):
    """Question and passage encoder; `tied`, one module under one name, so that checkpoints hold it once.

    Of two encoders, one may be absent: the questions' is all that a search needs.
    """

    def __init__(
        self,
        settings: Model,
        tokenizer: Any,
        passage: PreTrainedModel | None = None,
        question: PreTrainedModel | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.tokenizer = tokenizer
        self.layout: Layout = layout(settings, tokenizer)
        parts = {PASSAGE: passage, QUESTION: question}
        self.encoders = nn.ModuleDict({name: part for name, part in parts.items() if part is not None})
        self.scale = score_scale(settings)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self._encoder(next(iter(self.encoders))).config.hidden_size

    @property
    def positions(self) -> int | None:
        """The most tokens of a sequence, where the base has a limit."""
        return _positions(self._encoder(next(iter(self.encoders))))

    def forward(self, questions: Batch, passages: Batch) -> tuple[Tensor, Tensor]:
        """Question vectors [B, D], times the scale, and view vectors [S, V, D], in float32."""
        return self.encode_questions(questions), self.encode_passages(passages)

    def encode_questions(self, batch: Batch) -> Tensor:
        """[B, D] float32, times the scale: scores are plain inner products."""
        return self._encode(QUESTION, batch)[:, 0] * self.scale

    def encode_passages(self, batch: Batch) -> Tensor:
        """[S, V, D] float32; zeros where a sequence has no such view."""
        return self._encode(PASSAGE, batch)

    def passage_attention(self, batch: Batch) -> Tensor:
        """The last layer's attention [S, heads, L, L] of passages: how much each token attends to each.

        Only the plain implementation of attention gives it. ValueError for a base that does not.
        """
        encoder = self._encoder(PASSAGE)
        fast = encoder.config._attn_implementation or "sdpa"
        encoder.set_attn_implementation("eager")
        try:
            attentions = encoder(**_tokens(encoder, batch), output_attentions=True).attentions
        finally:
            encoder.set_attn_implementation(fast)
        if not attentions:
            raise ValueError(f"a {encoder.config.model_type} model does not give its attention")
        return attentions[-1]

    def _encoder(self, part: str) -> PreTrainedModel:
        encoder = self.encoders[part if part in self.encoders else PASSAGE]
        assert isinstance(encoder, PreTrainedModel)
        return encoder

    def _encode(self, part: str, batch: Batch) -> Tensor:
        encoder = self._encoder(part)
        vectors = pool(encoder(**_tokens(encoder, batch)).last_hidden_state, batch["weights"])
        return nn.functional.normalize(vectors, dim=-1) if self.settings.normalise else vectors

    def set_dropout(self, share: float) -> None:
        """Set every dropout of the encoders, attention's included."""
        for module in self.modules():
            if isinstance(module, nn.Dropout):
                module.p = share

    def checkpoint_activations(self) -> None:
        """Recompute activations in the backward pass instead of keeping them."""
        for encoder in self.encoders.values():
            assert isinstance(encoder, PreTrainedModel)
            encoder.activation_checkpointing_enable({"use_reentrant": False})

    def save(self, folder: Path) -> None:
        """Write `multiview.json`, and a Hugging Face folder with tokenizer for each part.

        `base` is left out of the settings: the weights are here, and where they once came from would
        make equal models differ.
        """
        folder.mkdir(parents=True, exist_ok=True)
        settings = {**self.settings.model_dump(mode="json", exclude={"base"}), "scale": self.scale}
        (folder / SETTINGS_FILE).write_text(canonical_json(settings) + "\n")
        with quiet():
            for part, encoder in self.encoders.items():
                assert isinstance(encoder, PreTrainedModel)
                encoder.save_pretrained(folder / part)
                self.tokenizer.save_pretrained(folder / part)

    @classmethod
    def load(
        cls, folder: Path, dtype: torch.dtype = torch.float32, questions_only: bool = False
    ) -> "BiEncoder":
        """Read what `save` wrote, in evaluation mode; with `questions_only`, without the passages' encoder
        where it is another one. InputError if `folder` does not hold it.
        """
        settings = load_settings(folder)
        parts = [PASSAGE] if settings.tied else [QUESTION] if questions_only else [PASSAGE, QUESTION]
        with quiet():
            encoders = {part: _load_encoder(str(folder / part), dtype) for part in parts}
            tokenizer = _load_tokenizer(str(folder / parts[0]))
        return cls(settings, tokenizer, **encoders).eval()

    @classmethod
    def create(cls, settings: Model) -> "BiEncoder":
        """The start of training: the base model with the layout's viewer tokens added.

        Two encoders start equal. InputError for a base that cannot be had or does not suit the settings.
        """
        kind = architecture(settings.architecture)
        kind.check(settings)
        with quiet(), staged_base(settings.base) as place:
            encoder, tokenizer = _load_encoder(place, torch.float32), _load_tokenizer(place)
        kind.check(settings, _positions(encoder))
        add_viewers(encoder, tokenizer, kind.viewers(settings), settings)
        question = None if settings.tied else copy.deepcopy(encoder)
        return cls(settings, tokenizer, encoder, question).eval()


def _tokens(encoder: PreTrainedModel, batch: Batch) -> dict[str, Tensor]:
    """What an encoder takes of a batch."""
    given = {"input_ids": batch["input_ids"], "attention_mask": batch["attention_mask"]}
    if "position_ids" in batch:
        given["position_ids"] = batch["position_ids"] + _first_position(encoder)
    return given


def width(folder: Path) -> int:
    """Length of a vector of the model in `folder`, which is not loaded."""
    return AutoConfig.from_pretrained(folder / PASSAGE).hidden_size


def score_scale(settings: Model) -> float:
    """What inner products are multiplied with: 20 when vectors are normalised, else 1, unless it is set."""
    if settings.scale is not None:
        return settings.scale
    return 20.0 if settings.normalise else 1.0


def load_settings(folder: Path) -> Model:
    """The settings that a model was saved with."""
    path = folder / SETTINGS_FILE
    try:
        return Model(base="", **json.loads(path.read_text()))
    except FileNotFoundError:
        raise InputError(f"{folder} is not a model: there is no {SETTINGS_FILE} in it") from None
    except (ValueError, TypeError, ValidationError) as error:
        raise InputError(f"{path}: not the settings of a model ({str(error).splitlines()[0]})") from error


def add_viewers(encoder: PreTrainedModel, tokenizer: Any, tokens: list[str], settings: Model) -> None:
    """Add the viewer tokens that are not there yet, drawn from N(0, 0.02) (MVR 3.2) or around `[CLS]`.

    The rows are drawn here, because resizing with transformers' mean initialisation makes them all but equal.
    """
    new = [token for token in tokens if token not in tokenizer.get_vocab()]
    tokenizer.add_tokens(new, special_tokens=True)
    if len(tokenizer) > len(embedding_matrix(encoder)):
        encoder.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    weight = embedding_matrix(encoder)
    generator = torch.Generator().manual_seed(settings.seed)
    with torch.no_grad():
        for token in new:
            row = torch.randn(weight.shape[1], generator=generator) * VIEWER_STD
            if settings.init == "cls":
                row += weight[tokenizer.cls_token_id]
            weight[tokenizer.convert_tokens_to_ids(token)] = row


def embedding_matrix(encoder: nn.Module) -> Tensor:
    """The word embeddings [vocabulary, D] of a part of a bi-encoder."""
    assert isinstance(encoder, PreTrainedModel)
    weight = encoder.get_input_embeddings().weight
    assert isinstance(weight, Tensor)
    return weight


def initial_model(context: StepContext) -> None:
    """Step: make the model that training starts from (`settings.model`) and save it to output `model`."""
    model = BiEncoder.create(context.settings.model)
    model.save(context.output("model"))
    context.events.fact("dimension", model.dim)
    context.events.fact("parameters", sum(parameter.numel() for parameter in model.parameters()))


def _load_encoder(place: str, dtype: torch.dtype) -> PreTrainedModel:
    """A model without its pooler: nothing reads it, and unused parameters stop distributed training."""
    try:
        encoder = AutoModel.from_pretrained(
            place, dtype=dtype, use_safetensors=True, trust_remote_code=False, attn_implementation="sdpa"
        )
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise InputError(f"model.base: cannot load {place}: {first_line(error)}") from error
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    return encoder


def _load_tokenizer(place: str) -> Any:
    try:
        return AutoTokenizer.from_pretrained(place, trust_remote_code=False)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise InputError(f"model.base: cannot load the tokenizer of {place}: {first_line(error)}") from error


def first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _first_position(encoder: PreTrainedModel) -> int:
    """The position id of a first token."""
    config = encoder.config
    return config.pad_token_id + 1 if config.model_type in _SHIFTED_POSITIONS else 0


def _positions(encoder: PreTrainedModel) -> int | None:
    positions = getattr(encoder.config, "max_position_embeddings", None)
    return None if positions is None else positions - _first_position(encoder)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' bars and notes: a pooler left out is meant."""
    logging = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
