"""Passages as an exported model takes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from tokenizers import Tokenizer

from multiview.config import JsonObject, Model
from multiview.data.passages import Passage
from multiview.errors import InputError
from multiview.export.tokenizer_files import read_tokenizer, special_tokens
from multiview.model.encoder import PASSAGE, load_settings
from multiview.model.layouts import TokenSequence, layout
from multiview.model.layouts.base import plain_apostrophes
from multiview.model.layouts.parts import Parts
from multiview.model.layouts.snippets import split_snippets
from multiview.model.plain import PlainTokenizer

PassageInput: TypeAlias = "str | JsonObject"

OWN_MODULE = "view-encoder"
"""Folder of an exported model that needs `multiview.export.view_encoder`."""


def empty_snippet(viewer: str) -> str:
    """Returns the token of an empty snippet: a copy of its viewer token, so that a mask can leave its view out.

    >>> empty_snippet("[VIE3]")
    '[VIE3-EMPTY]'
    """
    return f"{viewer.removesuffix(']')}-EMPTY]"


class PassageInputs:
    """What `MultiVectorEncoder.encode_document` of an exported folder takes for a passage.

    A folder that sentence-transformers loads by itself takes texts, in which special tokens stand for the structure of
    a passage; a passage's score is the best score of its texts. Other folders take a dict with title, text and sentence
    ends.

    >>> inputs = PassageInputs(exported)  # a model of CAMVR with 4 snippets
    >>> inputs.of(passage)
    ['[VIE1]Tower[VIE2]It was built by the king. [VIE3]He died.[VIE4-EMPTY]']
    """

    def __init__(self, folder: Path, padding_views: bool = False) -> None:
        """Reads the exported `folder`. With `padding_views`, views of empty snippets count too (`encode.index_padding_views`)."""
        self._own = (folder / OWN_MODULE).is_dir()
        self._folder = folder / OWN_MODULE if self._own else folder
        self._padding_views = padding_views
        self._settings: Model = load_settings(self._folder)
        self._layout = layout(self._settings, PlainTokenizer(self._folder / PASSAGE))
        self._tokenizer: Tokenizer = read_tokenizer(self._folder / PASSAGE)
        self._sep = special_tokens(self._folder / PASSAGE)["sep_token"]
        special = [
            token.content for token in self._tokenizer.get_added_tokens_decoder().values() if token.special
        ]
        of = self._tokenizer.token_to_id
        viewers = type(self._layout).viewers(self._settings)[1:]
        copies = [(of(empty_snippet(viewer)), of(viewer)) for viewer in viewers]
        self._copies = {copy: viewer for copy, viewer in copies if copy is not None and viewer is not None}
        self._spelled = re.compile("|".join(map(re.escape, sorted(special, key=len, reverse=True))))

    def of(self, passage: Passage, queries: Sequence[str] = ()) -> list[PassageInput]:
        """Returns the inputs of a passage, which was read with `queries` where the architecture reads them.

        Raises InputError for a passage whose tokens a text cannot express: one that is cut within a character or a word.
        """
        if self._own:
            whole = {
                "title": passage.title,
                "text": passage.text,
                "sentence_ends": list(passage.sentence_ends),
            }
            return [{**whole, "queries": list(queries)} if queries else whole]
        sequences = self._layout.passage(passage, queries)
        texts = self._texts(passage, sequences, queries)
        for text, sequence in zip(texts, sequences, strict=True):
            if self._ids(text) != sequence.input_ids:
                raise InputError(
                    f"passage {passage.id!r}: no text gives its tokens; shorten it to model.passage_length "
                    f"{self._settings.passage_length}, or leave out what is spelled like a special token"
                )
        return [*texts]

    def _texts(self, passage: Passage, sequences: list[TokenSequence], queries: Sequence[str]) -> list[str]:
        title, text = self._plain(passage.title), self._plain(passage.text)
        match self._settings.architecture:
            case "camvr":
                return [self._snippets(passage, sequences[0])]
            case "dual-cross":
                body = f"{title} {text}" if title else text
                heads = [self._head(plain_apostrophes(query)) for query in dict.fromkeys(queries)]
                return [head + body for head in heads or [""]]
            case _:
                head = self._head(passage.title)
                if not isinstance(self._layout, Parts):
                    return [head + text]
                return [
                    head + self._plain(passage.text[slice(*span)]) for span in self._layout.spans(passage)
                ]

    def _snippets(self, passage: Passage, sequence: TokenSequence) -> str:
        """Returns the snippets of a passage behind their viewer tokens, cut as the layout cut them."""
        settings = self._settings
        snippets = split_snippets(
            passage.title, passage.text, passage.sentence_ends, settings.views, settings.merge_title
        )
        starts = [view.runs[0][0] for view in sequence.views]
        ends = [*starts[1:], len(sequence.input_ids) - 1]
        viewers = type(self._layout).viewers(settings)[1:]
        texts = []
        for viewer, snippet, start, end in zip(viewers, snippets, starts, ends, strict=True):
            left_out = snippet.padding and not self._padding_views
            text, tokens = self._plain(snippet.text), end - start - 1
            offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
            kept = text if tokens >= len(offsets) else text[: offsets[tokens - 1][1] if tokens else 0]
            texts.append((empty_snippet(viewer) if left_out else viewer) + kept)
        return "".join(texts)

    def _ids(self, text: str) -> list[int]:
        """Returns the tokens that the exported model reads of `text`, copies of viewer tokens as the tokens themselves."""
        limit = self._settings.passage_length
        self._tokenizer.enable_truncation(limit)
        ids = self._tokenizer.encode(text).ids
        self._tokenizer.no_truncation()
        return [self._copies.get(each, each) for each in ids]

    def _head(self, text: str) -> str:
        """Returns `text` with a separator, or nothing where it has no tokens."""
        plain = self._plain(text)
        return f"{plain}{self._sep}" if self._tokenizer.encode(plain, add_special_tokens=False).ids else ""

    def _plain(self, text: str) -> str:
        """Returns `text` with a space in all that spells a special token, which text must not be read as."""
        return self._spelled.sub(lambda match: f"{match[0][:1]} {match[0][1:]}", text)
