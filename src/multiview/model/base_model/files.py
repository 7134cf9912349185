"""Checks of a base model's files before anything is loaded from them. Needs neither torch nor transformers."""

import json
import re
from collections.abc import Callable, Collection, Mapping
from fnmatch import fnmatch
from os.path import normpath
from typing import IO, Any

from multiview.errors import InputError

CONFIG_FILE = "config.json"
"""File with the architecture of a transformers model."""
SAFETENSORS, PICKLED = "*.safetensors", "pytorch_model*.bin"
"""Weights. Pickles are read only where there are no others, and then as tensors and nothing else."""
PATTERNS = (SAFETENSORS, "*.json", "*.txt", "*.model", "*.jinja")
"""Weights, configuration, tokenizer and its chat template."""
TOKENIZERS = ("tokenizer*.json", "vocab.*", "*.model")
"""A tokenizer has at least one of these files."""
BASE, GENERATOR = "model.base", "generation.model"
TEACHER, RERANKER = "mining.cross_encoder", "search.rerank"
NEEDED = {
    BASE: "an encoder such as BERT",
    GENERATOR: "a sequence-to-sequence model such as T5",
    **dict.fromkeys((TEACHER, RERANKER), "a model trained as a cross-encoder"),
}
"""What a setting that names a base model needs, in error lines."""
_PLAIN = re.compile(r"qwen[23]|llama|mistral|gemma[23]?(_text)?|(xlm-)?roberta|bert")
"""Types whose weights transformers loads as its own type where a folder's code makes another model of them."""
_POINTER = b"version https://git-lfs"
_WRAPPER = re.compile(
    r"(?:(?:module|_orig_mod|_fsdp_wrapped_module|base_model\.model|question_encoder|ctx_encoder|auto_model|bert_model|\d+)\.)+"
)


def model_files(names: Collection[str], pickles: bool = True) -> list[str]:
    """Returns those of a folder's files that a model is read from; pickled weights only if `pickles` says so."""
    safe = not pickles or any(fnmatch(name, SAFETENSORS) for name in names)
    patterns = PATTERNS if safe else (*PATTERNS, PICKLED)
    return [name for name in names if any(fnmatch(name, pattern) for pattern in patterns)]


def check_names(base: str, names: Collection[str]) -> None:
    """Raises InputError unless a folder called `base` with files `names` has configuration, weights and tokenizer."""
    if "adapter_config.json" in names:
        raise InputError(f"{base} is an adapter; merge it into its model (merge_and_unload) and save that")
    for patterns, way_out in (
        (
            (CONFIG_FILE,),
            "give the folder of its transformer, as save_pretrained wrote it, or save it anew with sentence-transformers",
        ),
        ((SAFETENSORS, PICKLED), "load and save the model once with transformers to convert it"),
        (TOKENIZERS, "save its tokenizer there too"),
    ):
        if not any(fnmatch(name, pattern) for name in names for pattern in patterns if "/" not in name):
            raise InputError(f"{base} holds no {' or '.join(patterns)}; {way_out}")


def check_files(base: str, files: Mapping[str, Callable[[], Any]], setting: str) -> None:
    """Raises InputError unless a folder called `base` holds a whole model of the kind that `setting` needs.

    `files` are its files by name, each as a function that opens it. None may be a Git LFS pointer, and the weights may
    be neither quantised nor named as in a wrapper around the model.
    """
    check_names(base, files)
    for name, opened in files.items():
        with opened() as file:
            begin, size = file.read(len(_POINTER)), file.seek(0, 2)
            file.seek(0)
            if begin == _POINTER:
                raise InputError(
                    f"{base}: {name} is a Git LFS pointer of {size} bytes, not the file; run git lfs pull there"
                )
            if name == CONFIG_FILE:
                _check_config(base, file, setting)
            elif fnmatch(name, SAFETENSORS):
                _check_weights(base, name, file, size)
    _check_shards(base, files)


