"""Query generators: sequence-to-sequence models that read a passage and write queries that it answers."""

from __future__ import annotations

from pathlib import Path

import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from multiview.config import Generation
from multiview.data.passages import Passage
from multiview.errors import InputError
from multiview.generation.sources import SETTING
from multiview.model.base_model.checkpoint import staged_base
from multiview.model.base_model.loading import LoadedModel, first_line, quiet
from multiview.model.layouts import PreTrainedTokenizer
from multiview.steps.context import StepContext

INPUT_LENGTH = 512
"""Longest input in tokens; longer inputs are truncated at the end (the authors' code)."""
_TOKENS = (
    "decoder_start_token_id",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
)
"""Fields of a model's generation settings that are kept: special tokens, and nothing about the search."""


def initial_generator(context: StepContext) -> None:
    """Step: puts the model that `settings.generation.model` names into the store, as output `generator`.

    The hub is then asked once and not per shard, and a model that is no generator is rejected early.
    """
    with staged_base(context.settings.generation.model, SETTING) as folder:
        model, tokenizer = load(Path(folder))
    save(model, tokenizer, context.output("generator"))
    context.events.fact("parameters", model.num_parameters())


def load(folder: Path) -> tuple[LoadedModel, PreTrainedTokenizer]:
    """Returns the model in float32, in evaluation mode, and its tokenizer.

    Reads safetensors and runs no code from the model's folder. Raises InputError if it is not a sequence-to-sequence
    model.
    """
    try:
        with quiet():
            model: LoadedModel = AutoModelForSeq2SeqLM.from_pretrained(
                folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
            )
            tokenizer: PreTrainedTokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise InputError(
            f"{SETTING}: cannot load {folder} as a sequence-to-sequence model such as T5: {first_line(error)}"
        ) from error
    saved = model.generation_config
    model.generation_config = GenerationConfig(**{name: getattr(saved, name) for name in _TOKENS})
    return model.eval(), tokenizer


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Writes a Hugging Face folder: safetensors, configuration and tokenizer."""
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def input_text(passage: Passage, settings: Generation) -> str:
    """Returns the text that the generator reads: the passage's text, after its title if `settings.input` includes it."""
    if settings.input == "title_text" and passage.title:
        return f"{passage.title} {passage.text}"
    return passage.text


def input_length(model: PreTrainedModel, settings: Generation) -> int:
    """Returns the longest input in tokens: `INPUT_LENGTH`, or the model's positions if those are fewer.

    Raises InputError if the queries are longer than the positions; T5's positions are relative and have no limit.
    """
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None:
        return INPUT_LENGTH
    if settings.max_length > positions:
        raise InputError(
            f"generation.max_length: {settings.max_length}, but the model has {positions} positions"
        )
    return min(INPUT_LENGTH, positions)
