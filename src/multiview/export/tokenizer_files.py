"""Tokenizers of exported models: a layout's special tokens and lengths as settings of `tokenizer.json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Tokenizer, normalizers
from tokenizers.processors import TemplateProcessing

from multiview.config import JsonObject
from multiview.errors import InputError
from multiview.model.plain import TOKENIZER_CONFIG_FILE, TOKENIZER_FILE

SPECIAL = ("cls_token", "sep_token", "pad_token", "unk_token", "mask_token")
"""Special tokens that a tokenizer may have, by transformers' names."""


def special_tokens(folder: Path) -> dict[str, str]:
    """Returns the special tokens of the tokenizer saved in `folder`, by transformers' names."""
    config = json.loads((folder / TOKENIZER_CONFIG_FILE).read_text(encoding="utf-8"))
    tokens = {name: config[name] for name in SPECIAL if config.get(name) is not None}
    return {name: token if isinstance(token, str) else token["content"] for name, token in tokens.items()}


def read_tokenizer(folder: Path) -> Tokenizer:
    """Returns the tokenizer saved in `folder`, without truncation or padding. Raises InputError if there is none."""
    path = folder / TOKENIZER_FILE
    if not path.is_file():
        raise InputError(f"{folder} has no {TOKENIZER_FILE}: models with a slow tokenizer cannot be exported")
    tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def question_tokenizer(folder: Path, first: str, as_text: bool = False) -> Tokenizer:
    """Returns the tokenizer in `folder` for questions: `first` question `[SEP]`, with ’ read as ', as layouts read them.

    With `as_text` it reads what spells a special token as text by itself; otherwise `split_special_tokens` must say so.
    """
    tokenizer = read_tokenizer(folder)
    add_around(tokenizer, [first], special_tokens(folder)["sep_token"])
    plain = normalizers.Replace("’", "'")
    before = tokenizer.normalizer
    tokenizer.normalizer = plain if before is None else normalizers.Sequence([plain, before])  # pyright: ignore[reportAttributeAccessIssue]
    if as_text:
        content = json.loads(tokenizer.to_str())
        content["added_tokens"] = [token for token in content["added_tokens"] if not token["special"]]
        tokenizer = Tokenizer.from_str(json.dumps(content))
    return tokenizer


def add_around(tokenizer: Tokenizer, before: Sequence[str], after: str) -> None:
    """Lets `tokenizer` put special tokens before and after each text."""
    template = [*before, "$A", after]
    ids = [(token, id_of(tokenizer, token)) for token in dict.fromkeys((*before, after))]
    tokenizer.post_processor = TemplateProcessing(single=template, special_tokens=ids)  # pyright: ignore[reportAttributeAccessIssue]


def add_copies(tokenizer: Tokenizer, tokens: Iterable[str]) -> list[int]:
    """Adds special tokens and returns their ids."""
    tokens = list(tokens)
    tokenizer.add_special_tokens(tokens)
    return [id_of(tokenizer, token) for token in tokens]


def id_of(tokenizer: Tokenizer, token: str) -> int:
    """Returns the id of a token. Raises InputError for one that the tokenizer does not know."""
    number = tokenizer.token_to_id(token)
    if number is None:
        raise InputError(f"the model's tokenizer does not know {token}: it cannot be exported")
    return number


def write_tokenizer(tokenizer: Tokenizer, special: dict[str, str], folder: Path, length: int) -> None:
    """Writes a tokenizer to `folder` as transformers loads it; texts have up to `length` tokens."""
    tokenizer.save(str(folder / TOKENIZER_FILE))
    write_json(
        folder / TOKENIZER_CONFIG_FILE,
        {
            # The class that takes everything from `tokenizer.json`.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": length,
            "model_input_names": ["input_ids", "attention_mask"],
            "padding_side": "right",
            "truncation_side": "right",
            **special,
        },
    )


def write_json(path: Path, content: JsonObject | list[JsonObject]) -> None:
    """Writes `content` to `path`, its folder included."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
