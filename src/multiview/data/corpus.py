"""The corpus as the user's files have it: which files, and their passages in order."""

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
class Corpus:
    """Where the passages are read from, and how articles are cut."""

    formats: Mapping[str, str]
    """Each file, in order, and the name of its format."""
    columns: Mapping[str, str]
    cut: Literal["auto", "none", "words", "sentences"]
    cut_length: int
    language: str
    empty_text: Literal["refuse", "title", "drop"]

    @classmethod
    def of(cls, settings: Config) -> Corpus:
        """The corpus that `settings.corpus` names, or else the questions' own passages.

        Raises InputError when the files of questions bring none, or when what is to be cut are no
        articles.
        """
        corpus, asked = settings.corpus, settings.questions
        form, columns = corpus.format, corpus.columns
        if corpus.source:
            files = sources.expand_sources(corpus.source, "corpus")
        else:
            files = sources.own_passages([*asked.source, *asked.dev_source], asked.format)
            form, columns = asked.format, {}
        formats = {file: detect(file, form, "corpus.format", columns.values()) for file in files}
        found = cls(formats, columns, corpus.cut, corpus.cut_length, corpus.language, corpus.empty_text)
        for file in files if corpus.cut in ("words", "sentences") else ():
            if found.repeats(file):
                raise InputError(
                    f"corpus.cut={corpus.cut}: the paragraphs of {base_name(file)} are passages already, "
                    "and its questions name them; set corpus.cut=none"
                )
        return found

    @property
    def files(self) -> list[str]:
        return list(self.formats)

    def repeats(self, file: str) -> bool:
        """Whether a passage may come again: its id says what it holds."""
        return self.formats[file] in FORMATS and FORMATS[self.formats[file]].repeats

    def cuts(self, file: str) -> Cut | None:
        """How a file's articles are cut; none where they are passages already."""
        if self.cut == "auto":
            return "words" if self.formats[file] == "text" else None
        return None if self.cut == "none" else self.cut

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Each file's passages with `id, title, text` and the user's own columns, and the file."""
        for file, form in self.formats.items():
            how = self.cuts(file)
            for table in passage_tables(file, form, self.columns):
                if self.empty_text == "title":
                    table = _titles_as_texts(table)
                if how:
                    table = cut_articles(table, how, self.cut_length, self.language)
                yield file, table


def _titles_as_texts(table: pa.Table) -> pa.Table:
    """Passages without text get their title as a text, and none as a title."""
    titles, texts = table.column("title").to_pylist(), table.column("text").to_pylist()
    blank = [not text.strip() for text in texts]
    if not any(blank):
        return table
    changed = {
        "title": ["" if none else title for title, none in zip(titles, blank, strict=True)],
        "text": [title if none else text for title, text, none in zip(titles, texts, blank, strict=True)],
    }
    for name, values in changed.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values, pa.string()))
    return table