def _check_shards(base: str, files: Mapping[str, Callable[[], Any]]) -> None:
    """Raises InputError where a file that the index of sharded weights names is not beside it, if they are read by it: one
    elsewhere would be part of no key."""
    safe = any(fnmatch(name, SAFETENSORS) for name in files)
    whole = "model.safetensors" if safe else "pytorch_model.bin"
    index = f"{whole}.index.json"
    if whole in files or (opened := files.get(index)) is None:
        return
    with opened() as file:
        try:
            shards = {normpath(shard) for shard in json.load(file)["weight_map"].values()}
        except (ValueError, AttributeError, TypeError, KeyError, RecursionError) as error:
            raise InputError(f"{base}: {index} is no index of weights; copy it again") from error
    if missing := sorted(shards.difference(files)):
        raise InputError(f"{base}: {missing[0]} is missing beside {index}, which names it; copy it there")


def _check_config(base: str, file: IO[bytes], setting: str) -> None:
    try:
        config: dict[str, Any] = {**json.load(file)}
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{base}: its {CONFIG_FILE} is not an object of JSON ({error})") from error
    if config.get("quantization_config"):
        raise InputError(f"{base} is quantised; give the model in float32, float16 or bfloat16")
    if "flash" in str(config.get("attn_implementation") or config.get("_attn_implementation")):
        raise InputError(
            f"{base}: its {CONFIG_FILE} asks for flash attention, which would take MVR's viewer tokens for texts of their own; "
            "remove attn_implementation from it"
        )
    code, kind = (
        config.get("auto_map"),
        "AutoModel" if setting == BASE else "AutoModelForSequenceClassification",
    )
    plain = _PLAIN.fullmatch(str(config.get("model_type")))
    if plain and config.get("is_causal") is not False and isinstance(code, dict) and kind in code:
        raise InputError(
            f"{base}: its {CONFIG_FILE} names code of its own ({code[kind]}, in auto_map), and no code of a base is run: it "
            f"would be a plain {plain[0]}; give another base, or set is_causal to false there if its code does no more "
            "than to read both ways, or remove auto_map if it does nothing that transformers' own does not"
        )
    classes = config.get("architectures") or []
    classes = [*map(str, classes)] if isinstance(classes, list) else [str(classes)]
    decodes, half = bool(config.get("is_encoder_decoder")), any("EncoderModel" in name for name in classes)
    judges = not classes or any("SequenceClassification" in name for name in classes)
    unfit = {BASE: decodes or half, GENERATOR: not decodes, TEACHER: not judges, RERANKER: not judges}
    if unfit.get(setting):
        kind = f"{config.get('model_type')} ({', '.join(classes)})" + ", an encoder-decoder" * decodes
        raise InputError(f"{base} is of type {kind}; give {NEEDED[setting]}")


def _check_weights(base: str, file_name: str, file: IO[bytes], size: int) -> None:
    """Raises InputError for unfit weights by the header of a safetensors file: its length in 8 bytes, then JSON."""
    length, tensors, end = int.from_bytes(file.read(8), "little"), {}, -1
    try:
        tensors: dict[str, Any] = json.loads(file.read(length)) if length < size else {}
        tensors.pop("__metadata__", None)
        end = 8 + length + max(tensor["data_offsets"][1] for tensor in tensors.values())
    except (ValueError, AttributeError, TypeError, KeyError, RecursionError):
        pass
    if end != size:
        raise InputError(f"{base}: {file_name} is damaged or cut off; copy it again")
    for name, tensor in tensors.items():
        if wrapper := _WRAPPER.match(name):
            raise InputError(
                f"{base}: the names of its weights begin with {wrapper[0]} ({name}), so a wrapper around the model was saved "
                "(DDP, torch.compile, DPR, sentence-transformers); save the model inside it with save_pretrained"
            )
        if name.endswith("weight") and tensor["dtype"] not in ("F64", "F32", "F16", "BF16"):
            raise InputError(
                f"{base} is quantised ({name} is {tensor['dtype']}); give the model in float32, float16 or bfloat16"
            )
