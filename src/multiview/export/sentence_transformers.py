"""A model as a folder that sentence-transformers loads.

DPR is a `SentenceTransformer` of its own modules: Transformer, Pooling and, where the model has them, Normalize and the
factor of scores. Every other architecture is a `MultiVectorEncoder` with one vector per question, whose MaxSim is our
score; it names a module of ours, which is loaded only with `trust_remote_code=True` and with multiview installed.
Neither kind needs sentence-transformers to be written.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from multiview.config import JsonObject, Model
from multiview.export.files import new_folder, write_json
from multiview.export.model_card import Description, model_card
from multiview.export.onnx import question_tokenizer, text_tokenizer
from multiview.model.base_model.loading import load_tokenizer
from multiview.model.encoder import PASSAGE, QUESTION, load_settings, score_scale, width

OWN_MODULE = "view-encoder"
"""Folder of an exported model that needs `multiview.export.view_encoder`."""

OWN_TYPE = "multiview.export.view_encoder.ViewEncoder"
ROUTER = "sentence_transformers.base.modules.router.Router"
TYPES = {
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    "Pooling": "sentence_transformers.sentence_transformer.modules.pooling.Pooling",
    "Normalize": "sentence_transformers.base.modules.normalize.Normalize",
    "Dense": "sentence_transformers.base.modules.dense.Dense",
}
"""Modules of sentence-transformers by the last part of their folder's name."""

POOLINGS = {"viewer": "cls", "snippet": "mean"}
"""Poolings of sentence-transformers by ours, for architectures without viewer tokens."""

WITH_POOLER = ("bert", "roberta", "xlm-roberta", "camembert")
"""Types of base models that transformers gives a pooler, which ours have not."""


def write_sentence_transformers(model: Path, folder: Path, described: Description | None = None) -> bool:
    """Writes the model in the folder `model` to the new folder `folder`, with a card that tells what is `described`.

    Returns whether sentence-transformers loads it by itself; otherwise it needs multiview and `trust_remote_code=True`,
    and has the language of sentences and the choice of padding views from `described`. Raises InputError where `folder`
    exists.

    >>> write_sentence_transformers(model, folder / "exported")  # a model of CAMVR
    False
    """
    settings, described = load_settings(model), described or Description()
    alone = settings.architecture == "dpr" and settings.pooling in POOLINGS
    with new_folder(folder) as part:
        if alone:
            _write_modules(model, part, settings)
        else:
            shutil.copytree(model, part / OWN_MODULE, ignore=shutil.ignore_patterns(".*"))
            own = {"language": described.language, "padding_views": described.padding_views}
            write_json(part / OWN_MODULE / "config.json", own)
            write_json(part / "modules.json", [_module(OWN_MODULE, OWN_TYPE)])
        whole: JsonObject = {
            "model_type": "SentenceTransformer" if alone else "MultiVectorEncoder",
            "prompts": {"query": "", "document": ""},
            "default_prompt_name": None,
            "similarity_fn_name": "dot" if alone else "maxsim",
        }
        write_json(part / "config_sentence_transformers.json", whole)
        separator = load_tokenizer(str(model / PASSAGE)).sep_token if alone else None
        card = model_card(folder.name, settings, width(model), separator, described)
        (part / "README.md").write_text(card, encoding="utf-8")
    return alone


def _module(path: str, type: str) -> JsonObject:
    return {"idx": 0, "name": "0", "path": path, "type": type}


def _write_modules(model: Path, folder: Path, settings: Model) -> None:
    """Writes a route for questions and one for passages, which differ in their tokenizers at least."""
    source = model / (PASSAGE if settings.tied else QUESTION)
    routes = {
        "query": _write_route(source, folder, "query", settings),
        "document": _write_route(model / PASSAGE, folder, "document", settings),
    }
    question_tokenizer(source, settings).save_pretrained(folder / "query-Transformer")
    passages = text_tokenizer(model / PASSAGE, settings.passage_length)
    passages.save_pretrained(folder / "document-Transformer")
    if (scale := score_scale(settings)) != 1:
        routes["query"].append("query-Dense")
        _write_scale(folder / "query-Dense", scale, width(model))
    types = {name: TYPES[name.partition("-")[2]] for names in routes.values() for name in names}
    parameters = {"default_route": "document", "allow_empty_key": True, "route_mappings": {}}
    write_json(folder / "router_config.json", {"types": types, "structure": routes, "parameters": parameters})
    write_json(folder / "modules.json", [_module("", ROUTER)])


def _write_route(source: Path, folder: Path, route: str, settings: Model) -> list[str]:
    """Writes the encoder in `source`, its pooling and its normalisation. Returns the names of their folders."""
    transformer = folder / f"{route}-Transformer"
    shutil.copytree(source, transformer, ignore=shutil.ignore_patterns(".*"))
    config = json.loads((source / "config.json").read_text(encoding="utf-8"))
    content: JsonObject = {
        "transformer_task": "feature-extraction",
        "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
        "module_output_name": "token_embeddings",
        "query_length": settings.question_length,
        "document_length": settings.passage_length,
        "model_kwargs": {"add_pooling_layer": False} if config["model_type"] in WITH_POOLER else {},
    }
    if route == "query":  # what spells a special token is text
        content["processing_kwargs"] = {"text": {"split_special_tokens": True}}
    write_json(transformer / "sentence_bert_config.json", content)
    pooling = {"embedding_dimension": config["hidden_size"], "pooling_mode": POOLINGS[settings.pooling]}
    write_json(folder / f"{route}-Pooling" / "config.json", pooling)
    names = [f"{route}-Transformer", f"{route}-Pooling"]
    if settings.normalise:
        write_json(folder / f"{route}-Normalize" / "config.json", {})
        names.append(f"{route}-Normalize")
    return names


def _write_scale(folder: Path, scale: float, dimension: int) -> None:
    """Writes the factor of scores as a product with a diagonal matrix."""
    config = {"in_features": dimension, "out_features": dimension, "bias": False}
    write_json(folder / "config.json", {**config, "activation_function": "torch.nn.modules.linear.Identity"})
    weights = np.eye(dimension, dtype=np.float32) * np.float32(scale)
    save_file({"linear.weight": weights}, folder / "model.safetensors")
