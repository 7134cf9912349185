"""The bi-encoder: one or two BERT-like models without poolers, with the viewer tokens of a layout."""

import contextlib
import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from pydantic import ValidationError
from torch import Tensor, nn

from multiview.config import Model, canonical_json
from multiview.errors import InputError
from multiview.model.bases import SETTINGS_FILE, staged_base
from multiview.model.batch import Batch, Groups, Packed, add_snippet_means, encode_groups, pool
from multiview.model.layouts import Layout, PreTrainedTokenizer, architecture, layout
from multiview.model.layouts.base import SNIPPET_MEAN
from multiview.model.packed import add_packed_means, prepare_packing
from multiview.model.plain import PlainBert, PlainTokenizer, is_plain
from multiview.steps.context import StepContext

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LoadedModel: TypeAlias = Any
"""A model as transformers loads it: to a type checker its classes have neither `to` nor `generate`."""
PASSAGE = "passage"
QUESTION = "question"
VIEWER_STD = 0.02
"""Standard deviation of new tokens' embeddings (BERT's own initialisation)."""
_SHIFTED_POSITIONS = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet"}
"""Model types whose positions start after the padding token's id."""


class BiEncoder(nn.Module):
    """Question and passage encoder. With `tied` settings both are one module under one name, stored once in checkpoints.

    If they are separate, one may be absent: a search needs only the question encoder.
    """

    def __init__(
        self,
        settings: Model,
        tokenizer: PreTrainedTokenizer,
        passage: nn.Module | None = None,
        question: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings
        self.tokenizer = tokenizer
        self.layout: Layout = layout(settings, tokenizer)
        parts = {PASSAGE: passage, QUESTION: question}
        self.encoders = nn.ModuleDict({name: part for name, part in parts.items() if part is not None})
        self.scale = score_scale(settings)
        self.encode_again = False
        """Whether the backward pass of `forward` encodes each group anew, instead of keeping all activations."""

    @property
    def dim(self) -> int:
        """Length of the vectors."""
        return self._encoder(next(iter(self.encoders))).config.hidden_size

    @property
    def positions(self) -> int | None:
        """Maximum number of tokens per sequence; None if the base model has no limit."""
        return _positions(self._encoder(next(iter(self.encoders))))

    def forward(self, questions: Groups, passages: Groups) -> tuple[Tensor, Tensor]:
        """Returns question vectors [B, D], multiplied by the scale, and view vectors [S, V, D], in float32."""
        return (
            encode_groups(self.encode_questions, questions, self.encode_again),
            encode_groups(self.encode_passages, passages, self.encode_again),
        )

    def encode_questions(self, batch: Batch | Packed) -> Tensor:
        """Returns question vectors [B, D] float32, multiplied by the scale, so that scores are plain inner products."""
        return self._encode(QUESTION, batch)[:, 0] * self.scale

    def encode_passages(self, batch: Batch | Packed) -> Tensor:
        """Returns view vectors [S, V, D] float32; zeros for views that a sequence does not have.

        A packed batch must have weights of the same number of views for every sequence.
        """
        return self._encode(PASSAGE, batch)

    def prepare_packing(self) -> bool:
        """Lets the encoders read packed sequences; says whether they can."""
        return all(map(prepare_packing, self.encoders.values()))

    def encode_packed_questions(self, packed: Packed) -> list[Tensor]:
        """Returns the vector [1, D] float32 of each question, multiplied by the scale."""
        return [vectors * self.scale for vectors in self._encode_packed(QUESTION, packed)]

    def encode_packed_passages(self, packed: Packed) -> list[Tensor]:
        """Returns the view vectors [V, D] float32 of each sequence."""
        return self._encode_packed(PASSAGE, packed)

    def passage_attention(self, batch: Batch) -> Tensor:
        """Returns the last layer's attention [S, heads, L, L] over passages: from each token to each token.

        Only the eager implementation of attention returns it. Raises ValueError for a base model that does not.
        """
        encoder = self._encoder(PASSAGE)
        fast = encoder.config._attn_implementation or "sdpa"
        encoder.set_attn_implementation("eager")
        try:
            attentions = encoder(**_inputs(encoder, batch), output_attentions=True).attentions
        finally:
            encoder.set_attn_implementation(fast)
        if not attentions:
            raise ValueError(f"a {encoder.config.model_type} model does not give its attention")
        return attentions[-1]

    def _encoder(self, part: str) -> LoadedModel:
        return self.encoders[part if part in self.encoders else PASSAGE]

    def _encode(self, part: str, batch: Batch | Packed) -> Tensor:
        if isinstance(batch, Packed):
            return torch.stack(self._encode_packed(part, batch))
        encoder = self._encoder(part)
        return self._vectors(encoder(**_inputs(encoder, batch)).last_hidden_state, batch["weights"])

    def _encode_packed(self, part: str, packed: Packed) -> list[Tensor]:
        encoder = self._encoder(part)
        inputs = {"input_ids": packed.input_ids}
        if packed.starts:
            words = encoder.get_input_embeddings()(packed.input_ids)
            inputs = {"inputs_embeds": add_packed_means(words, packed)}
        positions = packed.position_ids + _first_position(encoder)
        (hidden,) = encoder(position_ids=positions, lengths=packed.lengths, **inputs).last_hidden_state
        # Sequence by sequence, because the number of tokens that a product sums over changes its last bits.
        each = hidden[: sum(packed.lengths)].split(packed.lengths)
        return [self._vectors(h[None], w[None])[0] for h, w in zip(each, packed.weights, strict=True)]

    def _vectors(self, hidden: Tensor, weights: Tensor) -> Tensor:
        vectors = pool(hidden, weights)
        return nn.functional.normalize(vectors, dim=-1) if self.settings.normalise else vectors

    def checkpoint_activations(self) -> None:
        """Recomputes activations in the backward pass instead of keeping them."""
        for part in self.encoders:
            self._encoder(part).activation_checkpointing_enable({"use_reentrant": False})

    def save(self, folder: Path) -> None:
        """Writes `multiview.json`, and a Hugging Face folder with tokenizer per part.

        `base` is left out of the settings: the folder holds the weights, and their origin would make equal models
        differ.
        """
        folder.mkdir(parents=True, exist_ok=True)
        settings = {**self.settings.model_dump(mode="json", exclude={"base"}), "scale": self.scale}
        (folder / SETTINGS_FILE).write_text(canonical_json(settings) + "\n")
        with quiet():
            for part in self.encoders:
                self._encoder(part).save_pretrained(folder / part)
                self.tokenizer.save_pretrained(folder / part)

    @classmethod
    def load(
        cls,
        folder: Path,
        dtype: torch.dtype = torch.float32,
        questions_only: bool = False,
        plain: bool = False,
    ) -> "BiEncoder":
        """Loads a model that `save` wrote, in evaluation mode.

        With `questions_only` a separate passage encoder is not loaded; with `plain` a BERT is loaded without
        transformers (`multiview.model.plain`), seconds sooner, for inference only. Raises InputError if `folder` holds
        no model.
        """
        settings = load_settings(folder)
        parts = [PASSAGE] if settings.tied else [QUESTION] if questions_only else [PASSAGE, QUESTION]
        if plain and all(is_plain(folder / part) for part in parts):
            plain_encoders = {part: PlainBert.load(folder / part, dtype) for part in parts}
            return cls(settings, PlainTokenizer(folder / parts[0]), **plain_encoders).eval()
        with quiet():
            encoders = {part: _load_encoder(str(folder / part), dtype) for part in parts}
            tokenizer = _load_tokenizer(str(folder / parts[0]))
        return cls(settings, tokenizer, **encoders).eval()

    @classmethod
    def create(cls, settings: Model) -> "BiEncoder":
        """Returns the model that training starts from: the base model with the layout's viewer tokens added.

        Two separate encoders start with equal weights. Raises InputError for a base model that cannot be loaded or does
        not suit the settings.
        """
        kind = architecture(settings.architecture)
        kind.check(settings)
        with quiet(), staged_base(settings.base) as folder:
            encoder = _load_encoder(folder, torch.float32, settings.base)
            tokenizer = _load_tokenizer(folder, settings.base)
        kind.check(settings, _positions(encoder))
        add_viewers(encoder, tokenizer, kind.viewers(settings), settings)
        question = None if settings.tied else copy.deepcopy(encoder)
        return cls(settings, tokenizer, encoder, question).eval()


def _inputs(encoder: LoadedModel, batch: Batch) -> dict[str, Tensor]:
    """Returns the encoder's inputs from a batch: tokens, or embeddings where viewer tokens start from their snippets."""
    inputs = {"attention_mask": batch["attention_mask"]}
    if "viewers" in batch and "snippets" in batch:
        words = encoder.get_input_embeddings()(batch["input_ids"])
        inputs["inputs_embeds"] = add_snippet_means(words, batch["viewers"], batch["snippets"])
    else:
        inputs["input_ids"] = batch["input_ids"]
    if "position_ids" in batch:
        inputs["position_ids"] = batch["position_ids"] + _first_position(encoder)
    return inputs


def width(folder: Path) -> int:
    """Returns the length of the vectors of the model in `folder`, without loading the model."""
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder / PASSAGE).hidden_size


