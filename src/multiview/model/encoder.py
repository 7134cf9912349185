"""The bi-encoder: one or two BERT-like models without poolers, with the viewer tokens of a layout."""

import copy
import sys
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_model
from torch import Tensor, nn

from multiview.config import Model, canonical_json
from multiview.config.documents import checked
from multiview.config.training import SHORTEST_PASSAGE
from multiview.data.passages import Passage
from multiview.errors import InputError, one_line
from multiview.model.base_model.checkpoint import SETTINGS_FILE, staged_base
from multiview.model.base_model.files import BASE, NEEDED
from multiview.model.base_model.loading import (
    LoadedModel,
    add_viewers,
    first_position,
    load_encoder,
    load_tokenizer,
    lower_cased,
    max_positions,
    quiet,
)
from multiview.model.base_model.sentence_transformers import (
    CHOOSE_ANOTHER,
    Usage,
    read_usage,
    trained_prompts,
)
from multiview.model.batch import Batch, Groups, add_snippet_means, encode_groups, make_batch, pool
from multiview.model.dense import DENSE_FILE, make_dense, read_dense
from multiview.model.layouts import architecture, layout
from multiview.model.layouts.base import Layout, PreTrainedTokenizer, name_frame
from multiview.model.lora import save_adapter, with_adapter
from multiview.model.systems import load_settings
from multiview.steps.context import StepContext

PASSAGE = "passage"
QUESTION = "question"
ADAPTER_FOLDER = "adapter"
"""Folder, in a model trained by LoRA, of each encoder's adapter, which is also merged into the saved encoder."""
_TEXTS = (
    Passage("", "one", "two three. four", (11, 15)),
    Passage("", "five a", "b c d e f g. h i", (13, 16)),
)
"""Texts of different lengths, so that one is padded."""
_EQUAL, _ALIKE = 1e-5, 1e-3
"""Largest relative difference of two vectors that is rounding: within a batch, and between batches of other shapes."""
OPTIONAL = ("dense", "question_prompt", "passage_prompt", "include_prompt")
"""Settings that a saved model names only where they are not the defaults."""


