"""A model as a folder that sentence-transformers loads, as a `MultiVectorEncoder` with one vector per question.

MaxSim over one question vector is the max over a passage's views, which is our score. The folder consists of modules of
sentence-transformers alone wherever they can express the model; otherwise of one module of ours, which it loads only
with `trust_remote_code=True` and with multiview installed. Neither kind needs sentence-transformers to be written.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from multiview.config import JsonObject, Model
from multiview.data.passages import Passage
from multiview.errors import InputError
from multiview.export.description import Description
from multiview.export.files import new_folder
from multiview.export.model_card import model_card
from multiview.export.passage_inputs import OWN_MODULE, PassageInput, PassageInputs, empty_snippet
from multiview.export.tokenizer_files import (
    add_around,
    add_copies,
    id_of,
    question_tokenizer,
    read_tokenizer,
    special_tokens,
    write_json,
    write_tokenizer,
)
from multiview.model.bases import CONFIG_FILE, SETTINGS_FILE
from multiview.model.encoder import PASSAGE, QUESTION, load_settings, score_scale
from multiview.model.layouts import architecture
from multiview.model.layouts.base import SNIPPET_MEAN
from multiview.model.packed import PACKING
from multiview.model.plain import WEIGHTS_FILE

MODULES_FILE = "modules.json"
MODULE_FILE = "config.json"
CARD_FILE = "README.md"

TYPES = {
    "Router": "sentence_transformers.base.modules.router.Router",
    "Transformer": "sentence_transformers.base.modules.transformer.Transformer",
    "Normalize": "sentence_transformers.base.modules.normalize.Normalize",
    "Dense": "sentence_transformers.base.modules.dense.Dense",
    "Mask": "sentence_transformers.multi_vector_encoder.modules.multi_vector_mask.MultiVectorMask",
    "Mean": "sentence_transformers.multi_vector_encoder.modules.token_pooling.HierarchicalTokenPooling",
}
"""Modules of sentence-transformers by the last part of their folder's name."""

OWN_TYPE = "multiview.export.view_encoder.ViewEncoder"

TOKENS = {"module_input_name": "token_embeddings", "module_output_name": "token_embeddings"}

Tensors = dict[str, np.ndarray]


EXAMPLE = ("Tower", "It was built by the king. He died in 1850.", "Who built the tower?")
"""Title and text of the card's passage, and the query that it is read with, where the architecture reads queries."""


def write_sentence_transformers(model: Path, folder: Path, described: Description | None = None) -> bool:
    """Writes the model in the folder `model` to the new folder `folder`, with a card that tells what is `described`.

    Returns whether sentence-transformers loads it by itself; otherwise it needs multiview and `trust_remote_code=True`,
    and has the language of sentences and the choice of padding views from `described`. Raises InputError where `folder`
    exists or the base model cannot be expressed.

    >>> write_sentence_transformers(model, folder / "exported")
    True
    """
    settings = load_settings(model)
    alone = is_expressible(settings)
    with new_folder(folder) as part:
        if alone:
            _write_modules(model, part, settings)
        else:
            own = described or Description(digest="")
            _write_own_module(model, part, {"language": own.language, "padding_views": own.padding_views})
        write_json(
            part / "config_sentence_transformers.json",
            {
                "model_type": "MultiVectorEncoder",
                "prompts": {"query": "", "document": ""},
                "default_prompt_name": None,
                "similarity_fn_name": "maxsim",
            },
        )
        card = model_card(
            folder.name, settings, _dimension(model / PASSAGE), _example(part, settings), alone, described
        )
        (part / CARD_FILE).write_text(card, encoding="utf-8")
    return alone


def is_expressible(settings: Model) -> bool:
    """Returns whether modules of sentence-transformers compute the views of a model with `settings`.

    They select tokens by their ids and average all tokens of a text. Neither gives the first tokens of a text
    (me-bert), the mean of a part of it (camvr's snippets, also where viewer tokens start from it), nor the sum of both.
    """
    kind = settings.architecture
    poolings = ("viewer",) if kind == "camvr" else ("viewer", "snippet")
    return kind != "me-bert" and settings.pooling in poolings and settings.init != SNIPPET_MEAN


def _example(folder: Path, settings: Model) -> list[PassageInput]:
    """Returns what an exported model takes for the card's passage."""
    title, text, query = EXAMPLE
    queries = [query] if architecture(settings.architecture).reads_queries else []
    if not is_expressible(settings):
        return [{"title": title, "text": text, **({"queries": queries} if queries else {})}]
    return PassageInputs(folder).of(Passage("", title, text, (text.index("He"), len(text))), queries)


