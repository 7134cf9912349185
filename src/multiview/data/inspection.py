"""What a run would read, before it is run: counts, lengths and problems of the user's data."""

from __future__ import annotations

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
from multiview.data.reading.files import base_name, plain_name
from multiview.data.reading.formats import FORMATS, QRELS, detect
from multiview.data.reading.judged import CORPORA, Use
from multiview.data.reading.problems import Problems
from multiview.data.reading.readers import PASSAGE_COLUMNS, QUESTION_COLUMNS, found_columns
from multiview.data.sentences import iterate_sentence_ends
from multiview.errors import InputError

SETTING: dict[Use, str] = {
    "corpus": "corpus.source",
    "train": "questions.source",
    "dev": "questions.dev_source",
}
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

    Questions whose file's name says dev, test or valid are dev questions, as are those without gold
    passages. SQuAD's and DPR's JSON are passages only where no other source is.
    """
    found: dict[Use, list[str]] = {"corpus": [], "train": [], "dev": []}
    for source in named:
        files = sources.expand_source(source, "corpus")
        uses: set[Use] = set()
        if plain_name(files[0]) in CORPORA and not source.endswith(base_name(files[0])):
            uses = {"corpus", *(use for use in ("train", "dev") if _has(source, use))}
        else:
            uses = {use for file in files for use in _uses(file, config)}
        for use in uses:
            found[use].append(source)
    return found


def _has(collection: str, use: Use) -> bool:
    try:
        return bool(sources.expand_source(collection, use))
    except InputError:
        return False


def _uses(file: str, config: Config) -> set[Use]:
    columns = {**config.corpus.columns, **config.questions.columns}
    form = config.corpus.format if config.corpus.format != "auto" else config.questions.format
    format_name = detect(file, form, "corpus.format", columns.values())
    name = plain_name(file)
    held_out = "train" not in name and any(part in name for part in ("dev", "test", "valid"))
    asked: Use = "dev" if held_out or format_name == "qa" else "train"
    if format_name == QRELS or name.startswith("queries"):
        return {asked}
    if not FORMATS[format_name].named:
        return {"corpus"} if format_name in ("marco", "text") else {asked}
    read = FORMATS[format_name].questions
    row: Mapping[str, Any] = next(read(file), {}) if read else {}
    own = {"question": ()} if "question" not in config.questions.columns else QUESTION_COLUMNS
    return {asked} if "question" in found_columns(config.questions.columns, own, row) else {"corpus"}


def inspect(config: Config, progress: Callable[[int], None]) -> Inspection:
    """Read all that the settings name and count what is wrong with it. Ids stay in memory, texts do not."""
    found, asked = Inspection(), config.questions
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
        checking.check_gold(due, seen.rows, SETTING[use], asked.max_missing_gold, found.problems)
        for question in found.questions[use]:
            for _ in range(unknown_positives(question, seen.rows)):
                found.remarks(UNKNOWN_POSITIVES, f"{SETTING[use]}: question {question.qid} has others")
    return found


def _look(found: Inspection, table: pa.Table, language: str) -> None:
    texts = table.column("text").to_pylist()
    found.words.add(len(text.split()) for text in texts)
    sampled = texts[: max(0, SAMPLE - found.passages)]
    found.sentences.add(map(len, iterate_sentence_ends(sampled, language)))
    found.titled += sum(bool(title) for title in table.column("title").to_pylist())
    found.passages += table.num_rows
    wanted = FIRST - len(found.first_passages)
    found.first_passages += table.select(list(PASSAGE_COLUMNS)).slice(0, wanted).to_pylist()