class BiEncoder(nn.Module):
    """A question and a passage encoder, one module where settings are `tied`. Of separate ones, one may be absent: a
    search needs only the question encoder."""

    def __init__(
        self,
        settings: Model,
        tokenizer: PreTrainedTokenizer,
        passage: nn.Module | None = None,
        question: nn.Module | None = None,
        dense: Mapping[str, nn.Module] | None = None,
    ) -> None:
        """`dense` has each encoder's dense layers, where the base has any."""
        super().__init__()
        self.settings, self.tokenizer, self.layout = settings, tokenizer, layout(settings, tokenizer)
        parts = {PASSAGE: passage, QUESTION: question}
        self.encoders = nn.ModuleDict({name: part for name, part in parts.items() if part is not None})
        self.dense = nn.ModuleDict(dense)
        self.scale = score_scale(settings)
        encoder = self._encoder(next(iter(self.encoders)))
        self.dim: int = settings.dense[-1].width if settings.dense else encoder.config.hidden_size
        """Length of the vectors."""
        self.positions = max_positions(encoder)
        """Maximum number of tokens per sequence; None if the base model has no limit."""
        self.encode_again = False
        """Whether the backward pass of `forward` encodes each group anew, instead of keeping all activations."""
        self.adapted = False

    def forward(self, questions: Groups, passages: Groups) -> tuple[Tensor, Tensor]:
        """Returns question vectors [B, D], multiplied by the scale, and view vectors [S, V, D], in float32."""
        return (
            encode_groups(self.encode_questions, questions, self.encode_again),
            encode_groups(self.encode_passages, passages, self.encode_again),
        )

    def encode_questions(self, batch: Batch) -> Tensor:
        """Returns question vectors [B, D] float32, multiplied by the scale, so that scores are plain inner products."""
        return self._encode(QUESTION, batch)[:, 0] * self.scale

    def encode_passages(self, batch: Batch) -> Tensor:
        """Returns view vectors [S, V, D] float32; zeros for views that a sequence does not have."""
        return self._encode(PASSAGE, batch)

    def with_eager_attention(self) -> "BiEncoder":
        """Returns a copy with the only implementation of attention that returns its weights (`passage_attention`)."""
        eager = copy.deepcopy(self)
        for part in eager.encoders:
            eager._encoder(part).set_attn_implementation("eager")
        return eager

    def passage_attention(self, batch: Batch) -> Tensor:
        """Returns the last layer's attention [S, heads, L, L] over passages: from each token to each token.

        Only a model `with_eager_attention` returns it. Raises ValueError for a base model that never does.
        """
        encoder = self._encoder(PASSAGE)
        attentions = encoder(**_inputs(encoder, batch), output_attentions=True).attentions
        if not attentions:
            raise ValueError(f"a {encoder.config.model_type} model does not give its attention")
        return attentions[-1]

    def _name(self, part: str) -> str:
        return part if part in self.encoders else PASSAGE

    def _encoder(self, part: str) -> LoadedModel:
        return self.encoders[self._name(part)]

    def _encode(self, part: str, batch: Batch) -> Tensor:
        encoder = self._encoder(part)
        vectors = pool(encoder(**_inputs(encoder, batch)).last_hidden_state, batch["weights"])
        if self.dense:
            with torch.autocast(vectors.device.type, enabled=False):
                vectors = self.dense[self._name(part)](vectors)
        return nn.functional.normalize(vectors, dim=-1) if self.settings.normalise else vectors

    def checkpoint_activations(self) -> None:
        """Recomputes activations in the backward pass instead of keeping them. Raises InputError for a base that cannot."""
        try:
            for part in self.encoders:
                self._encoder(part).activation_checkpointing_enable({"use_reentrant": False})
        except (AttributeError, ValueError) as error:  # the first in older versions of transformers
            raise InputError(
                f"train.gradient_checkpointing: {str(error).rstrip('.')}; set train.chunk instead"
            ) from error

    def add_adapters(self, rank: int, seed: int) -> None:
        """Freezes the encoders: only LoRA adapters of `rank`, viewer token embeddings and dense layers are trained."""
        viewers = self.tokenizer.convert_tokens_to_ids(self.layout.viewers(self.settings))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for part in self.encoders:
                self.encoders[part] = with_adapter(self._encoder(part), rank, viewers)
        self.adapted = True

    def save(self, folder: Path) -> None:
        """Writes `multiview.json` without `base`, which would make equal models differ, and for each encoder a Hugging
        Face folder with its tokenizer and any adapter merged in."""
        folder.mkdir(parents=True, exist_ok=True)
        fields = Model.model_fields
        unset = {name for name in OPTIONAL if getattr(self.settings, name) == fields[name].default}
        settings = {**self.settings.model_dump(mode="json", exclude={"base", *unset}), "scale": self.scale}
        (folder / SETTINGS_FILE).write_text(canonical_json(settings) + "\n")
        with quiet():
            for part in self.encoders:
                encoder = self._encoder(part)
                if self.adapted:
                    save_adapter(encoder, folder / ADAPTER_FOLDER / part)
                    encoder = copy.deepcopy(encoder).merge_and_unload()
                encoder.save_pretrained(folder / part)
                self.tokenizer("")  # else its file would hold the truncation and padding of the last text
                self.tokenizer.save_pretrained(folder / part)
                if self.dense:
                    save_model(self.dense[part], str(folder / part / DENSE_FILE))

    @classmethod
    def load(
        cls, folder: Path, dtype: torch.dtype = torch.float32, questions_only: bool = False
    ) -> "BiEncoder":
        """Loads a model that `save` wrote, in evaluation mode; with `questions_only` without a separate passage encoder.
        Raises InputError if `folder` holds no model."""
        settings = load_settings(folder)
        parts = [PASSAGE] if settings.tied else [QUESTION] if questions_only else [PASSAGE, QUESTION]
        encoders = {part: load_encoder(folder / part, dtype) for part in parts}
        tokenizer = load_tokenizer(folder / parts[0])
        dense = {}
        for part, encoder in encoders.items() if settings.dense else ():
            weights = load_file(folder / part / DENSE_FILE)
            dense[part] = make_dense(weights, settings.dense, encoder.config.hidden_size)
        return cls(settings, tokenizer, **encoders, dense=dense).eval()

    @classmethod
    def create(cls, settings: Model) -> "BiEncoder":
        """Returns the model that training starts from: one or, untied, two copies of the base with the layout's viewer
        tokens added. Raises InputError for a base that cannot be loaded or does not suit the settings."""
        kind = architecture(settings.architecture)
        kind.check(settings)
        with quiet(), staged_base(settings.base) as folder:
            encoder = load_encoder(folder, torch.float32, settings.base)
            tokenizer = load_tokenizer(folder, settings.base, model=encoder)
            name_frame(tokenizer)
            usage = read_usage(folder, settings.base, kind.as_base)
            width = encoder.config.hidden_size
            dense = read_dense(folder, usage.dense, width) if usage.dense else None
        if usage.lower_case:
            tokenizer = lower_cased(tokenizer)
        settings = _with_prompts(settings, usage)
        if kind.as_base:
            own_length = tokenizer.model_max_length if usage.max_length is None else usage.max_length
            longest = min(own_length, max_positions(encoder) or sys.maxsize)
            settings = _as_base(settings, usage, longest, tokenizer)
        kind.check(settings, max_positions(encoder))
        add_viewers(encoder, tokenizer, kind.viewers(settings), settings)
        question = None if settings.tied else copy.deepcopy(encoder)
        parts = [PASSAGE] if settings.tied else [PASSAGE, QUESTION]
        layers = {part: copy.deepcopy(dense) for part in parts} if dense else None
        model = cls(settings, tokenizer, encoder, question, layers).eval()
        model.layout.check_prompts()
        _check_views(model, encoder.config.model_type)
        return model


