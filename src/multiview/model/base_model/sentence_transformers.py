"""How the makers of a base use it, according to its sentence-transformers folder: prompts, pooling, dense layers,
normalisation. Needs neither torch nor transformers, and runs no code from the folder."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from multiview.config import DenseLayer, JsonObject, Pooling
from multiview.errors import InputError, naming

MODULES_FILE = "modules.json"
CONFIGURATION_FILE = "config_sentence_transformers.json"
TRANSFORMER_FILES = tuple(
    f"sentence_{kind}_config.json"
    for kind in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
"""Files with the settings of the transformer, of which the first that exists is read."""

POOLINGS: dict[str, Pooling] = {"cls": "viewer", "mean": "snippet", "lasttoken": "last"}
"""Our name of each pooling of sentence-transformers."""

PASSAGE_PROMPTS = ("document", "passage", "corpus")
"""Names of a passage's prompt; the first one whose prompt is not empty counts."""

ACTIVATIONS = ("Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid")
"""Activations that dense layers may have: names of classes of torch.nn."""

CHOOSE_ANOTHER = "choose another base or architecture"
"""What error lines advise for a base that is not supported."""

_TRAINED_WITH = {
    r"(multilingual-)?e5-(small|base|large)(-v2)?": ("query: ", "passage: "),
    r"bge-(small|base|large)-en(-v1\.5)?": ("Represent this sentence for searching relevant passages: ", ""),
    r"nomic-embed-text-v1(\.5)?|modernbert-embed-(base|large)": ("search_query: ", "search_document: "),
}
"""The prompts of questions and passages that bases of these names were trained with, though no file of theirs says so."""

_CHAIN = re.compile("Transformer Pooling( Dense)*( Normalize)?")
_READ = {
    "max_seq_length": None,
    "do_lower_case": None,
    "unpad_inputs": None,
    "transformer_task": "feature-extraction",
    "module_output_name": "token_embeddings",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
}
"""Settings of the transformer that are supported, each with its only supported value or None for any. Others, such as
those of a chat template, give other tokens or another output than is built here."""
_LEGACY = re.compile("pooling_mode_(.+?)(_tokens?)?")
_SAFE = re.compile(r"\w[\w.-]*")


@dataclass(frozen=True)
class Usage:
    """How the makers of a base use it. The defaults are those of sentence-transformers without a modules.json."""

    question_prompt: str = ""
    passage_prompt: str = ""
    include_prompt: bool = True
    """Whether the mean over tokens includes the prompt's."""
    lower_case: bool = False
    """Whether a text is lower-cased before it is tokenised."""
    max_length: int | None = None
    """Tokens of the longest text; None: as many as the tokenizer allows."""
    pooling: Pooling = "snippet"
    dense: Mapping[str, DenseLayer] = field(default_factory=dict)
    """The layers that a pooled vector passes through, by their folders."""
    normalise: bool = True
    """Whether vectors have length one: by a module, or because the similarity is the cosine."""


def module_folders(base: str, modules: bytes | str) -> list[str]:
    """Returns the sub-folders of the modules that a base's modules.json lists. Raises InputError if it is malformed."""
    with naming(base):
        return [path for _, path in _modules(modules) if path]


def read_usage(folder: Path, base: str, whole: bool) -> Usage:
    """Returns how the base in `folder` is used: its prompts and lower-casing and, with `whole`, everything else.

    Raises InputError, which calls the base `base`, for a file that is not in sentence-transformers' form and, with
    `whole`, for modules, poolings and similarities that are not supported here.
    """
    with naming(f"model.base: {base}"):
        return _usage(folder, whole)