def score_scale(settings: Model) -> float:
    """Returns the factor of inner products: `model.scale` if it is set, otherwise 20 for normalised vectors, else 1."""
    if settings.scale is not None:
        return settings.scale
    return 20.0 if settings.normalise else 1.0


def load_settings(folder: Path) -> Model:
    """Returns the settings that a model was saved with. Raises InputError if `folder` holds no model."""
    path = folder / SETTINGS_FILE
    try:
        return Model(base="", **json.loads(path.read_text()))
    except FileNotFoundError:
        raise InputError(f"{folder} is not a model: there is no {SETTINGS_FILE} in it") from None
    except (ValueError, TypeError, ValidationError) as error:
        raise InputError(f"{path}: not the settings of a model ({str(error).splitlines()[0]})") from error


def load_layout(folder: Path) -> Layout:
    """Returns the layout of the model that `BiEncoder.save` wrote into `folder`, without loading the model.

    Raises InputError if `folder` holds no model.
    """
    settings = load_settings(folder)
    part = folder / PASSAGE
    return layout(settings, PlainTokenizer(part) if is_plain(part) else _load_tokenizer(str(part)))


def add_viewers(
    encoder: "PreTrainedModel", tokenizer: PreTrainedTokenizer, tokens: list[str], settings: Model
) -> None:
    """Adds the viewer tokens that are missing, with embeddings drawn from N(0, 0.02) (MVR 3.2) or around `[CLS]`.

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
            if settings.init == "cls":
                embedding += weight[tokenizer.cls_token_id]
            elif settings.init == SNIPPET_MEAN:
                embedding.zero_()
            weight[tokenizer.convert_tokens_to_ids(token)] = embedding


def embedding_matrix(encoder: nn.Module) -> Tensor:
    """Returns the word embeddings [vocabulary, D] of one encoder of a bi-encoder."""
    from transformers import PreTrainedModel

    assert isinstance(encoder, PreTrainedModel)
    weight = encoder.get_input_embeddings().weight
    assert isinstance(weight, Tensor)
    return weight


def initial_model(context: StepContext) -> None:
    """Step: creates the model that training starts from (`settings.model`) and saves it as output `model`."""
    model = BiEncoder.create(context.settings.model)
    model.save(context.output("model"))
    context.events.fact("dimension", model.dim)
    context.events.fact("parameters", sum(parameter.numel() for parameter in model.parameters()))


def _load_encoder(folder: str, dtype: torch.dtype, base: str | None = None) -> "PreTrainedModel":
    """Returns a model without its pooler, which is unused: unused parameters stop distributed training.

    Errors name the model as `base` does, otherwise its folder.
    """
    from transformers import AutoModel

    try:
        encoder = AutoModel.from_pretrained(
            folder, dtype=dtype, use_safetensors=True, trust_remote_code=False, attn_implementation="sdpa"
        )
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise InputError(f"model.base: cannot load {base or folder}: {first_line(error)}") from error
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None
    return encoder


def _load_tokenizer(folder: str, base: str | None = None) -> PreTrainedTokenizer:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, ImportError, KeyError) as error:
        line = f"model.base: cannot load the tokenizer of {base or folder}: {first_line(error)}"
        raise InputError(line) from error


def first_line(error: Exception) -> str:
    """Returns the first line of an error's text, or the error's type where it has no text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _first_position(encoder: LoadedModel) -> int:
    """Returns the position id of the first token."""
    config = encoder.config
    return config.pad_token_id + 1 if config.model_type in _SHIFTED_POSITIONS else 0


def _positions(encoder: LoadedModel) -> int | None:
    positions = getattr(encoder.config, "max_position_embeddings", None)
    return None if positions is None else positions - _first_position(encoder)


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
