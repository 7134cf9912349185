"""What a run would read, before it is run: counts, lengths and problems of the user's data."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from multiview.config import Config
from multiview.data import checking
from multiview.data.corpus import Corpus
from multiview.data.questions import Question, questions_per_passage, unknown_positives
from multiview.data.reading import sources
from multiview.data.reading.files import plain_name
from multiview.data.reading.formats import FORMATS, QRELS, detect
from multiview.data.reading.judged import Use, split_of
from multiview.data.reading.problems import Problems
from multiview.data.reading.readers import PASSAGE_COLUMNS, QUESTION_COLUMNS, found_columns
from multiview.data.sentences import iterate_sentence_ends, tokenizer
from multiview.errors import InputError

SETTING: dict[Use, str] = {
    "corpus": "corpus.source",
    "train": "questions.source",
    "dev": "questions.dev_source",
}
HELD_OUT = {"dev", "test", "valid", "validation", "val", "eval"}
"""Words of a file's name that say that its questions are not for training."""
SAMPLE = 20_000
"""Sentences are counted in this many passages, the first ones."""
UNKNOWN_POSITIVES = "gold passages that are not in the corpus, of questions that have others"
"""A kind of remark."""
FIRST = 3
"""Rows that are shown."""


@dataclass
class Lengths:
    """A histogram of lengths."""

    counts: Counter[int] = field(default_factory=Counter)

    def add(self, lengths: Iterable[int]) -> None:
        self.counts.update(lengths)

    @property
    def mean(self) -> float:
        return sum(length * count for length, count in self.counts.items()) / max(1, self.counts.total())

    @property
    def longest(self) -> int:
        return max(self.counts, default=0)

    @property
    def median(self) -> int:
        """The lower one of two."""
        below = 0
        for length in sorted(self.counts):
            below += self.counts[length]
            if 2 * below >= self.counts.total():
                return length
        return 0

    def above(self, length: int) -> float:
        """The share that is longer."""
        return sum(c for n, c in self.counts.items() if n > length) / max(1, self.counts.total())


@dataclass
class Inspection:
    """What was understood."""

    formats: dict[Use, dict[str, str]] = field(default_factory=dict)
    """Each file of a use, with the name of its format."""
    passages: int = 0
    titled: int = 0
    words: Lengths = field(default_factory=Lengths)
    """A passage's words."""
    sentences: Lengths = field(default_factory=Lengths)
    """A passage's sentences, of the first `SAMPLE` passages."""
    columns: list[str] = field(default_factory=list)
    """The user's own, which are carried along."""
    first_passages: list[dict[str, Any]] = field(default_factory=list)
    questions: dict[Use, list[Question]] = field(default_factory=dict)
    """Training and dev questions."""
    missing_gold: dict[Use, int] = field(default_factory=dict)
    """Questions that name passages of which the corpus has none."""
    problems: Problems = field(default_factory=Problems)
    remarks: Problems = field(default_factory=Problems)
    """What is passed over, and no problem."""

    @property
    def avq(self) -> float:
        """Questions a passage that has one, of the training questions."""
        return questions_per_passage([q for q in self.questions["train"] if q.positive_ids])


def uses_of(named: Sequence[str], config: Config) -> dict[Use, list[str]]:
    """Which of some sources are passages, training and dev questions, by what they hold and are called.

    A collection is all that it has. Else it goes file by file: those whose names say dev, test or
    validation are dev questions, and so are those without gold passages. SQuAD's and DPR's JSON are
    passages only where no other source is. Raises InputError for what cannot be read.
    """
    found: dict[Use, list[str]] = {"corpus": [], "train": [], "dev": []}
    for source in named:
        files = sources.expand_source(source, "corpus")
        if sources.is_collection(source):
            found["corpus"].append(source if not split_of(source) else files[0])
            if split := split_of(source):
                found["train" if split == "train" else "dev"].append(source)
            else:
                found["train"] += [source] if _has(source, "train") else []
                found["dev"] += [source] if _has(source, "dev") else []
            continue
        uses: dict[str, Use] = {file: _use(file, config) for file in files}
        for use in dict.fromkeys(uses.values()):
            of_it = [file for file in files if uses[file] == use]
            found[use] += [source] if len(of_it) == len(files) else of_it
    return found


def _has(collection: str, use: Use) -> bool:
    try:
        return bool(sources.expand_source(collection, use))
    except InputError:
        return False


