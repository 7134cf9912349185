"""A single pass over the whole corpus, which checks ids, texts and columns, and looks for the questions' answers."""

import contextlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, product, repeat
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from multiview.config import Config
from multiview.data.answers import matching_mode
from multiview.data.gold_answers import GoldAnswers
from multiview.data.questions import Question
from multiview.data.reading import sources
from multiview.data.reading.articles import ARTICLE_COLUMNS, Cut, cut_articles
from multiview.data.reading.columns import PASSAGE_COLUMNS
from multiview.data.reading.files import base_name, shown_names
from multiview.data.reading.formats import FORMATS, detect
from multiview.data.reading.qrels import is_corpus
from multiview.data.reading.readers import OURS, passage_tables
from multiview.data.reading.values import NUL, ODD, cut_id
from multiview.errors import InputError, Report

CUT_TEXTS = "texts of 32,767 characters, at which Excel cuts a cell"
NO_TEXT = "passages without text, left out"
EMPTY_FILES = "files without passages"
UNREAD_FILES = "files and folders that are not read"
OTHER_TITLES = "passages that are repeated with another title, of which the first is kept"
OTHER_TEXTS = "passages whose text in the files of questions, which bring their own, is another one"
FOLDER_COLUMNS = "columns that only the names of folders hold, not read"
"""Kinds of remarks."""


def corpus_formats(settings: Config) -> dict[str, str]:
    """Returns each file of passages with the name of its format, in order.

    The files are those of `settings.corpus` or, if it names none, the files of questions. Raises InputError if these
    hold no passages, or if passages that are cut already would be cut again.
    """
    corpus, asked = settings.corpus, settings.questions
    named, form, setting, columns = corpus.source, corpus.format, "corpus.format", corpus.columns
    if not named:
        named = (*asked.source, *asked.dev_source)
        form, setting, columns = asked.format, "questions.format", {}
    formats = {
        file: detect(file, form, setting, columns.values(), looks_inside=not corpus.source)
        for file in sources.expand_sources(named, "corpus")
    }
    for file, name in formats.items():
        repeats = FORMATS[name].repeats
        if not (corpus.source or repeats or is_corpus(file)):
            raise InputError(
                f"corpus.source: name the passages; {base_name(file)} holds only questions "
                "(SQuAD's and DPR's JSON bring their passages, and so do BEIR and MS MARCO folders)"
            )
        if corpus.cut in ("words", "sentences") and repeats and name != "squad":
            raise InputError(
                f"corpus.cut={corpus.cut}: {base_name(file)} holds passages that are cut already, "
                "and its questions name them; set corpus.cut=none"
            )
    return formats


