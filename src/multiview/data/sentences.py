"""Sentence boundaries, by NLTK's `sent_tokenize` (CAMVR 3.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.data.passages import shard_files
from multiview.errors import InputError

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktTokenizer

ENDS = pa.list_(pa.int32())
"""Type of the column `sentence_ends` in shards."""

SentencesOf = Callable[[Sequence[str], Sequence[str]], pa.Array]
"""Function from texts and their content hashes to their sentence ends, an array [texts] of type `ENDS`."""


@lru_cache
def tokenizer(language: str = "english") -> PunktTokenizer:
    """The tokenizer behind NLTK's `sent_tokenize`, loaded once per language.

    Raises InputError when its data are not installed.
    """
    from nltk.tokenize.punkt import PunktTokenizer  # late: NLTK takes seconds to import

    try:
        return PunktTokenizer(language)
    except LookupError:
        raise InputError(
            f"corpus.language={language}: NLTK's sentence data for it are not installed; run: "
            f"python -m nltk.downloader punkt_tab (in a checkout: python images/sentence_data.py {language})"
        ) from None
    except ValueError as error:
        raise InputError(f"corpus.language={language}: {error}") from None


def sentence_ends(text: str, language: str = "english") -> tuple[int, ...]:
    """Returns the end offsets of the text's sentences, in code points.

    White space up to the next sentence belongs to a sentence, and leading white space to the first one. The sentences
    therefore partition the text, and the last end is len(text). An empty text has no sentences.
    Raises InputError when NLTK's data for the language are not installed.
    """
    return next(iterate_sentence_ends([text], language))


def iterate_sentence_ends(texts: Iterable[str], language: str = "english") -> Iterator[tuple[int, ...]]:
    """Yields the `sentence_ends` of many texts, with a tokenizer that is loaded once."""
    # `sent_tokenize` calls `tokenize` of this tokenizer, which returns the text at these spans.
    splitter = tokenizer(language)
    for text in texts:
        starts = [start for start, _ in splitter.span_tokenize(text)]
        yield (*starts[1:], len(text)) if text else ()


class SplitSentences:
    """Sentence ends by NLTK's tokenizer for a language."""

    def __init__(self, language: str) -> None:
        self._language = language

    def __call__(self, texts: Sequence[str], hashes: Sequence[str]) -> pa.Array:
        return pa.array(map(list, iterate_sentence_ends(texts, self._language)), ENDS)


class KnownSentences:
    """Sentence ends of the passages in the shards of `folder`, by content hash; `otherwise` computes all others.

    The hashes and sentence ends of the folder's passages stay in memory.
    """

    def __init__(self, folder: Path, otherwise: SentencesOf) -> None:
        columns = ["content_hash", "sentence_ends"]
        known = pa.concat_tables(pq.read_table(file, columns=columns) for file in shard_files(folder))
        chunks = known["content_hash"].chunks
        hashes = np.concatenate([chunk.to_numpy(zero_copy_only=False).astype("S32") for chunk in chunks])
        order = np.argsort(hashes)
        self._hashes, self._otherwise = hashes[order], otherwise
        self._ends = known["sentence_ends"].cast(ENDS).take(pa.array(order)).combine_chunks()

    def __call__(self, texts: Sequence[str], hashes: Sequence[str]) -> pa.Array:
        if not len(self._hashes):
            return self._otherwise(texts, hashes)
        wanted = np.array(hashes, "S32")
        positions = np.searchsorted(self._hashes, wanted).clip(max=len(self._hashes) - 1)
        known = self._hashes[positions] == wanted
        new = np.flatnonzero(~known).tolist()
        fresh = self._otherwise([texts[row] for row in new], [hashes[row] for row in new])
        ends = pa.concat_arrays([self._ends.take(pa.array(positions[known])), fresh])
        return ends.take(pa.array(np.argsort(np.concatenate([np.flatnonzero(known), new]))))