def _with_prompts(settings: Model, usage: Usage) -> Model:
    """Returns the settings with the prompts of the base's makers where they name none; None stands for no prompt."""
    made = {"question_prompt": usage.question_prompt, "passage_prompt": usage.passage_prompt}
    given = settings.model_dump(include=set(made), exclude_none=True)
    prompts = {name: prompt or None for name, prompt in {**made, **given}.items()}
    return settings.model_copy(update={**prompts, "include_prompt": usage.include_prompt})


def _as_base(settings: Model, usage: Usage, longest: int, tokenizer: PreTrainedTokenizer) -> Model:
    """Returns the settings with the makers' pooling, normalisation and dense layers, and lengths of at most `longest`.

    Raises InputError where the settings ask for others, where these lengths are too short, and for a tokenizer that
    types its tokens or cuts texts at the left, which the layout does not do.
    """
    typed = any(tokenizer("", return_token_type_ids=True)["token_type_ids"])
    if typed or tokenizer.truncation_side != "right":
        how = "gives its tokens types" if typed else "cuts texts at the left"
        raise InputError(f"{BASE}: {settings.base}: its tokenizer {how}: {CHOOSE_ANOTHER}")
    if longest < SHORTEST_PASSAGE:
        raise InputError(f"{BASE}: {settings.base}: it reads {longest} tokens of a text: {CHOOSE_ANOTHER}")
    for name in ("pooling", "normalise"):
        given, made = getattr(settings, name), getattr(usage, name)
        if given not in (made, Model.model_fields[name].default):
            raise InputError(
                f"model.{name}: {given}, but the base's makers use {made}; leave it out, or use architecture dpr"
            )
    lengths = {name: min(getattr(settings, name), longest) for name in ("question_length", "passage_length")}
    made = {"pooling": usage.pooling, "normalise": usage.normalise, "dense": tuple(usage.dense.values())}
    return checked(Model, {**settings.model_dump(), **lengths, **made}, f"{BASE}: {settings.base}")