def _use(file: str, config: Config) -> Use:
    """What one file is for."""
    columns = {**config.corpus.columns, **config.questions.columns}
    form = config.corpus.format if config.corpus.format != "auto" else config.questions.format
    format_name = detect(file, form, "corpus.format", columns.values())
    words = set(re.split(r"[^a-z]+", plain_name(file)))
    asked: Use = "dev" if words & HELD_OUT and "train" not in words else "train"
    if format_name == "qa":
        return "dev"
    if format_name == QRELS or "queries" in words:
        return asked
    if not FORMATS[format_name].named:
        return "corpus" if format_name in ("marco", "text") else asked
    read = FORMATS[format_name].questions
    row: Mapping[str, Any] = next(read(file), {}) if read else {}
    columns = found_columns(config.questions.columns, dict.fromkeys(QUESTION_COLUMNS, ()), row)
    if "question" not in columns:
        return "corpus"
    return asked if "positive_ids" in columns or "answers" not in columns else "dev"


def inspect(config: Config, progress: Callable[[int], None]) -> Inspection:
    """Read all that the settings name and count what is wrong with it. Ids stay in memory, texts do not.

    Raises InputError when they name nothing.
    """
    found, asked = Inspection(), config.questions
    if not (config.corpus.source or asked.source or asked.dev_source):
        raise InputError("nothing is named: give files, folders or URLs, a preset, or settings")
    tokenizer(config.corpus.language)  # fails first, where its data are missing
    named: dict[Use, Sequence[str]] = {"train": asked.source, "dev": asked.dev_source}
    for use, given in named.items():
        files = sources.expand_sources(given, use)
        columns = asked.columns.values()
        found.formats[use] = {file: detect(file, asked.format, "questions.format", columns) for file in files}
        found.questions[use] = checking.read_questions(asked, given, use, found.problems, found.remarks)
    try:
        corpus = Corpus.of(config)
        found.formats["corpus"] = dict(corpus.formats)
        if not corpus.files:
            return found
        seen = checking.check(
            corpus,
            [question for kind in found.questions.values() for question in kind],
            asked.answer_matching,
            progress,
            found.problems,
            lambda table: _look(found, table, config.corpus.language),
        )
    except InputError as error:
        found.problems("sources that cannot be read as passages", str(error))
        return found
    found.columns = seen.extra.names
    for use, kind in found.questions.items():
        found.questions[use] = [seen.in_passages(question) for question in kind]
        # Dev questions may name no passages at all, training questions must.
        due = [q for q in found.questions[use] if q.positive_ids or use == "train"]
        found.missing_gold[use] = sum(
            bool(q.positive_ids) and not any(id_ in seen.rows for id_ in q.positive_ids) for q in due
        )
        checking.check_gold(due, seen, SETTING[use], asked.max_missing_gold, found.problems)
        for question in found.questions[use]:
            for _ in range(unknown_positives(question, seen.rows)):
                found.remarks(UNKNOWN_POSITIVES, f"{SETTING[use]}: question {question.qid} has others")
    _check_settings(found, config)
    return found


def _check_settings(found: Inspection, config: Config) -> None:
    """What a run would refuse although every row is in order."""
    shards = config.corpus.shards
    if found.passages < shards:
        line = f"corpus.shards={shards}: there are only {found.passages} passages; set fewer shards"
        found.problems("settings that do not suit", line)
    gold = {question.positive_ids[0] for question in found.questions["train"] if question.positive_ids}
    if not config.questions.dev_source and len(gold) == 1:
        line = "all questions are about one passage, nothing can be held out; give questions.dev_source"
        found.problems("settings that do not suit", line)
    both = {q.qid for q in found.questions["train"]} & {q.qid for q in found.questions["dev"]}
    for qid in both:
        found.remarks("dev questions that are training questions too", f"question {qid}")


def _look(found: Inspection, table: pa.Table, language: str) -> None:
    texts = table.column("text").to_pylist()
    found.words.add(len(text.split()) for text in texts)
    sampled = texts[: max(0, SAMPLE - found.passages)]
    found.sentences.add(map(len, iterate_sentence_ends(sampled, language)))
    found.titled += sum(bool(title) for title in table.column("title").to_pylist())
    found.passages += table.num_rows
    wanted = FIRST - len(found.first_passages)
    found.first_passages += table.select(list(PASSAGE_COLUMNS)).slice(0, wanted).to_pylist()
