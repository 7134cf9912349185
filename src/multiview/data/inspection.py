"""Inspection of the user's data before a run: counts, lengths and problems."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import pyarrow as pa

from multiview.config import Config
from multiview.data import cjk
from multiview.data.cjk import Scripts
from multiview.data.corpus_scan import CorpusScan
from multiview.data.question_selection import questions_per_passage, select
from multiview.data.questions import Question
from multiview.data.reading import sources
from multiview.data.reading.beir import is_beir
from multiview.data.reading.columns import PASSAGE_COLUMNS, QUESTION_COLUMNS, add_nested, match_columns
from multiview.data.reading.files import plain_name
from multiview.data.reading.formats import FORMATS, detect
from multiview.data.reading.qrels import SETTING, Use, named_use
from multiview.data.reading.readers import read_all_questions
from multiview.data.reading.tables import Row
from multiview.data.sentences import iterate_sentence_ends, splitter
from multiview.data.split import check_sources
from multiview.errors import InputError, Problems, Report

QUESTION_WORDS = {"query", "topic", "question", "questions"}
"""Words in the name of a TSV without header that mark it as one of questions; `queries` and `topics` mark any file."""
MAY_BE = {
    "positive_ids": re.compile("pos|gold|passage|context|doc|pid", re.IGNORECASE),
    "answers": re.compile("answer|target", re.IGNORECASE),
}
"""Our column to words in a column's name that suggest that it is one."""
SENTENCE_SAMPLE = 20_000
"""Number of passages, from the first on, whose sentences are counted."""
SHOWN_PASSAGES = 3
"""Number of passages that are shown."""


class Lengths(Counter[int]):
    """A histogram of lengths."""

    @property
    def mean(self) -> float:
        return sum(length * count for length, count in self.items()) / max(1, self.total())

    @property
    def longest(self) -> int:
        return max(self, default=0)

    @property
    def median(self) -> int:
        """The median; of two middle lengths the lower one."""
        ends = accumulate(self[length] for length in sorted(self))
        return next((n for n, end in zip(sorted(self), ends, strict=True) if 2 * end >= self.total()), 0)

    def above(self, length: int) -> float:
        """Returns the share of lengths above `length`."""
        return sum(count for n, count in self.items() if n > length) / max(1, self.total())


@dataclass
class Inspection:
    """Result of an inspection, which ends early, without `trained`, if passages cannot be read."""

    formats: dict[Use, dict[str, str]] = field(default_factory=dict)
    """Per use, file to the name of its format."""
    passages: int = 0
    titled: int = 0
    words: Lengths = field(default_factory=Lengths)
    """Words per passage."""
    sentences: Lengths = field(default_factory=Lengths)
    """Sentences per passage, over the first `SENTENCE_SAMPLE` passages."""
    columns: list[str] = field(default_factory=list)
    """The user's further columns, which are kept."""
    first_passages: list[Row] = field(default_factory=list)
    questions: dict[Use, Sequence[Question]] = field(default_factory=dict)
    unread: dict[Use, list[str]] = field(default_factory=dict)
    """Per use, the columns of the question files that are not read."""
    missing_gold: dict[Use, int] = field(default_factory=dict)
    """Per use, the number of questions whose gold passages are all missing from the corpus."""
    gold_passages: dict[Use, list[int]] = field(default_factory=dict)
    """Per use, the number of each question's gold passages that are in the corpus; all of them before that is read."""
    trained: Sequence[Question] = ()
    """The questions that a run would train on."""
    scripts: Scripts = field(default_factory=Scripts)
    problems: Problems = field(default_factory=Problems)
    remarks: Problems = field(default_factory=Problems)
    """What is left out, or kept and probably should not be."""

    @property
    def avq(self) -> float:
        """Questions that a run would train on, per gold passage."""
        return questions_per_passage(self.trained)


def sort_by_use(source_names: Sequence[str], config: Config) -> dict[Use, list[str]]:
    """Sorts sources into passages, training and dev questions: collections by what they hold, others file by file (`_use`).

    What a named file of judgements brings along counts once. SQuAD's and DPR's JSON are passages only where there is no
    other source. Raises InputError for an unreadable source.
    """
    by_use: dict[Use, list[str]] = {"corpus": [], "train": [], "dev": []}
    judgements = [each for each in source_names if sources.judged_uses(each) and sources.named_split(each)]
    beside = {*sources.expand_sources(judgements, "corpus"), *sources.expand_sources(judgements, "dev")}
    for source in source_names:
        files = sources.expand_source(source, "corpus")
        if judged := sources.judged_uses(source):
            split = sources.named_split(source)
            by_use["corpus"].append(files[0] if split and not is_beir(source) else source)
            named: list[Use] = ["train" if split == "train" else "dev"]
            for use in named if split else judged:
                by_use[use].append(source)
            continue
        uses: dict[str, Use] = {file: _use(file, config) for file in files if file not in beside}
        for use in dict.fromkeys(uses.values()):
            use_files = [file for file in files if uses.get(file) == use]
            by_use[use] += [source] if len(use_files) == len(files) else use_files
    return by_use