def _write_own_module(model: Path, folder: Path, settings: JsonObject) -> None:
    shutil.copytree(model, folder / OWN_MODULE, ignore=shutil.ignore_patterns(".*"))
    write_json(folder / OWN_MODULE / MODULE_FILE, settings)
    write_json(folder / MODULES_FILE, [{"idx": 0, "name": "0", "path": OWN_MODULE, "type": OWN_TYPE}])


def _write_modules(model: Path, folder: Path, settings: Model) -> None:
    shutil.copyfile(model / SETTINGS_FILE, folder / SETTINGS_FILE)
    routes = {
        "query": _write_question_route(model, folder, settings),
        "document": _write_passage_route(model, folder, settings),
    }
    write_json(
        folder / "router_config.json",
        {
            "types": {name: TYPES[_type(name)] for names in routes.values() for name in names},
            "structure": routes,
            "parameters": {"default_route": "document", "allow_empty_key": True, "route_mappings": {}},
        },
    )
    write_json(folder / MODULES_FILE, [{"idx": 0, "name": "0", "path": "", "type": TYPES["Router"]}])


def _type(name: str) -> str:
    return "Transformer" if name in (PASSAGE, QUESTION) else name.partition("-")[2]


def _write_question_route(model: Path, folder: Path, settings: Model) -> list[str]:
    """Writes the modules of questions: the model, the only vector, and the scale of scores. Returns their folders."""
    source, target = model / (PASSAGE if settings.tied else QUESTION), folder / QUESTION
    special = special_tokens(source)
    viewers = architecture(settings.architecture).viewers(settings)
    first = viewers[0] if viewers else special["cls_token"]
    tokenizer = question_tokenizer(source, first)
    lengths = {"query_length": settings.question_length}
    _write_transformer(source, target, lengths, {"split_special_tokens": True})
    write_tokenizer(tokenizer, special, target, settings.question_length)
    # A mask has no list of tokens to keep in questions, only one of tokens to leave out: all but one.
    others = sorted(tokenizer.get_vocab(with_added_tokens=True).keys() - {first})
    modules = [
        QUESTION,
        _write_pooling(folder, QUESTION, settings, skiplist_words=others, skiplist_tasks=["query"]),
    ]
    modules += _write_normalize(folder, QUESTION, settings)
    if (scale := score_scale(settings)) != 1:
        modules.append(_write_scale(folder, scale, _dimension(source)))
    return modules


def _write_passage_route(model: Path, folder: Path, settings: Model) -> list[str]:
    """Writes the modules of passages: the model, its views, and their length. Returns their folders."""
    source, target = model / PASSAGE, folder / PASSAGE
    special = special_tokens(source)
    tokenizer = read_tokenizer(source)
    viewers = architecture(settings.architecture).viewers(settings)[1:]
    before, kept = [special["cls_token"]], [special["cls_token"]]
    change: Callable[[Tensors, JsonObject], None] | None = None
    if settings.architecture == "mvr":
        before, kept = viewers, viewers
        change = _together(len(viewers))
    elif settings.architecture == "camvr":
        before, kept = [], viewers
        copies = add_copies(tokenizer, map(empty_snippet, viewers))
        change = _copied({copy: id_of(tokenizer, v) for v, copy in zip(viewers, copies, strict=True)})
    add_around(tokenizer, before, special["sep_token"])
    _write_transformer(source, target, {"document_length": settings.passage_length}, {}, change)
    write_tokenizer(tokenizer, special, target, settings.passage_length)
    ids = [id_of(tokenizer, token) for token in kept]
    pooling = _write_pooling(folder, PASSAGE, settings, keep_only_token_ids=ids)
    return [PASSAGE, pooling, *_write_normalize(folder, PASSAGE, settings)]


