"""The `split` step: the user's files become shards of passages and two sets of questions."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from multiview.data import passages, punkt, questions, readers, shards, sources
from multiview.data.questions import Question
from multiview.errors import InputError


def split(settings: Any, inputs: Mapping[str, Any], output: Mapping[str, Path], tell: Any) -> None:
    """Read, check and cut the corpus and the questions (`settings.corpus`, `settings.questions`).

    Writes the passages' shards into `output["passages"]`, `questions.parquet` into
    `output["train_questions"]` and `output["dev_questions"]`. The files are read twice, first to
    check, so that nothing is written when something is wrong; ids and questions stay in memory,
    texts do not (but a SQuAD file is parsed whole). Raises InputError naming the file, row or
    setting.
    """
    punkt.tokenizer(settings.corpus.language)  # fails first, where its data are missing
    train, dev = _read_questions(settings.questions)
    corpus = _Corpus.of(settings)
    seen = _check(corpus, [*train, *dev], tell)
    chosen = _choose(settings.questions, train, dev, seen.rows, bool(settings.questions.dev_source))
    if settings.corpus.keep == "gold":
        wanted = {id_ for q in [*chosen.train, *chosen.dev_gold] for id_ in q.positive_ids}
    else:
        wanted = set(seen.rows)
    number = settings.corpus.shards
    if len(wanted) < number:
        raise InputError(f"corpus.shards={number}: there are only {len(wanted)} passages; set fewer shards")

    count = len(wanted)
    tables = _wanted_tables(corpus, wanted, seen.extra)
    sentences = shards.write_shards(
        tables, count, number, output["passages"], settings.corpus.language, tell.progress
    )
    questions.write_questions(chosen.train, output["train_questions"])
    questions.write_questions(chosen.dev, output["dev_questions"])

    if chosen.shared:
        tell.warning(f"{chosen.shared} dev questions are training questions too")
    if chosen.dropped:
        tell.warning(f"{chosen.dropped} questions were dropped: their gold passages are not in the corpus")
    facts = {
        "passages": count,
        "train_questions": len(chosen.train),
        "dev_questions": len(chosen.dev),
        "dropped_questions": chosen.dropped,
        "avq": questions.questions_per_passage(chosen.train),
        "sentences_per_passage": sentences / count,
    }
    for name, value in facts.items():
        tell.fact(name, value)
        tell.metric(name, float(value))


def fingerprint(settings: Any) -> dict[str, Any]:
    """What the sources hold, for the step's key: they are named by content, never by place."""
    asked = settings.questions
    if not asked.source and not asked.dev_source:
        raise InputError("questions.source: no questions are named; name the files of the training questions")
    return {
        "corpus": sources.fingerprints(settings.corpus.source),
        "questions": sources.fingerprints(asked.source),
        "dev_questions": sources.fingerprints(asked.dev_source),
    }


# --- questions ---------------------------------------------------------------------------------


def _read_questions(section: Any) -> tuple[list[Question], list[Question]]:
    """All training and dev questions; without a dev source the latter are empty."""
    return _read_source(section, section.source), _read_source(section, section.dev_source)


def _read_source(section: Any, files: Sequence[str]) -> list[Question]:
    where: dict[str, str] = {}
    found: list[Question] = []
    for file in sources.expand_sources(files):
        for row, question in readers.questions_of(file, section.format, section.columns):
            place = f"{sources.base_name(file)} row {row}"
            if question.qid in where:
                raise InputError(
                    f"{place}: question id {question.qid!r} was used before, in {where[question.qid]}; ids must be unique"
                )
            where[question.qid] = place
            found.append(question)
    if files and not found:
        raise InputError(f"{', '.join(files)}: no questions in it")
    return found


@dataclass(frozen=True)
class _Chosen:
    train: list[Question]
    dev: list[Question]
    dev_gold: list[Question]  # all dev questions before dev_limit
    dropped: int
    shared: int


def _choose(
    section: Any, train: list[Question], dev: list[Question], known: Mapping[str, Any], given: bool
) -> _Chosen:
    """The questions used: with a gold passage in the corpus, then restricted and drawn."""
    train, dropped = _with_gold(train, known, "questions.source", section.max_missing_gold)
    if given:
        dev, dropped_dev = _with_gold(dev, known, "questions.dev_source", section.max_missing_gold)
        dropped += dropped_dev
    else:
        train, dev = questions.held_out(train, section.dev_share, section.seed)
    if section.one_per_passage:
        train = questions.one_per_passage(train, section.seed)
    train = questions.limited(train, section.limit, section.seed)
    limited = questions.limited(dev, section.dev_limit, section.seed)
    shared = len({q.qid for q in train} & {q.qid for q in limited})
    return _Chosen(train, limited, dev, dropped, shared)


def _with_gold(
    given: list[Question], known: Mapping[str, Any], setting: str, most: float
) -> tuple[list[Question], int]:
    kept, dropped = questions.with_known_positives(given, known)
    if given and (dropped > most * len(given) or not kept):
        first = next(q for q in given if not any(id_ in known for id_ in q.positive_ids))
        raise InputError(
            f"{setting}: the gold passages of {dropped} of {len(given)} questions are not in the corpus "
            f"(first: question {first.qid}, passage {first.positive_ids[0]}); mend the ids, "
            "or allow more with questions.max_missing_gold"
        )
    return kept, dropped