def _use(file: str, config: Config) -> Use:
    """Returns the use of one file: dev questions if its name says so, or if they have answers but name no passages."""
    columns = config.questions.columns
    known = (*config.corpus.columns.values(), *columns.values())
    form = config.corpus.format if config.corpus.format != "auto" else config.questions.format
    name = detect(file, form, "corpus.format", known)
    words = set(re.split(r"[^a-z]+", plain_name(file)))
    question_use = named_use(file) or "train"
    if name == "qa":
        return "dev"
    if FORMATS[name].is_companion or words & {"queries", "topics"}:
        return question_use
    if not FORMATS[name].names_columns:
        is_corpus = name == "text" or (name == "marco" and not words & QUESTION_WORDS)
        return "corpus" if is_corpus else question_use
    read = FORMATS[name].questions
    row = add_nested(next(read(file), {}), columns.values()) if read else {}
    columns = match_columns(columns, dict.fromkeys(QUESTION_COLUMNS, ()), row)
    if "question" not in columns:
        texts = match_columns(config.corpus.columns, PASSAGE_COLUMNS, row)
        asks = any(re.search("quer|question|anchor", name, re.IGNORECASE) for name in row)
        return question_use if asks and "text" not in texts else "corpus"
    named = "positive_ids" in columns or "answers" not in columns or "train" in words
    return question_use if named else "dev"


def inspect(config: Config, progress: Callable[[int], None]) -> Inspection:
    """Reads all sources and counts their problems; ids stay in memory, not texts. Raises InputError without sources."""
    inspection, settings = Inspection(), config.questions
    if not (config.corpus.source or settings.source or settings.dev_source):
        raise InputError("nothing is named: give files, folders or URLs, a preset, or settings")
    if settings.origin != "labelled":
        check_sources(config)
    splitter(config.corpus.language)  # fails early where its data are missing
    report = Report(inspection.problems, inspection.remarks)
    question_sources: dict[Use, Sequence[str]] = {"train": settings.source, "dev": settings.dev_source}
    for use, source in question_sources.items():
        inspection.formats[use] = {
            file: detect(file, settings.format, "questions.format", settings.columns.values())
            for file in sources.expand_sources(source, use)
        }
    columns: dict[Use, dict[str, bool]] = {}
    train, dev = read_all_questions(settings, report, columns)
    inspection.questions = {"train": train, "dev": dev}
    for use, questions in inspection.questions.items():
        inspection.gold_passages[use] = [len(q.positive_ids) for q in questions]
    for use, found in columns.items():
        inspection.unread[use] = [column for column, is_read in found.items() if not is_read]
    _remark_unread_columns(inspection)
    try:
        scan = CorpusScan(config, train, dev, report)
        inspection.formats["corpus"] = scan.formats
        for table in scan.tables():
            _measure_passages(inspection, table, config.corpus.language)
            progress(len(scan.rows))
    except InputError as error:
        report.problem("sources that cannot be read as passages", str(error))
        return inspection
    inspection.questions = {"train": scan.train, "dev": scan.dev}
    inspection.trained = select(config, scan, report).train
    inspection.columns = scan.further.schema.names
    for use, questions in inspection.questions.items():
        inspection.gold_passages[use] = [sum(id_ in scan.rows for id_ in q.positive_ids) for q in questions]
        inspection.missing_gold[use] = sum(map(scan.lacks_passages, questions))
    if line := inspection.scripts.problem(config.corpus.language):
        report.remark("letters that do not suit the language", line)
    return inspection


def _remark_unread_columns(inspection: Inspection) -> None:
    """Remarks on unread columns that may name gold passages or hold answers, where the questions have none."""
    for use, columns in inspection.unread.items():
        for name, words in MAY_BE.items():
            column = next(filter(words.search, columns), None)
            if column and not any(getattr(question, name) for question in inspection.questions[use]):
                inspection.remarks.add(
                    f"questions without {name} beside a column that is not read",
                    f"{SETTING[use]}: if its column {column} names them, set questions.columns={{{name}: {column}}}",
                )


def _measure_passages(inspection: Inspection, table: pa.Table, language: str) -> None:
    """Adds a table of passages to the counts and lengths."""
    texts = table.column("text").to_pylist()
    inspection.scripts.add(texts)
    inspection.words.update(cjk.count_words(text, language) for text in texts)
    sampled = texts[: max(0, SENTENCE_SAMPLE - inspection.passages)]
    inspection.sentences.update(map(len, iterate_sentence_ends(sampled, language)))
    inspection.titled += sum(bool(title) for title in table.column("title").to_pylist())
    inspection.passages += table.num_rows
    remaining = SHOWN_PASSAGES - len(inspection.first_passages)
    inspection.first_passages += table.select(list(PASSAGE_COLUMNS)).slice(0, remaining).to_pylist()
