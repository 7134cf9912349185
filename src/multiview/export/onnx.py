"""The encoder of questions in ONNX, with the tokenizer that its inputs come from. Needs the extra `onnx`."""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer, normalizers
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn
from transformers import PreTrainedTokenizerFast

from multiview.config import Model
from multiview.errors import InputError
from multiview.export.files import check_installed, new_folder, write_json
from multiview.model.base_model.loading import load_tokenizer, normalise_first, quiet
from multiview.model.encoder import PASSAGE, QUESTION, BiEncoder
from multiview.model.layouts import architecture, layout
from multiview.model.layouts.base import SNIPPET_MEAN

if TYPE_CHECKING:
    import onnx_ir

MODEL_FILE = "model.onnx"
WEIGHTS_FILE = "model.onnx.data"
"""Weights that do not fit into `model.onnx`."""
OPSET = 20
"""Version of ONNX's operators: 20 has GELU, and onnxruntime knows it since 1.17."""
LARGEST_SINGLE_FILE = 1_900_000_000
"""Most bytes of weights that `model.onnx` holds; protobuf allows 2 GiB."""


class QuestionEncoder(nn.Module):
    """The question encoder of a model as one function of tokens."""

    def __init__(self, model: BiEncoder) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Returns question vectors [B, D], times the model's scale, of tokens [B, L] (`attention_mask` 0: padding)."""
        mask = attention_mask.float()
        layout = self.model.layout
        example = layout.question("a")
        start = 0 if layout.pooling == "last" else example.views[0].runs[-1][0]
        # Leaves out the first `start` tokens of each text, but never the last token.
        text = mask * (mask.cumsum(1) > (mask.sum(1, keepdim=True) - 1).clamp(max=start)) if start else mask
        mean = text / text.sum(1, keepdim=True)
        first = torch.zeros_like(mask)
        first[:, start if layout.pooling == "viewer" else 0] = 1
        last = mask - torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], dim=1)
        kinds = {"viewer": first, "snippet": mean, "both": first + mean, "last": last}
        weights = kinds[layout.pooling]
        batch = {"input_ids": input_ids, "attention_mask": attention_mask, "weights": weights[:, None]}
        if self.model.settings.init == SNIPPET_MEAN:
            # The question's own tokens: without the first, the last and the prompt's.
            snippet = torch.cat([mask[:, 1:], torch.zeros_like(mask[:, :1])], dim=1) * (1 - first)
            if (prompt := example.snippets[0][0]) > 1:
                snippet *= mask.cumsum(1) > prompt
            batch["snippets"] = (snippet / snippet.sum(1, keepdim=True).clamp(min=1))[:, None]
            batch["viewers"] = torch.zeros_like(input_ids[:, :1])
        return self.model.encode_questions(batch)  # pyright: ignore[reportArgumentType]


def write_onnx(model: Path, folder: Path, question_length: int | None = None) -> None:
    """Writes the question encoder of the model in the folder `model` to the new folder `folder`, for questions of up to
    `question_length` tokens, by default the model's.

    `model.onnx` takes `input_ids` and `attention_mask`, int64 [batch, length], of any batch and any length up to that
    one, and gives `vector`, float32 [batch, D]: what `Encoder.question_vectors` returns. `tokenizer.json` reads
    questions as the model does, including prompt, padding and truncation. The same model gives the same bytes with the
    same versions of torch and onnxscript. Raises InputError if `folder` is not empty, the extra `onnx` is missing,
    torch cannot export the base model, or its tokenizer has no place for a prompt.
    """
    check_installed("onnx", "onnx", "onnxscript")
    encoder = BiEncoder.load(model, questions_only=True)
    if question_length is not None:
        encoder.layout.lengthen_questions(question_length, encoder.positions)
    settings = encoder.layout.settings
    with new_folder(folder) as part:
        tokenizer = question_tokenizer(model / (PASSAGE if settings.tied else QUESTION), settings)
        saved = json.loads(tokenizer.backend_tokenizer.to_str())
        # A text that spells a special token remains text.
        saved["added_tokens"] = [token for token in saved["added_tokens"] if not token["special"]]
        plain = Tokenizer.from_str(json.dumps(saved))
        if prompt := encoder.layout.question_prompt:
            if saved["added_tokens"]:  # a text is normalised piece by piece between them
                raise InputError(
                    f"model.question_prompt: the base's tokenizer cuts texts at {saved['added_tokens'][0]['content']!r} first, so its "
                    "tokenizer.json cannot begin them with a prompt; export the model for sentence-transformers"
                )
            normalise_first(plain, normalizers.Prepend(prompt))
        plain.enable_truncation(settings.question_length)
        plain.enable_padding(pad_id=tokenizer.pad_token_id, pad_token=tokenizer.pad_token)
        plain.save(str(part / "tokenizer.json"))
        _save(_exported(encoder), part)
        content = {"dimension": encoder.dim, "question_length": settings.question_length, "opset": OPSET}
        write_json(part / "config.json", {"architecture": settings.architecture, **content})