@torch.inference_mode()
def _check_views(model: BiEncoder, kind: str) -> None:
    """Raises InputError if the base, of type `kind`, cannot encode, reads padding, or gives two texts the same vector.

    The last happens with a causal base, if the tokens that the layout pools come before the text.
    """
    layout, base = model.layout, f"{BASE}: {model.settings.base} ({kind})"
    for name, encode, (one, other) in (
        ("question", model.encode_questions, [layout.question(text.text) for text in _TEXTS]),
        ("passage", model.encode_passages, [layout.passage(text)[0] for text in _TEXTS]),
    ):
        try:
            vectors, alone = (
                encode(make_batch(texts, model.tokenizer.pad_token_id, layout.max_views))
                for texts in ([one, other], [one])
            )
        except Exception as error:  # any at all: the base's code was written for other inputs
            raise InputError(f"{base} cannot encode: {one_line(error)}; give {NEEDED[BASE]}") from error
        if not vectors.isfinite().all():
            raise InputError(f"{base} gives vectors with NaN or infinity; give {NEEDED[BASE]}")
        if vectors.shape[-1] != model.dim:
            raise InputError(
                f"{base} gives vectors of length {vectors.shape[-1]}, unlike its hidden_size {model.dim}; give {NEEDED[BASE]}"
            )
        first, second = vectors.reshape(2, -1, model.dim)
        if (first - alone.reshape(first.shape)).abs().max() > _ALIKE * first.abs().max():
            raise InputError(
                f"{base} reads padding: a text would have another vector beside a longer one; give {NEEDED[BASE]}"
            )
        common = min(len(one.views), len(other.views))
        differences = (first - second)[:common].abs().amax(dim=-1)
        if one.input_ids != other.input_ids and differences.min() <= _EQUAL * first.abs().max():
            raise InputError(
                f"{base} gives every {name} the same vector: its weights are all alike, or it is causal, and architecture "
                f"{layout.name} pools tokens that read no text there; give a bidirectional encoder such as BERT, or use architecture meta, dpr with model.pooling=last, or camvr with model.pooling=snippet"
            )


def _inputs(encoder: LoadedModel, batch: Batch) -> dict[str, Tensor]:
    """Returns the encoder's inputs from a batch: tokens, or embeddings where viewer tokens start from their snippets."""
    inputs = {"attention_mask": batch["attention_mask"]}
    if "viewers" in batch and "snippets" in batch:
        words = encoder.get_input_embeddings()(batch["input_ids"])
        inputs["inputs_embeds"] = add_snippet_means(words, batch["viewers"], batch["snippets"])
    else:
        inputs["input_ids"] = batch["input_ids"]
    if "position_ids" in batch:
        inputs["position_ids"] = batch["position_ids"] + first_position(encoder)
    return inputs


def width(folder: Path) -> int:
    """Returns the length of the vectors of the model in `folder`, without loading the model."""
    from transformers import AutoConfig

    if dense := load_settings(folder).dense:
        return dense[-1].width
    return AutoConfig.from_pretrained(folder / PASSAGE).hidden_size


def score_scale(settings: Model) -> float:
    """Returns what inner products are multiplied by: `model.scale`, or by default 20 for normalised vectors, else 1."""
    if settings.scale is not None:
        return settings.scale
    return 20.0 if settings.normalise else 1.0


def load_layout(folder: Path) -> Layout:
    """Returns the layout of a saved model, without loading the model. Raises InputError if `folder` holds none."""
    return layout(load_settings(folder), load_tokenizer(folder / PASSAGE))


def initial_model(context: StepContext) -> None:
    """Step: creates the model that training starts from (`settings.model`) and saves it as output `model`."""
    given = context.settings.model
    model = BiEncoder.create(given)
    model.save(context.output("model"))
    trained = zip(("question_prompt", "passage_prompt"), trained_prompts(given.base), strict=True)
    unset = [
        f'model.{name}="{prompt}"'
        for name, prompt in trained
        if prompt and (getattr(given, name), getattr(model.settings, name)) == (None, None)
    ]
    if unset:
        context.events.warning(
            f"{BASE}: {given.base} was trained with prompts that its files do not name: set {', '.join(unset)}, or '' for none"
        )
    context.events.fact(
        dimension=model.dim,
        question_prompt=model.layout.question_prompt or "none",
        passage_prompt=model.layout.passage_prompt or "none",
        parameters=sum(parameter.numel() for parameter in model.parameters()),
    )
