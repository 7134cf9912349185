"""The meaning of the rows of an index: passage, view of the passage, part of its text, generated query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from multiview.data.arrays import int64_array
from multiview.data.passages import SCHEMA, Passage, PassageLookup, PassageRows, passages_of
from multiview.data.queries import distinct
from multiview.data.reading.tables import Row
from multiview.data.tokens import Span
from multiview.errors import InputError
from multiview.model.layouts import Layout, Part, TokenSequence, row_numbers

if TYPE_CHECKING:
    from multiview.index.view_index import ViewIndex


@dataclass(frozen=True, slots=True)
class IndexedView:
    """A view of a passage that has a row in the index."""

    number: int
    """Position among all views of the passage, from 0; views that the index leaves out count too."""
    padding: bool
    """Whether it is the view of an empty snippet."""
    span: Span | None
    """The part of the text that the view represents; none for the title, and where views represent no part of the text."""
    snippet: str | None
    """The text of the span; the title for the title's view; empty for padding; none where the architecture's views
    represent no part of the passage (MVR)."""
    query: str | None
    """The generated query that the passage was read with for this view, where the architecture reads queries."""


@dataclass(frozen=True)
class IndexedPassage:
    """A passage of an index with its text. It is tokenised when its sequences are first asked for."""

    row: int
    """Row of the passage in the index."""
    passage: Passage
    columns: Row
    """Other columns of the corpus, such as url or date, where they were read."""
    queries: tuple[str, ...]
    """The queries that the passage was read with, repeats included; empty for most architectures."""
    view_count: int
    """Number of the passage's views in the index."""
    layout: Layout

    @cached_property
    def sequences(self) -> list[TokenSequence]:
        """The token sequences of the passage, as they were encoded."""
        return self.layout.passage(self.passage, self.queries)

    @cached_property
    def parts(self) -> list[Part]:
        """What all views of the passage represent, in order, those that the index leaves out included."""
        return self.layout.parts(self.passage, self.queries)

    @cached_property
    def views(self) -> list[IndexedView]:
        """The views that the passage's rows in the index represent, row by row.

        Raises InputError where the layout makes other views than were indexed.
        """
        try:
            numbers = row_numbers(self.parts, self.view_count)
        except InputError as error:
            raise InputError(f"passage {self.passage.id!r}: {error}") from error
        return [self._indexed(number, self.parts[number]) for number in numbers]

    def _indexed(self, number: int, part: Part) -> IndexedView:
        queries = distinct(self.queries)
        query = queries[number] if number < len(queries) else None
        return IndexedView(number, part.padding, part.span, self._snippet(part), query)

    def _snippet(self, part: Part) -> str | None:
        if part.padding:
            return ""
        if part.span is not None:
            return self.passage.text[slice(*part.span)]
        return self.passage.title if self.layout.has_spans else None


class Texts(Protocol):
    """The texts of an index's passages."""

    def read(self, rows: np.ndarray) -> Iterator[tuple[int, Passage, Row]]:
        """The passages of some rows of the index (rising, each once): row, passage, and the other columns of the corpus."""
        ...


class TextsById:
    """Texts of a corpus in any order, looked up by id; they come in the order of the corpus, without its other columns."""

    def __init__(self, ids: pa.Array, corpus: PassageLookup) -> None:
        """`ids` [p] are the ids of the index's passages."""
        self._ids, self._corpus = ids, corpus

    def read(self, rows: np.ndarray) -> Iterator[tuple[int, Passage, Row]]:
        """See `Texts`. Raises InputError for a passage that the corpus lacks."""
        for position, passage in self._corpus.stream(self._ids.take(int64_array(rows))):
            yield int(rows[position]), passage, {}


class TextsInOrder:
    """Texts of a corpus in the order of the index; nothing is held in memory."""

    def __init__(self, corpus: PassageRows) -> None:
        self._corpus = corpus

    def read(self, rows: np.ndarray) -> Iterator[tuple[int, Passage, Row]]:
        """See `Texts`."""
        for table_rows, table in self._corpus.tables(rows):
            others = [name for name in table.column_names if name not in SCHEMA.names]
            columns = table.select(others).to_pylist()
            yield from zip(table_rows.tolist(), passages_of(table), columns, strict=True)


class IndexedPassages:
    """The passages of an index by row: their texts, and the meaning of their views in the index."""

    def __init__(self, index: ViewIndex, layout: Layout, texts: Texts) -> None:
        self._index, self._layout, self._texts = index, layout, texts

    def texts(self, rows: np.ndarray) -> Iterator[tuple[int, Passage]]:
        """Row and passage of each of `rows`, any shape, each once and in the corpus's order; rows of -1 are dropped.

        Raises InputError where the corpus is not the index's.
        """
        return ((row, passage) for row, passage, _ in self._checked_texts(_each_once(rows)))

    def read(self, rows: np.ndarray) -> Iterator[IndexedPassage]:
        """The passages of `rows` with their columns, queries and views, in the order of `texts`."""
        each_once = _each_once(rows)
        queries = self._index.queries(each_once.tolist())
        for row, passage, columns in self._checked_texts(each_once):
            view_count = int(self._index.view_counts[row])
            yield IndexedPassage(row, passage, columns, queries[row], view_count, self._layout)

    def _checked_texts(self, rows: np.ndarray) -> Iterator[tuple[int, Passage, Row]]:
        for row, passage, columns in self._texts.read(rows):
            if passage.id != self._index.passage_id(row):
                raise InputError(
                    f"its passage {row} is {self._index.passage_id(row)!r}, but the corpus has {passage.id!r} there; "
                    "build the index again"
                )
            yield row, passage, columns


def _each_once(rows: np.ndarray) -> np.ndarray:
    return np.unique(rows[rows >= 0])