def question_tokenizer(folder: Path, settings: Model) -> PreTrainedTokenizerFast:
    """Returns the tokenizer in `folder` for questions as the layout reads them: with its special tokens and `'` for
    `’`; or, if the layout is the base's own, as the base's makers read them."""
    if architecture(settings.architecture).as_base:
        return text_tokenizer(folder, settings.question_length)
    around = layout(settings, load_tokenizer(folder)).around_question
    tokenizer = text_tokenizer(folder, settings.question_length, around)
    normalise_first(tokenizer.backend_tokenizer, normalizers.Replace("’", "'"))
    return tokenizer


def text_tokenizer(
    folder: Path, length: int, around: tuple[Sequence[int], Sequence[int]] | None = None
) -> PreTrainedTokenizerFast:
    """Returns the tokenizer in `folder` for texts of up to `length` tokens. `around` are the ids of special tokens
    before and after a text, by default the tokenizer's own. Raises InputError for a slow tokenizer, which no other
    program could read."""
    loaded = load_tokenizer(folder)
    if not loaded.is_fast:
        raise InputError(
            f"{folder} has a slow tokenizer, which cannot be exported: choose another model.base"
        )
    fast: Any = Tokenizer.from_str(loaded.backend_tokenizer.to_str())
    fast.no_truncation()
    fast.no_padding()
    if around:
        first, last = (loaded.convert_ids_to_tokens(list(ids)) for ids in around)
        ids = [(token, loaded.convert_tokens_to_ids(token)) for token in (*first, *last)]
        fast.post_processor = TemplateProcessing(single=[*first, "$A", *last], special_tokens=ids)
    special = {name: token for name, token in loaded.special_tokens_map.items() if isinstance(token, str)}
    return PreTrainedTokenizerFast(tokenizer_object=fast, model_max_length=length, **special)


def _exported(encoder: BiEncoder) -> onnx_ir.Model:
    """Returns the graph of the question encoder, for any batch and length."""
    ids = torch.full((2, 6), encoder.layout.question("a").input_ids[0])
    mask = torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    axes = {
        0: torch.export.Dim("batch"),
        1: torch.export.Dim("length", max=encoder.layout.settings.question_length),
    }
    with _silent(), torch.no_grad():
        try:
            program = torch.onnx.export(
                QuestionEncoder(encoder).eval(),
                (ids, mask),
                input_names=["input_ids", "attention_mask"],
                output_names=["vector"],
                dynamic_shapes={"input_ids": axes, "attention_mask": axes},
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
        except torch.onnx.OnnxExporterError as error:
            lines = str(error).strip().splitlines() or [""]
            raise InputError(f"model.base: torch cannot export it to ONNX ({lines[0]})") from error
    assert program is not None
    return program.model


def _save(model: onnx_ir.Model, folder: Path) -> None:
    """Writes the graph and its weights, without traces of the code and the machine that exported it."""
    import onnx_ir

    model.producer_name, model.producer_version = "multiview", None
    graphs = [model.graph, *model.functions.values()]
    described: list[Any] = [model, *graphs, *model.graph.initializers.values()]
    for graph in graphs:
        described += [*graph.inputs, *graph.outputs]
        for node in graph.all_nodes():
            described += [node, *node.outputs]
    for each in described:
        each.metadata_props.clear()
        each.doc_string = None
    size = sum(value.const_value.nbytes for value in model.graph.initializers.values() if value.const_value)
    weights = WEIGHTS_FILE if size > LARGEST_SINGLE_FILE else None
    onnx_ir.save(model, folder / MODEL_FILE, external_data=weights)


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Silences the exporter's notes about its own workings."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"), quiet():
            yield
    finally:
        logging.disable(level)
