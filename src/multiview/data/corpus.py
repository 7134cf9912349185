"""The corpus in the user's files, as passages in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

from multiview.config import Config
from multiview.data.reading import sources
from multiview.data.reading.articles import Cut, cut_articles
from multiview.data.reading.files import base_name
from multiview.data.reading.formats import FORMATS, detect
from multiview.data.reading.readers import passage_tables
from multiview.errors import InputError


@dataclass(frozen=True)
class CorpusFiles:
    """The files that passages are read from, and how articles are cut."""

    formats: Mapping[str, str]
    """File to the name of its format, in the order of the files."""
    columns: Mapping[str, str]
    cut: Literal["auto", "none", "words", "sentences"]
    cut_length: int
    language: str
    empty_text: Literal["refuse", "title", "drop"]

    @classmethod
    def of(cls, settings: Config) -> CorpusFiles:
        """Returns the corpus that `settings.corpus` names or, without one, the passages in the files of questions.

        Raises InputError when the files of questions hold no passages, or when `corpus.cut` is set for training questions
        that bring their passages, as DPR's and tevatron's do.
        """
        corpus, questions = settings.corpus, settings.questions
        form, columns = corpus.format, corpus.columns
        if corpus.source:
            files = sources.expand_sources(corpus.source, "corpus")
        else:
            files = sources.passage_files([*questions.source, *questions.dev_source], questions.format)
            form, columns = questions.format, {}
        formats = {file: detect(file, form, "corpus.format", columns.values()) for file in files}
        loaded = cls(formats, columns, corpus.cut, corpus.cut_length, corpus.language, corpus.empty_text)
        for file in files if corpus.cut in ("words", "sentences") else ():
            if loaded.repeats(file) and formats[file] != "squad":
                raise InputError(
                    f"corpus.cut={corpus.cut}: {base_name(file)} holds passages that are cut already, "
                    "and its questions name them; set corpus.cut=none"
                )
        return loaded

    @property
    def files(self) -> list[str]:
        return list(self.formats)

    def repeats(self, file: str) -> bool:
        """Whether a passage may occur repeatedly in the file, because its id is derived from its content."""
        return self.formats[file] in FORMATS and FORMATS[self.formats[file]].repeats

    def cuts(self, file: str) -> Cut | None:
        """Returns how a file's articles are cut; None where they are passages already."""
        if self.cut == "auto":
            return "words" if self.formats[file] == "text" else None
        return None if self.cut == "none" else self.cut

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Yields (file, table of passages) in order, with `id, title, text` and the user's further columns."""
        for file, form in self.formats.items():
            how = self.cuts(file)
            for table in passage_tables(file, form, self.columns):
                if self.empty_text == "title":
                    table = _titles_as_texts(table)
                if how:
                    table = cut_articles(table, how, self.cut_length, self.language)
                yield file, table


def _titles_as_texts(table: pa.Table) -> pa.Table:
    """Returns the table in which passages without text have their title as text, and an empty title."""
    titles, texts = table.column("title").to_pylist(), table.column("text").to_pylist()
    blank = [not text.strip() for text in texts]
    if not any(blank):
        return table
    changed = {
        "title": ["" if is_blank else title for title, is_blank in zip(titles, blank, strict=True)],
        "text": [
            title if is_blank else text for title, text, is_blank in zip(titles, texts, blank, strict=True)
        ],
    }
    for name, values in changed.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.string()))
    return table