def read_pairs(folder: Path) -> tuple[int | None, bool]:
    """Returns the longest pair of a cross-encoder in tokens, if it says one, and whether texts are lower-cased.

    Raises InputError for a default prompt or a chat template, which sentence-transformers puts around each pair.
    """
    made, (_, transformer) = _json(folder, CONFIGURATION_FILE), _transformer(folder)
    prompts, name = made.get("prompts"), made.get("default_prompt_name")
    if name is not None and isinstance(prompts, dict) and prompts.get(name):
        raise InputError(
            f"{CONFIGURATION_FILE}: a default prompt ({name}: {prompts[name]!r:.80}) is not supported; choose another cross-encoder"
        )
    if "message" in (transformer.get("modality_config") or ["message"]) and _has_chat_template(folder):
        raise InputError(
            "it reads pairs through a chat template, which is not supported; choose another cross-encoder"
        )
    return _longest(transformer), bool(transformer.get("do_lower_case"))


def _transformer(folder: Path) -> tuple[str, JsonObject]:
    """Returns the name of the file of the transformer's settings, empty if there is none, and the settings."""
    name = next((name for name in TRANSFORMER_FILES if (folder / name).is_file()), "")
    return name, _json(folder, name) if name else {}


def _longest(transformer: JsonObject) -> int | None:
    longest = transformer.get("max_seq_length")
    if type(longest) not in (int, type(None)):
        raise InputError(f"its max_seq_length is {longest!r}; write a whole number, or leave it out")
    return longest


def _usage(folder: Path, whole: bool) -> Usage:
    if not (file := folder / MODULES_FILE).is_file():
        return _bare_usage(folder) if whole else Usage()
    modules = _modules(file.read_bytes())
    made = _json(folder, CONFIGURATION_FILE)
    of_transformer, transformer = _transformer(folder)
    pooling = _json(folder, Path(dict(modules).get("Pooling", "")) / "config.json")
    include_prompt, lower_case = pooling.get("include_prompt", True), transformer.get("do_lower_case")
    usage = Usage(*_prompts(made), include_prompt=bool(include_prompt), lower_case=bool(lower_case))
    if not whole:
        return usage
    _check(made, modules)
    for name, value in transformer.items():
        if value and (name not in _READ or value != (_READ[name] or value)):
            raise InputError(f"{of_transformer}: {name} is not supported: {CHOOSE_ANOTHER}")
    if not pooling:
        raise InputError("its Pooling has no config.json: save it anew with sentence-transformers")
    cosine = (made.get("similarity_fn_name") or "cosine") == "cosine"
    return replace(
        usage,
        dense={path: _dense(folder, path) for name, path in modules if name == "Dense"},
        max_length=_longest(transformer),
        pooling=_pooling(pooling),
        normalise=cosine or modules[-1][0] == "Normalize",
    )


def _bare_usage(folder: Path) -> Usage:
    """Returns the usage of a folder without modules.json: pooling by the mean, or by a causal model's last token."""
    if _has_chat_template(folder):
        raise InputError(f"it reads texts through a chat template, without {MODULES_FILE}: {CHOOSE_ANOTHER}")
    config = _json(folder, "config.json")
    made_as = str([*(config.get("architectures") or []), ""][0])
    is_causal = made_as.endswith("ForCausalLM") and config.get("is_causal", True)
    return Usage(pooling="last" if is_causal else "snippet")


def _has_chat_template(folder: Path) -> bool:
    file = folder / "chat_template.jinja"  # as transformers 5 writes it
    return file.is_file() or "chat_template" in _json(folder, "tokenizer_config.json")


def _modules(content: bytes | str) -> list[tuple[str, str]]:
    """Returns the name and folder of each module; another library's module has its full name."""
    modules = []
    for each in _parsed(content, MODULES_FILE, list):
        kind, path = (each.get("type"), each.get("path", "")) if isinstance(each, dict) else (None, None)
        if not (isinstance(kind, str) and isinstance(path, str) and (not path or _SAFE.fullmatch(path))):
            raise InputError(f"{MODULES_FILE} does not list modules, each with a type and a sub folder")
        ours = kind.startswith("sentence_transformers.")
        modules.append((kind.rpartition(".")[2] if ours else kind, path))
    return modules