def _write_transformer(
    source: Path,
    target: Path,
    lengths: Mapping[str, int],
    processing: JsonObject,
    change: Callable[[Tensors, JsonObject], None] | None = None,
) -> None:
    """Writes an encoder's weights, which `change` may alter together with their configuration."""
    config = json.loads((source / CONFIG_FILE).read_text(encoding="utf-8"))
    target.mkdir(parents=True)
    if change is None:
        for file in sorted(source.glob("model*.safetensors*")):
            shutil.copyfile(file, target / file.name)
    else:
        if not (source / WEIGHTS_FILE).is_file():
            raise InputError(
                f"{source} has no {WEIGHTS_FILE}: save its weights in one file to export the model"
            )
        tensors = load_file(source / WEIGHTS_FILE)
        change(tensors, config)
        save_file(tensors, target / WEIGHTS_FILE, metadata={"format": "pt"})
    write_json(target / CONFIG_FILE, config)
    text = {"method": "forward", "method_output_name": "last_hidden_state"}
    content: JsonObject = {
        "transformer_task": "feature-extraction",
        "modality_config": {"text": text},
        "module_output_name": "token_embeddings",
        **lengths,
    }
    if config.get("model_type") in PACKING:
        content["model_kwargs"] = {"add_pooling_layer": False}
    if processing:
        content["processing_kwargs"] = {"text": processing}
    write_json(target / "sentence_bert_config.json", content)


def _together(viewers: int) -> Callable[[Tensors, JsonObject], None]:
    """Returns the change after which the first tokens, the viewers, all have the embedding of position 0, the text those from 1.

    MVR gives viewer tokens one position; sentence-transformers counts positions on. Renumbered rows amount to the same.
    """

    def change(tensors: Tensors, config: JsonObject) -> None:
        name = "embeddings.position_embeddings.weight"
        if config["model_type"] not in PACKING or name not in tensors:
            raise InputError(
                f"model.base: a {config['model_type']} model cannot be exported with architecture mvr, whose viewer "
                f"tokens share a position; this works for {', '.join(sorted(PACKING))}"
            )
        first = 0 if config["model_type"] == "bert" else config["pad_token_id"] + 1
        rows = tensors[name][first:]
        numbers = np.maximum(np.arange(len(rows)) - viewers + 1, 0)
        tensors[name] = np.concatenate([tensors[name][:first], rows[numbers]])

    return change


def _copied(of: Mapping[int, int]) -> Callable[[Tensors, JsonObject], None]:
    """Returns the change after which the tokens with the ids `of` have the embeddings of the tokens that they map to."""

    def change(tensors: Tensors, config: JsonObject) -> None:
        rows = config["vocab_size"]
        named = [
            name for name, each in tensors.items() if name.endswith("embeddings.weight") and len(each) == rows
        ]
        if len(named) != 1:
            raise InputError(
                f"model.base: the word embeddings of a {config['model_type']} model are not known"
            )
        words = tensors[named[0]]
        more = max(0, max(of) + 1 - rows)
        words = np.concatenate([words, np.zeros((more, words.shape[1]), words.dtype)])
        words[list(of)] = words[list(of.values())]
        tensors[named[0]] = words
        config["vocab_size"] = len(words)

    return change


def _write_pooling(folder: Path, part: str, settings: Model, **mask: object) -> str:
    """Writes the choice of vectors: the tokens that `mask` leaves, or the mean of all tokens. Returns its folder."""
    if settings.pooling == "viewer":
        name = f"{part}-Mask"
        write_json(folder / name / MODULE_FILE, mask)
        return name
    name = f"{part}-Mean"
    # One cluster, however long the text is.
    content = {"pool_factor": 1e9, "num_protected_tokens": 0, "normalize_embeddings": False}
    write_json(folder / name / MODULE_FILE, {**content, "tasks": ["query", "document"]})
    return name


def _write_normalize(folder: Path, part: str, settings: Model) -> list[str]:
    """Writes the normalisation of vectors, if the model has it. Returns its folder, if any."""
    if not settings.normalise:
        return []
    write_json(folder / f"{part}-Normalize" / MODULE_FILE, TOKENS)
    return [f"{part}-Normalize"]


def _write_scale(folder: Path, scale: float, dimension: int) -> str:
    """Writes the factor of scores. Returns its folder."""
    name = f"{QUESTION}-Dense"
    content = {"in_features": dimension, "out_features": dimension, "bias": False}
    activation = "torch.nn.modules.linear.Identity"
    write_json(folder / name / MODULE_FILE, {**content, "activation_function": activation, **TOKENS})
    save_file(
        {"linear.weight": np.eye(dimension, dtype=np.float32) * np.float32(scale)},
        folder / name / WEIGHTS_FILE,
    )
    return name


def _dimension(source: Path) -> int:
    return json.loads((source / CONFIG_FILE).read_text(encoding="utf-8"))["hidden_size"]