# --- passages ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Corpus:
    """Where the passages are read from."""

    files: tuple[str, ...]
    form: str
    columns: Mapping[str, str]

    @classmethod
    def of(cls, settings: Any) -> _Corpus:
        corpus, asked = settings.corpus, settings.questions
        if corpus.source:
            return cls(tuple(sources.expand_sources(corpus.source)), corpus.format, corpus.columns)
        files = sources.expand_sources([*asked.source, *asked.dev_source])
        for file in files:
            if sources.file_format(file, asked.format, "questions.format") != "squad":
                raise InputError(
                    f"corpus.source: name the passages; {sources.base_name(file)} holds questions alone "
                    "(only SQuAD's JSON brings its passages)"
                )
        return cls(tuple(files), "squad", {})

    def tables(self) -> Iterator[tuple[str, pa.Table]]:
        for file in self.files:
            for table in readers.passage_tables(file, self.form, self.columns):
                yield file, table

    def repeats(self, file: str) -> bool:
        """Whether a passage may come again: SQuAD's have ids made of their text."""
        return sources.file_format(file, self.form, "corpus.format") == "squad"


@dataclass
class _Seen:
    """What the first reading found."""

    rows: dict[str, int] = field(default_factory=dict)  # id → row over all files
    extra: pa.Schema = field(default_factory=lambda: pa.schema([]))  # the user's own columns
    files: list[str] = field(default_factory=list)
    firsts: list[int] = field(default_factory=list)  # row at which each file begins

    def place(self, row: int) -> str:
        index = bisect_right(self.firsts, row) - 1
        return f"{sources.base_name(self.files[index])} row {row - self.firsts[index] + 1}"


def _check(corpus: _Corpus, asked: Sequence[Question], tell: Any) -> _Seen:
    """Read all passages once: ids, texts, columns, and the answers' offsets in their passages."""
    seen, row = _Seen(), 0
    offsets: dict[str, list[Question]] = {}
    for q in asked:
        if q.answer_starts is not None:
            offsets.setdefault(q.positive_ids[0], []).append(q)
    for file, table in corpus.tables():
        if not seen.files or seen.files[-1] != file:
            seen.files.append(file)
            seen.firsts.append(row)
        seen.extra = _unified(seen.extra, table.schema, file)
        ids, texts = table.column("id").to_pylist(), table.column("text").to_pylist()
        for id_, text in zip(ids, texts, strict=True):
            if id_ not in seen.rows:
                seen.rows[id_] = row
            elif not corpus.repeats(file):
                raise InputError(
                    f"{seen.place(row)}: passage id {id_!r} was used before, in {seen.place(seen.rows[id_])}; "
                    "ids must be unique"
                )
            if not id_:
                raise InputError(f"{seen.place(row)}: the passage's id is empty; every passage needs one")
            if not text.strip():
                raise InputError(f"{seen.place(row)}: passage {id_!r} has no text; leave it out")
            for question in offsets.pop(id_, ()):
                _check_offsets(question, id_, text)
            row += 1
        tell.progress(row, row, "passages checked")
    if not seen.rows:
        raise InputError(f"{', '.join(corpus.files)}: no passages in it; see corpus.source")
    return seen


def _check_offsets(question: Question, id_: str, text: str) -> None:
    for answer, start in zip(question.answers, question.answer_starts or (), strict=True):
        found = text[start : start + len(answer)] if start >= 0 else ""
        if found != answer:
            raise InputError(
                f"question {question.qid}: answer {answer!r} should stand at {start} of passage {id_}, "
                f"where {found!r} is; answer_starts count code points of the first positive passage's text"
            )


def _unified(extra: pa.Schema, schema: pa.Schema, file: str) -> pa.Schema:
    """The user's own columns of all tables so far; columns missing from some are null there."""
    own = pa.schema([f for f in schema if f.name not in readers.PASSAGE_COLUMNS])
    try:
        return pa.unify_schemas([extra, own], promote_options="permissive")
    except pa.ArrowException as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"{sources.base_name(file)}: a column's type is not that of the rows before ({reason})"
        ) from None


def _wanted_tables(corpus: _Corpus, wanted: set[str], extra: pa.Schema) -> Iterator[pa.Table]:
    """The wanted passages, each once, in the order of the files, with the columns of all files."""
    schema = pa.schema([*(passages.SCHEMA.field(name) for name in readers.PASSAGE_COLUMNS), *extra])
    left = set(wanted)
    for _, table in corpus.tables():
        mask = []
        for id_ in table.column("id").to_pylist():
            mask.append(id_ in left)
            left.discard(id_)
        table = table.filter(pa.array(mask, pa.bool_()))
        columns = [
            table.column(f.name).cast(f.type)
            if f.name in table.column_names
            else pa.nulls(table.num_rows, f.type)
            for f in schema
        ]
        if table.num_rows:
            yield pa.table(columns, schema=schema)