def _check(made: JsonObject, modules: list[tuple[str, str]]) -> None:
    """Raises InputError unless the model makes one vector per text by modules that are known here."""
    chain = " ".join(name for name, _ in modules)
    if not _CHAIN.fullmatch(chain) or modules[0][1]:
        raise InputError(
            f"its modules are {chain or 'none'}; architecture sentence-transformer knows a Transformer in the folder itself, "
            f"Pooling, Dense layers and Normalize in this order: {CHOOSE_ANOTHER}"
        )
    if (kind := made.get("model_type") or "SentenceTransformer") != "SentenceTransformer":
        raise InputError(f"it is a {kind}, and no SentenceTransformer: {CHOOSE_ANOTHER}")
    if (similarity := made.get("similarity_fn_name") or "cosine") not in ("cosine", "dot"):
        raise InputError(
            f"{CONFIGURATION_FILE}: similarity {similarity} is neither cosine nor dot: choose another base"
        )
    if made.get("truncate_dim"):
        raise InputError(f"{CONFIGURATION_FILE}: truncate_dim is not supported: {CHOOSE_ANOTHER}")


def _prompts(made: JsonObject) -> tuple[str, str]:
    """Returns the prompts of questions and passages, which encode_query and encode_document would use, behind PyLate's
    prefixes. Those of a cross-encoder are for pairs."""
    prompts = made.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(
        isinstance(prompt, str | None) for prompt in prompts.values()
    ):
        raise InputError(f"{CONFIGURATION_FILE}: prompts does not map names to texts")
    if made.get("model_type") == "CrossEncoder":
        return "", ""
    passage = next(filter(None, map(prompts.get, PASSAGE_PROMPTS)), "")
    prefixes = [made.get(f"{kind}_prefix") or "" for kind in ("query", "document")]
    question, passage = (
        f"{prefix}{prompt.removeprefix(prefix)}"
        for prefix, prompt in zip(prefixes, (prompts.get("query") or "", passage), strict=True)
    )
    return question, passage


def trained_prompts(base: str) -> tuple[str, str]:
    """Returns the prompts of questions and passages that the base of this name was trained with, as far as known."""
    name = PurePosixPath(base.partition("@")[0]).name
    return next((made for known, made in _TRAINED_WITH.items() if re.fullmatch(known, name)), ("", ""))


def _pooling(config: JsonObject) -> Pooling:
    mode = config.get("pooling_mode")
    if mode is None:
        legacy = [(match, config[name]) for name in config if (match := _LEGACY.fullmatch(name))]
        mode = [match[1] for match, active in legacy if active] or "mean"
    modes = [mode] if isinstance(mode, str) else mode
    if not isinstance(modes, list) or len(modes) != 1 or str(modes[0]) not in POOLINGS:
        raise InputError(f"pooling {mode} is none of {', '.join(POOLINGS)}: {CHOOSE_ANOTHER}")
    return POOLINGS[modes[0]]


def _dense(folder: Path, path: str) -> DenseLayer:
    config = _json(folder, Path(path) / "config.json")
    activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    name = activation.rpartition(".")[2]
    around = {config.get(f"module_{end}_name") or "sentence_embedding" for end in ("input", "output")}
    if not activation.startswith("torch.nn.") or name not in ACTIVATIONS or config.get("use_residual"):
        raise InputError(
            f"{path}: a dense layer with {activation} or a residual is not known; choose another base"
        )
    width = config.get("out_features")
    if around != {"sentence_embedding"} or type(width) is not int:
        raise InputError(f"{path}: its config.json describes no dense layer of sentence embeddings")
    return DenseLayer(width=width, activation=name)


def _json(folder: Path, name: str | Path) -> JsonObject:
    """Returns the object in a file of a folder, empty if there is no file."""
    return _parsed((folder / name).read_bytes(), str(name), dict) if (folder / name).is_file() else {}


def _parsed(content: bytes | str, name: str, kind: type) -> Any:
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is not JSON ({error})") from error
    if not isinstance(parsed, kind):
        raise InputError(f"{name} holds no {'list' if kind is list else 'object'}")
    return parsed
