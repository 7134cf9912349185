"""Query generators: sequence-to-sequence models that read a passage and write what it might be asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, GenerationConfig

from multiview.config import Generation
from multiview.data.passages import Passage
from multiview.errors import InputError
from multiview.generation.sources import SETTING
from multiview.model.bases import staged_base
from multiview.model.encoder import first_line, quiet
from multiview.steps.context import StepContext

_TOKENS = (
    "decoder_start_token_id",
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
)
"""What is kept of a model's own generation settings: the tokens, not how they are searched for."""


def initial_generator(context: StepContext) -> None:
    """Step: put the model that `settings.generation.model` names into the store, as output `generator`.

    So the hub is asked once, and not by every shard; and what is no generator is refused at once.
    """
    with staged_base(context.settings.generation.model, SETTING) as place:
        model, tokenizer = load(Path(place))
    save(model, tokenizer, context.output("generator"))
    context.events.fact("parameters", model.num_parameters())


def load(folder: Path) -> tuple[Any, Any]:
    """The model in float32, in evaluation mode, and its tokenizer.

    Reads safetensors and runs no code of the model's. InputError for what is no sequence-to-sequence model.
    """
    try:
        with quiet():
            model: Any = AutoModelForSeq2SeqLM.from_pretrained(
                folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
            )
            tokenizer: Any = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except (OSError, ValueError, ImportError, KeyError) as error:
        raise InputError(
            f"{SETTING}: cannot load {folder} as a sequence-to-sequence model such as T5: {first_line(error)}"
        ) from error
    own = model.generation_config
    model.generation_config = GenerationConfig(**{name: getattr(own, name) for name in _TOKENS})
    return model.eval(), tokenizer


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a Hugging Face folder: safetensors, configuration and tokenizer."""
    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def input_text(passage: Passage, settings: Generation) -> str:
    """What the generator reads of a passage: its title, where there is one and it is asked for, and its text."""
    if settings.input == "title_text" and passage.title:
        return f"{passage.title} {passage.text}"
    return passage.text


def check_lengths(model: Any, settings: Generation) -> None:
    """InputError for lengths beyond the positions that the model knows; T5's are relative and have no end."""
    positions = getattr(model.config, "max_position_embeddings", None)
    for name in ("input_length", "max_length"):
        if positions is not None and getattr(settings, name) > positions:
            raise InputError(
                f"generation.{name}: {getattr(settings, name)}, but the model has {positions} positions"
            )
