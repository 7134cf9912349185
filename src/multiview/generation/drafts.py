"""Questions drafted from single snippets of passages: crops of the snippet's words, or a generator's questions about it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from multiview import names
from multiview.config import MakeQuestions
from multiview.data.cjk import count_words, word_spans
from multiview.data.passages import COLUMNS, ROW_GROUP, Passage, count_passages, passages_of, read_tables
from multiview.data.queries import distinct, join
from multiview.data.questions import FILE, GENERATED, SCHEMA, Question, seeded_hash, write_questions
from multiview.model.layouts.snippets import split_snippets
from multiview.steps.context import StepContext

SHORTEST = 4
"""Fewest words of a crop; snippets with fewer words are not cropped."""

PART = ROW_GROUP
"""Snippets that are drafted from together and written as one row group."""

PARTS_PER_CHECKPOINT = 10
"""Number of parts between two checkpoints."""


@dataclass(frozen=True, slots=True)
class DrawnSnippet:
    """A snippet that questions are made from: `text`, which begins at `start` in its passage's text."""

    passage: Passage
    start: int
    text: str

    @property
    def name(self) -> str:
        """The passage's id with the offset, which is unique."""
        return f"{self.passage.id}:{self.start}"

    def questions(self, texts: Iterable[str]) -> list[Question]:
        """Returns questions about the snippet, which is their answer; empty and repeated texts are left out."""
        return [
            Question(
                f"{GENERATED}{self.name}" + (f":{number}" if number else ""),
                text,
                (self.text,),
                (self.start,),
                (self.passage.id,),
            )
            for number, text in enumerate(filter(None, distinct(texts)))
        ]


Ask = Callable[[Sequence[DrawnSnippet]], Iterable[tuple[int, Sequence[str]]]]
"""Function that returns (index, texts of questions) per snippet, in any order."""


def draw_snippets(
    passage: Passage, settings: MakeQuestions, least_words: int = 1, language: str = "english"
) -> list[DrawnSnippet]:
    """Returns the snippets of a passage that questions are made from, in text order; none where the passage is not drawn.

    A passage is cut as CAMVR cuts it (Algorithm 1, title included). A drawn snippet is a part of the text without the
    title, stripped, of at least `least_words` words. The draws depend on the seed, the passage's id and the offset.
    """
    if settings.share < 1 and _fraction(settings.seed, f"passage {passage.id}") >= settings.share:
        return []
    drawn = []
    for snippet in split_snippets(passage.title, passage.text, passage.sentence_ends, settings.snippets):
        start, stop = snippet.span or (0, 0)
        text = passage.text[start:stop]
        if count_words(text, language) >= least_words:
            drawn.append(DrawnSnippet(passage, start + len(text) - len(text.lstrip()), text.strip()))
    drawn.sort(key=lambda snippet: seeded_hash(settings.seed, f"snippet {snippet.name}"))
    return sorted(drawn[: settings.per_passage], key=lambda snippet: snippet.start)


def crop(snippet: DrawnSnippet, settings: MakeQuestions, language: str = "english") -> str:
    """Returns a run of `SHORTEST` to `longest` words of the snippet; of all of its words if it has fewer."""
    text = snippet.text
    words = word_spans(text, language)
    longest = min(settings.longest, len(words))
    shortest = min(SHORTEST, longest)
    drawn = f"crop 0 of {snippet.name}"
    length = shortest + int(_fraction(settings.seed, f"length of {drawn}") * (longest - shortest + 1))
    start = int(_fraction(settings.seed, f"start of {drawn}") * (len(words) - length + 1))
    run = words[start : start + length]
    return " ".join(text[run[0][0] : run[-1][1]].split())


def crop_questions(context: StepContext) -> None:
    """Step: drafts questions for one shard of `passages` as crops of their snippets, without a model, into `drafts`."""
    settings, language = context.settings.make_questions, context.settings.corpus.language

    def ask(snippets: Sequence[DrawnSnippet]) -> Iterator[tuple[int, list[str]]]:
        for index, snippet in enumerate(snippets):
            yield index, [crop(snippet, settings, language)]

    write_drafts(context, ask, SHORTEST, language)


def generate_questions(context: StepContext) -> None:
    """Step: drafts questions for one shard of `passages` with `generator`, which reads one snippet each, into `drafts`.

    The generator reads the snippet's text, after the title where `generation.input` includes it. A run that was killed
    continues from `checkpoints.latest()`.
    """
    from multiview.generation.generate import QueryGenerator

    settings = context.settings.generation.model_copy(update={"queries": 1})
    generator = QueryGenerator(context.input("generator").path, settings)

    def ask(snippets: Sequence[DrawnSnippet]) -> Iterator[tuple[int, list[str]]]:
        return generator.queries(
            [replace(snippet.passage, id=snippet.name, text=snippet.text) for snippet in snippets]
        )

    write_drafts(context, ask)


def write_drafts(context: StepContext, ask: Ask, least_words: int = 1, language: str = "english") -> None:
    """Writes the questions that `ask` makes from the drawn snippets of the input `passages`, as output `drafts`.

    `questions.parquet` has the questions in the order of the passages and snippets. They depend on the passage, the
    settings and `ask`, not on shard, order or neighbours. One part is in memory.
    """
    shard, settings = context.input("passages").path, context.settings.make_questions
    total, done, snippets, questions = count_passages(shard), 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="drafts-") as folder:
        parts = Path(folder)
        latest = context.checkpoints.latest() if context.checkpoints is not None else None
        for kept in latest.glob("part-*") if latest is not None else ():
            shutil.copytree(kept, parts / kept.name)
        for number, (read, drawn) in enumerate(_parts(shard, settings, least_words, language), 1):
            part = parts / f"part-{number:06d}"
            if not part.exists():
                texts: dict[int, Sequence[str]] = {}
                for index, made in ask(drawn):
                    texts[index] = made
                    context.events.progress(
                        done + (read - done) * len(texts) // len(drawn), total, "passages"
                    )
                part.mkdir()
                asked = [snippet.questions(texts[index]) for index, snippet in enumerate(drawn)]
                write_questions([question for each in asked for question in each], part)
                if context.checkpoints is not None and number % PARTS_PER_CHECKPOINT == 0:
                    context.checkpoints.publish(number, parts)
            done, snippets = read, snippets + len(drawn)
        files = sorted(parts.glob(f"part-*/{FILE}"))
        questions = join(files, context.output(names.DRAFTS) / FILE, SCHEMA)
    for name, value in (("passages", total), ("snippets", snippets), ("questions", questions)):
        context.events.fact(name, value)


def _parts(
    shard: Path, settings: MakeQuestions, least_words: int, language: str
) -> Iterator[tuple[int, list[DrawnSnippet]]]:
    """Yields the drawn snippets of a shard, `PART` at a time, each with the number of passages read so far."""
    read, drawn = 0, list[DrawnSnippet]()
    for table in read_tables(shard, COLUMNS):
        for passage in passages_of(table):
            drawn += draw_snippets(passage, settings, least_words, language)
            read += 1
            while len(drawn) >= PART:
                yield read, drawn[:PART]
                drawn = drawn[PART:]
    if drawn:
        yield read, drawn


def _fraction(seed: int, name: str) -> float:
    """Returns a pseudo-random number in [0, 1) that depends only on the seed and the name."""
    return int(seeded_hash(seed, name)[:13], 16) / 16**13