def _leaves_of(name: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Yields a column's values or, for lists, maps and objects, the innermost ones, named by paths joined with NULs."""
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
        """The columns, each with a type that holds its values in all tables."""
        self._leaves = pa.schema([])
        """Schema of the innermost values, under the names that `_leaves_of` gives them."""
        self._extremes: dict[tuple[str, pa.DataType], tuple[pa.Array, str]] = {}
        """(name, type) of integers, timestamps and durations to the least and greatest, and the location of either."""

    def add(self, table: pa.Table, location: Callable[[], str]) -> None:
        """Adds a table with rows at `location`. Raises InputError if no type holds a column's values in all tables."""
        further = table.drop_columns([name for name in PASSAGE_COLUMNS if name in table.column_names])
        columns = zip(further.column_names, further.columns, strict=True)
        leaves = dict(leaf for name, each in columns for leaf in _leaves_of(name, each.combine_chunks()))
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
                    rounded = pa.types.is_decimal(column.type) and pa.types.is_floating(kind)
                    if rounded and column.type.precision > np.finfo(kind.to_pandas_dtype()).precision:
                        raise pa.ArrowInvalid("digits that a fraction would lose")
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
    """What one pass over the corpus finds: ids, columns and answers, but no texts. `split` and `inspect` use it."""

    def __init__(
        self, settings: Config, train: Sequence[Question], dev: Sequence[Question], report: Report
    ) -> None:
        self.train, self.dev = train, dev
        """The questions; after the scan, with offsets and positives as `GoldAnswers.updated` leaves them."""
        self.rows: dict[str, int] = {}
        """Passage id to row, counted over all files."""
        self.further = FurtherColumns()
        self.answers = GoldAnswers([*train, *dev], matching_mode(settings), report)
        self.formats = corpus_formats(settings)
        """File to the name of its format, in the order of the files."""
        self._shown = shown_names(self.formats)
        self._settings, self._report = settings, report
        self._firsts: list[tuple[int, str]] = []
        """The row at which each file begins, and the file."""
        asked = settings.questions
        self._asked = sources.expand_sources(asked.source, "train")
        self._asked += sources.expand_sources(asked.dev_source, "dev")
        self._brought = dict[str, int]()
        """Passage id to a hash of its text, of the first passages that files of questions bring beside a corpus."""
        for file in self._asked if settings.corpus.source else ():
            name = detect(file, asked.format, "questions.format", asked.columns.values())
            with contextlib.suppress(InputError):  # of texts that are not used
                for table in islice(passage_tables(file, name), 1) if FORMATS[name].repeats else ():
                    passages = zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True)
                    self._brought |= {id_: hash(text) for id_, text in passages if text}
        self._may_repeat = any(FORMATS[name].repeats for name in self.formats.values())
        self._hashes: dict[str, tuple[int, int]] = {}
        """Passage id to hashes of its text and its title, kept where passages may be repeated."""

    def tables(self) -> Iterator[pa.Table]:
        """Yields all passages once, checked. Raises InputError if the files' columns conflict, or without a passage."""
        row = 0
        for file in self.formats:
            for table in self._tables_of(file):
                if not self._firsts or self._firsts[-1][1] != file:
                    self._firsts.append((row, file))
                self.further.add(table, partial(self._location, row, len(table)))
                yield table.filter(pa.array(self._check(file, table, row), pa.bool_()))
                row += len(table)
        if not self.rows:
            raise InputError(f"{', '.join(self.formats)}: no passages in it; see corpus.source")
        self._remark_sources()
        for id_ in sorted(self.answers.cut & self.rows.keys()):
            line = f": {id_!r} is also the id of an article that questions name; rename the article"
            self._problem(self.rows[id_], "passages with the id of a cut article", line)
        self.answers.finish()
        self.train, self.dev = (list(map(self.answers.updated, each)) for each in (self.train, self.dev))

    def _tables_of(self, file: str) -> Iterator[pa.Table]:
        """Yields a file's passages, cut where that is wanted, with `id, title, text` and the user's further columns."""
        section, how = self._settings.corpus, self._cut(file)
        columns = section.columns if section.source else {}
        for number, table in enumerate(passage_tables(file, self.formats[file], columns, self._report)):
            for name in ARTICLE_COLUMNS if how and not number else ():
                if name in table.column_names:
                    self._report.remark(OURS, f"{base_name(file)}: column {name!r}; rename it to keep it")
            if section.empty_text == "title":
                title, text = table.column("title"), table.column("text")
                is_empty = pc.equal(text, "")
                table = table.set_column(1, "title", pc.if_else(is_empty, "", title))
                table = table.set_column(2, "text", pc.if_else(is_empty, title, text))
            yield cut_articles(table, how, section.cut_length, section.language) if how else table

    def _cut(self, file: str) -> Cut | None:
        """Returns how a file's articles are cut; None where they are passages already."""
        how = self._settings.corpus.cut
        if how == "auto":
            return "words" if self.formats[file] == "text" else None
        return None if how == "none" else how

    def _remark_sources(self) -> None:
        """Remarks on files without passages, unread files beside them, and columns that only folder names hold."""
        held = {file for _, file in self._firsts}
        for file in (file for file in self.formats if file not in held):
            self._report.remark(EMPTY_FILES, file)
        questions = self._settings.questions
        named = (*self._settings.corpus.source, *questions.source, *questions.dev_source)
        for source in dict.fromkeys(named):
            for name in sources.unread_files(source, [*self.formats, *self._asked]):
                self._report.remark(UNREAD_FILES, f"{source}: {name}")
        for file in self.formats:
            folders, own = file.partition("?")[0].split("/")[:-1], self.further.schema.names
            if columns := [each for each in folders if "=" in each and each.partition("=")[0] not in own]:
                self._report.remark(FOLDER_COLUMNS, f"{', '.join(columns)}, of {file}")

    def lacks_passages(self, question: Question) -> bool:
        """Whether a question names gold passages, but none of them is in the corpus."""
        return bool(question.positive_ids) and self.rows.keys().isdisjoint(question.positive_ids)

    def lacks_gold(self, question: Question) -> bool:
        """Whether a question that names gold passages has lost them all, or every answer in them."""
        return self.lacks_passages(question) or self.answers.are_lost(question)

    def _location(self, row: int, rows: int = 1) -> str:
        """Returns the file of `rows` rows, and their numbers in it; the first is `row`, counted over all files."""
        before, file = self._firsts[bisect_right(self._firsts, row, key=itemgetter(0)) - 1]
        unit, first = "piece" if self._cut(file) else "row", row - before + 1
        numbers = f"{unit} {first}" if rows == 1 else f"{unit}s {first}-{first + rows - 1}"
        return f"{self._shown[file]} {numbers}"

    def _check(self, file: str, table: pa.Table, first: int) -> list[bool]:
        """Checks a table's passages, the first of which is row `first`. Returns whether each is new and kept."""
        repeats, rows, awaited = FORMATS[self.formats[file]].repeats, self.rows, self.answers.about
        ids, titles, texts = (table.column(name).to_pylist() for name in PASSAGE_COLUMNS)
        places = repeat((None, 0))
        if self._cut(file):
            places = zip(*(table.column(name).to_pylist() for name in ARTICLE_COLUMNS), strict=True)
        for name, (kind, pattern) in product(PASSAGE_COLUMNS, ODD.items()):
            column = table.column(name)
            for row in pc.indices_nonzero(pc.match_substring_regex(column, pattern)).to_pylist():
                line = f"{self._location(first + row)}: {name} {column[row].as_py()!r:.80}"
                self._report.remark(kind, line)
        drops_empty, news = self._settings.corpus.empty_text == "drop", list[bool]()
        passages = zip(ids, titles, texts, places, strict=False)
        for row, (id_, title, text, (article, begin)) in enumerate(passages, first):
            if not text and drops_empty:
                self._report.remark(NO_TEXT, f"{self._location(row)}: passage {id_!r}")
                news.append(False)
                continue
            if len(text) == 32_767:
                self._report.remark(CUT_TEXTS, self._location(row))
            before = rows.setdefault(id_, row)
            news.append(before == row)
            if before != row and not repeats:
                line = f": passage id {id_!r} was used before, in {self._location(before)}; make ids unique"
                self._problem(row, "passages whose id was used before", line)
            hashes = hash(text), hash(title)
            known = self._hashes.setdefault(id_, hashes) if self._may_repeat else hashes
            if repeats and known[0] == hashes[0] and known != hashes:
                line = f"{self._location(row)}: passage {id_!r}, here {title!r:.80}"
                self._report.remark(OTHER_TITLES, line)
            if self._brought.get(id_, hashes[0]) != hashes[0]:
                self._report.remark(OTHER_TEXTS, f"{self._location(row)}: passage {id_!r}")
            if repeats and known[0] != hashes[0]:
                line = (
                    f", counting its passages: passage id {id_!r} has another text than in {self._location(before)}, here "
                    f"{text!r:.80}; give each text an id of its own"
                )
                self._problem(row, "passages of one id whose texts differ", line)
            if not id_:
                line = ": the passage's id is empty; every passage needs one"
                self._problem(row, "passages without id", line)
            if NUL in id_:
                kind = "passages whose id holds a NUL character"
                self._problem(row, kind, cut_id(id_, ": the passage's id"))
            if not text:
                line = f": passage {id_!r} has no text; leave it out, or set corpus.empty_text"
                self._problem(row, "passages without text", line)
            if before == row and id_ in awaited:
                self.answers.see(id_, text)
            if article in awaited:
                self.answers.see_piece(id_, text, article, begin)
        return news

    def _problem(self, row: int, kind: str, line: str) -> None:
        """Reports a problem; `line` goes on after the row's location."""
        self._report.problem(kind, f"{self._location(row)}{line}")
