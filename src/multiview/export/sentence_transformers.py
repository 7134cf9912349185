"""Export of a model as a folder that sentence-transformers loads. DPR with a pooling of `POOLINGS` becomes a
`SentenceTransformer` of the library's own modules. Every other model becomes a `MultiVectorEncoder` with one vector per
question, whose MaxSim is our score; its module is ours, and needs `trust_remote_code=True` and multiview installed."""

from __future__ import annotations

import shutil
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multiview.config import Model
from multiview.export.files import check_installed, new_folder, write_json
from multiview.export.model_card import Description, model_card
from multiview.export.onnx import question_tokenizer, text_tokenizer
from multiview.model.base_model.loading import load_tokenizer, quiet
from multiview.model.encoder import PASSAGE, QUESTION, score_scale, width
from multiview.model.layouts import layout
from multiview.model.systems import load_settings

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from transformers import PreTrainedTokenizerFast

OWN_MODULE = "view-encoder"
"""Folder, in an exported model, of the module that needs `multiview.export.view_encoder`."""
OWN_TYPE = "multiview.export.view_encoder.ViewEncoder"

POOLINGS: dict[str, Any] = {"viewer": "cls", "snippet": "mean", "last": "lasttoken"}
"""Our poolings as sentence-transformers calls them, for architectures without viewer tokens."""


def write_sentence_transformers(model: Path, folder: Path, described: Description | None = None) -> bool:
    """Writes the model in the folder `model` to the new folder `folder`, with a card that tells what is `described`.
    Returns whether sentence-transformers loads it by itself, without multiview and `trust_remote_code=True`. Raises
    InputError if `folder` is not empty, or if sentence-transformers is needed to write the model but not installed.

    >>> write_sentence_transformers(model, folder / "exported")  # a model of CAMVR
    False
    """
    settings, described = load_settings(model), described or Description()
    if described.question_length:
        settings = settings.model_copy(update={"question_length": described.question_length})
    alone = settings.architecture == "dpr" and settings.pooling in POOLINGS
    plain = _plain_model(model, settings) if alone else None
    with new_folder(folder) as part:
        if plain is not None:
            plain.save_pretrained(str(part), create_model_card=False)
        else:
            shutil.copytree(model, part / OWN_MODULE, ignore=shutil.ignore_patterns(".*"))
            names = ("language", "padding_views", "question_length")
            own = {name: value for name in names if (value := getattr(described, name)) is not None}
            write_json(part / OWN_MODULE / "config.json", own)
            write_json(part / "modules.json", [{"idx": 0, "name": "0", "path": OWN_MODULE, "type": OWN_TYPE}])
            whole = {"model_type": "MultiVectorEncoder", "similarity_fn_name": "maxsim", **_prompts(settings)}
            write_json(part / "config_sentence_transformers.json", whole)
        separator = (load_tokenizer(model / PASSAGE).sep_token or " ") if alone else None
        card = model_card(folder.name, settings, width(model), separator, described)
        (part / "README.md").write_text(card, encoding="utf-8")
    return alone


def _plain_model(model: Path, settings: Model) -> SentenceTransformer:
    """Returns a model with a route for questions and one for passages, which differ at least in their tokenizers."""
    check_installed("sentence-transformers", "sentence_transformers")
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Normalize, Router, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    dimension = width(model)

    def route(source: Path, length: int, tokenizer: PreTrainedTokenizerFast, **options: Any) -> list[Any]:
        transformer: Any = Transformer(str(source), query_length=length, document_length=length, **options)
        transformer.processor = tokenizer
        if "add_pooling_layer" in signature(type(transformer.model)).parameters:
            transformer.model.pooler = None  # our models have no weights for it
            transformer.model_kwargs = {"add_pooling_layer": False}
            transformer.config_keys = [*transformer.config_keys, "model_kwargs"]
        elif pooler := getattr(transformer.model, "pooler", None):  # called, and not read
            for weights in pooler.parameters():
                torch.nn.init.zeros_(weights)
        include_prompt = settings.include_prompt or settings.pooling != "snippet"
        pooling = Pooling(dimension, POOLINGS[settings.pooling], include_prompt)
        return [transformer, pooling, *([Normalize()] if settings.normalise else [])]

    with quiet():
        source = model / (PASSAGE if settings.tied else QUESTION)
        special_as_text = {"text": {"split_special_tokens": True}}
        tokenizer = question_tokenizer(source, settings)
        questions = route(source, settings.question_length, tokenizer, processing_kwargs=special_as_text)
        # DPR has the same special tokens around passages.
        around = layout(settings, load_tokenizer(model / PASSAGE)).around_question
        tokenizer = text_tokenizer(model / PASSAGE, settings.passage_length, around)
        passages = route(model / PASSAGE, settings.passage_length, tokenizer)
        if (scale := score_scale(settings)) != 1:
            weight = torch.eye(dimension) * scale
            factor = Dense(dimension, dimension, False, torch.nn.Identity(), weight)
            questions.append(factor)
        router = Router.for_query_document(questions, passages)
        return SentenceTransformer(
            modules=[router], device="cpu", similarity_fn_name="dot", **_prompts(settings)
        )


def _prompts(settings: Model) -> dict[str, Any]:
    """Returns the prompts for `encode_query` and `encode_document`, if the model has any."""
    prompts = {"query": settings.question_prompt or "", "document": settings.passage_prompt or ""}
    return {"prompts": prompts} if any(prompts.values()) else {}
