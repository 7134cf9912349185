"""The corpus in the user's files, as passages in order."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from multiview.config import Config, Corpus
from multiview.data.reading import sources
from multiview.data.reading.articles import Cut, cut_articles
from multiview.data.reading.files import base_name
from multiview.data.reading.formats import FORMATS, detect
from multiview.data.reading.readers import passage_tables
from multiview.errors import InputError


class CorpusFiles:
    """The files that passages are read from, and how their articles are cut."""

    def __init__(self, settings: Config) -> None:
        """The corpus that `settings.corpus` names or, without one, the passages in the files of questions.

        Raises InputError when the files of questions hold no passages, or when `corpus.cut` is set for training questions
        that bring their passages, as DPR's and tevatron's do.
        """
        corpus, questions = settings.corpus, settings.questions
        if corpus.source:
            files = sources.expand_sources(corpus.source, "corpus")
            form, self._columns = corpus.format, corpus.columns
        else:
            files = sources.passage_files([*questions.source, *questions.dev_source], questions.format)
            form, self._columns = questions.format, {}
        self._section: Corpus = corpus
        self.formats = {file: detect(file, form, "corpus.format", self._columns.values()) for file in files}
        """File to the name of its format, in the order of the files."""
        for file, form in self.formats.items() if corpus.cut in ("words", "sentences") else ():
            if self.repeats(file) and form != "squad":
                raise InputError(
                    f"corpus.cut={corpus.cut}: {base_name(file)} holds passages that are cut already, "
                    "and its questions name them; set corpus.cut=none"
                )

    def repeats(self, file: str) -> bool:
        """Whether a passage may occur repeatedly in the file, because its id is derived from its content."""
        return FORMATS[self.formats[file]].repeats

    def cuts(self, file: str) -> Cut | None:
        """Returns how a file's articles are cut; None where they are passages already."""
        how = self._section.cut
        if how == "auto":
            return "words" if self.formats[file] == "text" else None
        return None if how == "none" else how

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        """Yields (file, table of passages) in order, with `id, title, text` and the user's further columns."""
        for file, form in self.formats.items():
            how = self.cuts(file)
            for table in passage_tables(file, form, self._columns):
                if self._section.empty_text == "title":
                    table = _titles_as_texts(table)
                if how:
                    table = cut_articles(table, how, self._section.cut_length, self._section.language)
                yield file, table


def _titles_as_texts(table: pa.Table) -> pa.Table:
    """Returns the table in which passages without text have their title as text, and an empty title."""
    rows = list(zip(table.column("title").to_pylist(), table.column("text").to_pylist(), strict=True))
    columns = {name: table.column(name) for name in table.column_names}
    columns["title"] = pa.array([title if text.strip() else "" for title, text in rows], pa.string())
    columns["text"] = pa.array([text if text.strip() else title for title, text in rows], pa.string())
    return pa.table(columns)
