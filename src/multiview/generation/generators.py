"""Query generators: sequence-to-sequence models that read a passage and write queries that it answers."""

from pathlib import Path

from multiview import names
from multiview.artifacts.record import Reference, read_record, split_address
from multiview.artifacts.store import open_store
from multiview.config import Config, Generation
from multiview.data.passages import Passage
from multiview.errors import InputError
from multiview.model.base_model.checkpoint import base_fingerprint, staged_base
from multiview.model.base_model.files import GENERATOR
from multiview.model.layouts.base import LoadedModel, PreTrainedTokenizer
from multiview.steps.context import StepContext

INPUT_LENGTH = 512
"""Longest input in tokens; longer inputs are truncated at the end (the authors' code)."""


def published(model: str) -> Reference | None:
    """Returns the artifact if `generation.model` is the address of a generator in a store; None for a base model. Raises
    InputError for the address of another kind of artifact."""
    try:
        url, kind, key = split_address(model)
        record = read_record(open_store(url), kind, key)
    except InputError:  # a hub name, or a file system that cannot hold a store
        return None
    if record is None:
        return None
    if kind != names.GENERATOR:
        raise InputError(f"{GENERATOR}: {model} is the address of {kind}, not of a generator")
    return Reference(address=model.rstrip("/"), digest=record.digest)


def generator_fingerprint(settings: Config) -> dict[str, str]:
    """Returns the content fingerprint of `settings.generation.model`: part of the key of the generator made from it."""
    return base_fingerprint(settings.generation.model, GENERATOR)


def initial_generator(context: StepContext) -> None:
    """Step: puts the model `generation.model` into the store as `generator`, so that the hub is asked once, not per shard."""
    with staged_base(context.settings.generation.model, GENERATOR) as folder:
        model, tokenizer = load(folder, context.settings.generation.model)
    save(model, tokenizer, context.output("generator"))
    context.events.fact(parameters=model.num_parameters())


def load(folder: Path, name: str | None = None) -> tuple[LoadedModel, PreTrainedTokenizer]:
    """Returns the model in float32, in evaluation mode, and its tokenizer.

    Raises InputError, which calls the model `name` or else its folder, if it is not a whole sequence-to-sequence model.
    """
    import torch
    from transformers import AutoModelForSeq2SeqLM, GenerationConfig

    from multiview.model.base_model.loading import load_model, load_tokenizer

    base = name or str(folder)
    model = load_model(AutoModelForSeq2SeqLM, folder, GENERATOR, base, torch.float32)
    tokenizer = load_tokenizer(folder, base, GENERATOR, model)
    tokenizer.padding_side = tokenizer.truncation_side = "right"  # labels are padded so too
    saved = model.generation_config.to_dict()  # special tokens are kept, and no settings of decoding
    tokens = {name: value for name, value in saved.items() if name.endswith("_token_id")}
    model.generation_config = GenerationConfig(**tokens)
    return model, tokenizer


def save(model: LoadedModel, tokenizer: PreTrainedTokenizer, folder: Path) -> None:
    """Writes a Hugging Face folder: safetensors, configuration and tokenizer."""
    from multiview.model.base_model.loading import quiet

    with quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def input_text(passage: Passage, settings: Generation) -> str:
    """Returns the text that the generator reads: the passage's text, after its title if `settings.input` includes it."""
    if settings.input == "title_text" and passage.title:
        return f"{passage.title} {passage.text}"
    return passage.text


def input_length(model: LoadedModel, settings: Generation) -> int:
    """Returns the longest input in tokens: `INPUT_LENGTH`, or the model's positions if those are fewer (T5's are
    relative). Raises InputError if queries may have more tokens than positions."""
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None:
        return INPUT_LENGTH
    if settings.max_length > positions:
        raise InputError(
            f"generation.max_length: {settings.max_length}, but the model has {positions} positions"
        )
    return min(INPUT_LENGTH, positions)
