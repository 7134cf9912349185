"""The meaning of the rows of an index: passage, view of the passage, part of its text, generated query."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress

import numpy as np

from multiview.data.passages import SCHEMA, Passage, PassageRows, passages_of
from multiview.data.queries import distinct
from multiview.data.reading.tables import Row
from multiview.data.tokens import Span
from multiview.errors import InputError, counted, naming
from multiview.index.view_index import ViewIndex
from multiview.model.layouts.base import Layout, Part, TokenSequence, row_numbers


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
    """Number of the passage's views that are searched."""
    kept: Sequence[bool]
    """Which of the rows that the passage was encoded into are in the index; the first `view_count` are searched."""
    layout: Layout

    @cached_property
    def sequences(self) -> list[TokenSequence]:
        """The token sequences of the passage, as they were encoded."""
        return self.layout.passage(self.passage, self.queries)

    @cached_property
    def parts(self) -> list[Part]:
        """What all views of the passage represent, in order, including those that the index leaves out."""
        return self.layout.parts(self.passage, self.queries)

    @cached_property
    def views(self) -> list[IndexedView]:
        """The views that the passage's searched rows in the index represent, row by row.

        Raises InputError where the layout makes other views than were indexed.
        """
        with naming(f"passage {self.passage.id!r}"):
            encoded = row_numbers(self.parts, len(self.kept))
        queries = dict(enumerate(distinct(self.queries)))
        numbers = [*compress(encoded, self.kept)][: self.view_count]
        views = ((number, self.parts[number], queries.get(number)) for number in numbers)
        return [
            IndexedView(n, part.padding, part.span, self._snippet(part), asked) for n, part, asked in views
        ]

    def _snippet(self, part: Part) -> str | None:
        if part.padding:
            return ""
        if part.span is not None:
            return self.passage.text[slice(*part.span)]
        return self.passage.title if self.layout.has_spans else None


class IndexedPassages:
    """The passages of an index by row: their texts, and the meaning of their views in the index."""

    def __init__(self, index: ViewIndex, layout: Layout, corpus: PassageRows) -> None:
        """`corpus` has the passages of `index` in the same order. Raises InputError where their numbers differ."""
        if len(corpus) != len(index):
            raise InputError(
                f"it has {counted(len(index), 'passage')}, but its corpus {len(corpus)}: build the index again"
            )
        self._index, self._layout, self._corpus = index, layout, corpus

    def read(self, rows: np.ndarray) -> Iterator[IndexedPassage]:
        """Yields the passages of `rows`, of any shape, each once and in ascending order; rows of -1 are skipped.

        Memory holds one row group of the corpus. Raises InputError where the corpus is not the index's.
        """
        each_once = np.unique(rows[rows >= 0])
        queries = self._index.queries(each_once.tolist())
        for table_rows, table in self._corpus.tables(each_once):
            others = [name for name in table.column_names if name not in SCHEMA.names]
            columns = table.select(others).to_pylist()
            for row, passage, own in zip(table_rows.tolist(), passages_of(table), columns, strict=True):
                if passage.id != self._index.passage_id(row):
                    raise InputError(
                        f"its passage {row} is {self._index.passage_id(row)!r}, but the corpus has {passage.id!r} there; "
                        "build the index again"
                    )
                searched, kept = int(self._index.view_counts[row]), self._index.kept_rows(row)
                yield IndexedPassage(row, passage, own, queries[row], searched, kept, self._layout)
