"""One reading of the whole corpus: ids, texts and columns are checked, and the questions' answers looked for."""

# pyarrow.compute fills itself with functions when imported, which pyright cannot see.
# pyright: reportAttributeAccessIssue=false

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import repeat
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.config import Config, Corpus
from multiview.data.answers import matching_mode
from multiview.data.gold_answers import GoldAnswers
from multiview.data.questions import Question
from multiview.data.reading import sources
from multiview.data.reading.articles import ARTICLE_COLUMNS, Cut, cut_articles
from multiview.data.reading.files import base_name, shown_names
from multiview.data.reading.formats import FORMATS, detect
from multiview.data.reading.qrels import is_corpus
from multiview.data.reading.readers import passage_tables
from multiview.data.reading.tables import PASSAGE_COLUMNS
from multiview.data.reading.values import NUL, cut_id
from multiview.errors import InputError, ReportProblem, ignore_problem, raise_problem, without_secrets

NO_TEXT = "passages without text, left out"
NOTHING = ("NULL", "null", "\\N", "NaN", "nan", "None", "<NA>", "N/A", "#N/A", "#NAME?", "#REF!", "#VALUE!")
"""Words that databases, spreadsheets and pandas write for what is missing."""
NOTHING_WRITTEN = "titles or texts that stand for nothing, kept as they are"
EMPTY_FILES = "files without passages"
UNREAD_FILES = "files and folders of a folder that are not read"
FOLDER_COLUMNS = "columns that only the names of folders hold, not read"
"""Kinds of remarks."""


class CorpusFiles:
    """The files that passages are read from, and how their articles are cut."""

    def __init__(self, settings: Config) -> None:
        """The corpus that `settings.corpus` names or, without one, the passages in the files of questions.

        Raises InputError when the files of questions hold no passages, or when `corpus.cut` is set for training questions
        that bring their passages, as DPR's and tevatron's do.
        """
        corpus, questions = settings.corpus, settings.questions
        setting = "corpus.format" if corpus.source else "questions.format"
        named, form, self._columns = corpus.source, corpus.format, corpus.columns
        if not named:
            named, form, self._columns = (*questions.source, *questions.dev_source), questions.format, {}
        self._section: Corpus = corpus
        self.sources = corpus.source
        files = sources.expand_sources(named, "corpus")
        self.formats = {
            file: detect(file, form, setting, self._columns.values(), not corpus.source) for file in files
        }
        """File to the name of its format, in the order of the files."""
        for file, form in self.formats.items():
            if not (corpus.source or self.repeats(file) or is_corpus(file)):
                raise InputError(
                    f"corpus.source: name the passages; {base_name(file)} holds only questions "
                    "(SQuAD's and DPR's JSON bring their passages, and so do BEIR and MS MARCO folders)"
                )
            if corpus.cut in ("words", "sentences") and self.repeats(file) and form != "squad":
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

    def tables(self, report_remark: ReportProblem) -> Iterator[tuple[str, pa.Table]]:
        """Yields (file, table of passages) in order, with `id, title, text` and the user's further columns."""
        for file, form in self.formats.items():
            how = self.cuts(file)
            for table in passage_tables(file, form, self._columns, report_remark):
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


def _leaves_of(name: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yields the values of a column or, of lists, maps and objects, those within; a NUL is between the names of a path."""
    kind = values.type
    if pa.types.is_struct(kind):
        inner = zip((f"{NUL}{field.name}" for field in kind), values.flatten(), strict=True)
    elif pa.types.is_map(kind):
        inner = zip((f"{NUL}key", f"{NUL}value"), (values.keys, values.items), strict=True)
    elif pa.types.is_nested(kind):
        inner = [(NUL, values.flatten())]
    else:
        yield name, values
        return
    for path, each in inner:
        yield from _leaves_of(f"{name}{path}", each)


class FurtherColumns:
    """The further columns of all tables so far; a column is null in tables that lack it."""

    def __init__(self) -> None:
        self.schema = pa.schema([])
        """The columns, each with the type of all its tables."""
        self._leaves = pa.schema([])
        """Schema of the values within lists and objects, under the names of `_leaves_of`."""
        self._extremes: dict[tuple[str, pa.DataType], tuple[pa.Array, str]] = {}
        """Name and type of such values to the least and greatest of them, and the location of one."""

    def add(self, table: pa.Table, location: Callable[[], str]) -> None:
        """Adds the columns of a table. Raises InputError where no type holds the values of all tables.

        `location` says where the table's rows are, for the error.
        """
        further = table.drop_columns([name for name in PASSAGE_COLUMNS if name in table.column_names])
        columns = zip(further.column_names, further.columns, strict=True)
        leaves = {
            key: leaf for name, each in columns for key, leaf in _leaves_of(name, each.combine_chunks())
        }
        within = pa.schema([(key, values.type) for key, values in leaves.items()])
        self._unify(further.schema, within, location)
        for key, values in leaves.items():
            kind = values.type
            if pa.types.is_integer(kind) or pa.types.is_timestamp(kind) or pa.types.is_duration(kind):
                known, _ = self._extremes.get((key, kind), (values.slice(0, 0), ""))
                both = pa.concat_arrays([known, values])
                numbers = both.cast(pa.int64()) if pa.types.is_duration(kind) else both
                ends = pa.array(pc.min_max(numbers).values(), numbers.type).cast(kind)
                if not ends.equals(known):
                    self._extremes[key, kind] = ends, location()
        for (key, kind), (ends, where) in self._extremes.items():
            if kind != (common := self._leaves.field(key).type):
                try:
                    ends.cast(common)
                except pa.ArrowInvalid as error:
                    raise InputError(
                        f"{where}: column {key.partition(NUL)[0]!r} has {kind} values that do not fit {common}, the type of the whole column "
                        f"({str(error).splitlines()[0]}); write it as text"
                    ) from None

    def _unify(self, further: pa.Schema, within: pa.Schema, location: Callable[[], str]) -> None:
        try:
            unified = pa.unify_schemas([self.schema, further], promote_options="permissive")
            leaves = pa.unify_schemas([self._leaves, within], promote_options="permissive")
            for column in (*self._leaves, *within):
                if column.type != (kind := leaves.field(column.name).type):
                    pa.nulls(1, column.type).cast(kind)
        except pa.ArrowException:
            named = ", ".join(
                f"{f.name!r} ({f.type} after {self.schema.field(f.name).type})"
                for f in further
                if f.name in self.schema.names and f.type != self.schema.field(f.name).type
            )
            raise InputError(
                f"{location()}: the type differs from that of the rows before in column {named}; give a column one type"
            ) from None
        self.schema, self._leaves = unified, leaves


class CorpusScan:
    """What one reading of the corpus finds: ids, columns and answers, no texts. Both `split` and `inspect` read by it."""

    def __init__(
        self,
        settings: Config,
        questions: Sequence[Question],
        report_problem: ReportProblem = raise_problem,
        report_remark: ReportProblem = ignore_problem,
    ) -> None:
        self.rows: dict[str, int] = {}
        """Passage id to row, counted over all files."""
        self.further = FurtherColumns()
        """The user's further columns."""
        self.answers = GoldAnswers(questions, matching_mode(settings), report_remark)
        self.corpus = CorpusFiles(settings)
        self._asked = settings.questions
        self._drops_empty = settings.corpus.empty_text == "drop"
        self._report_problem, self._report_remark = report_problem, report_remark
        self._firsts: list[tuple[int, str]] = []
        """The row at which each file begins, and the file."""
        self._may_repeat = any(map(self.corpus.repeats, self.corpus.formats))
        self._hashes: dict[str, int] = {}
        """Passage id to a hash of its text, where passages may come again."""

    def tables(self) -> Iterator[pa.Table]:
        """Yields all passages once, checked, as they are read.

        Raises InputError where the columns of the files are incompatible, or when there are no passages.
        """
        row = 0
        for file, table in self.corpus.tables(self._report_remark):
            if not self._firsts or self._firsts[-1][1] != file:
                self._firsts.append((row, file))
            self.further.add(table, partial(self._location, row, len(table)))
            yield table.filter(pa.array(self._check(file, table, row), pa.bool_()))
            row += len(table)
        if not self.rows:
            raise InputError(f"{', '.join(self.corpus.formats)}: no passages in it; see corpus.source")
        for file in self.corpus.formats.keys() - {file for _, file in self._firsts}:
            self._report_remark(EMPTY_FILES, without_secrets(file))
        self._remark_sources()
        self.answers.finish()

    def _remark_sources(self) -> None:
        """Remarks what lies beside the files that are read, and in the names of their folders."""
        asked = sources.expand_sources(self._asked.source, "train")
        asked += sources.expand_sources(self._asked.dev_source, "dev")
        for source in self.corpus.sources:
            for name in sources.unread_files(source, [*self.corpus.formats, *asked]):
                self._report_remark(UNREAD_FILES, without_secrets(f"{source}: {name}"))
        for file in self.corpus.formats:
            if columns := re.findall(r"[^/=?]+=[^/=]+(?=/)", file.partition("?")[0]):
                self._report_remark(FOLDER_COLUMNS, f"{', '.join(columns)}, of {without_secrets(file)}")

    def lacks_gold(self, question: Question) -> bool:
        """Whether a question that names gold passages has lost them all, or every answer in them."""
        named = question.positive_ids
        return (bool(named) and self.rows.keys().isdisjoint(named)) or self.answers.are_lost(question)

    def _location(self, row: int, rows: int = 1) -> str:
        """Returns the file of a row, which is counted over all files, and its number in that file, or those of several
        `rows` from it on."""
        before, file = self._firsts[bisect_right(self._firsts, row, key=itemgetter(0)) - 1]
        unit, first = "piece" if self.corpus.cuts(file) else "row", row - before + 1
        numbers = f"{unit} {first}" if rows == 1 else f"{unit}s {first}-{first + rows - 1}"
        return f"{shown_names(self.corpus.formats)[file]} {numbers}"

    def _check(self, file: str, table: pa.Table, first: int) -> list[bool]:
        """Checks the passages of a table, whose first row is `first`. Returns whether each is new, and not left out."""
        repeats, rows, awaited = self.corpus.repeats(file), self.rows, self.answers.about
        ids, texts = table.column("id").to_pylist(), table.column("text").to_pylist()
        places = repeat(("", 0))
        if self.corpus.cuts(file):
            places = zip(*(table.column(name).to_pylist() for name in ARTICLE_COLUMNS), strict=True)
        for name in ("title", "text"):
            found = pc.is_in(table.column(name), pa.array(NOTHING))
            for row in np.flatnonzero(found.to_numpy()).tolist() if pc.any(found).as_py() else ():
                line = f"{self._location(first + row)}: {name} {table.column(name)[row].as_py()!r}"
                self._report_remark(NOTHING_WRITTEN, line)
        news: list[bool] = []
        for row, (id_, text, (article, begin)) in enumerate(zip(ids, texts, places, strict=False), first):
            is_empty = not text.strip()
            if is_empty and self._drops_empty:
                self._report_remark(NO_TEXT, f"{self._location(row)}: passage {id_!r}")
                news.append(False)
                continue
            before = rows.setdefault(id_, row)
            news.append(before == row)
            if before != row and not repeats:
                self._report(
                    row,
                    "passages whose id was used before",
                    f": passage id {id_!r} was used before, in {self._location(before)}; ids must be unique",
                )
            if self._may_repeat and self._hashes.setdefault(id_, hash(text)) != hash(text) and repeats:
                self._report(
                    row,
                    "passages of one id whose texts differ",
                    f", counting its passages: passage id {id_!r} has another text than in {self._location(before)}, here "
                    f"{text!r:.80}; give each text an id of its own",
                )
            if not id_:
                self._report(
                    row, "passages without id", ": the passage's id is empty; every passage needs one"
                )
            if NUL in id_:
                line = str(cut_id(id_, f"{self._location(row)}: the passage's id"))
                self._report_problem("passages whose id holds a NUL character", line)
            if is_empty:
                line = f": passage {id_!r} has no text; leave it out, or set corpus.empty_text"
                self._report(row, "passages without text", line)
            if before == row and id_ in awaited:
                self.answers.see(id_, text)
            if article in awaited:
                self.answers.see_piece(id_, text, article, begin)
        return news

    def _report(self, row: int, kind: str, line: str) -> None:
        """Reports a problem; `line` goes on after the row's location."""
        self._report_problem(kind, f"{self._location(row)}{line}")
