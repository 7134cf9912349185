"""Training questions for a team that has no labelled ones: drafts with which BM25 finds their passage again.

Drafts are made from single snippets of passages: crops of the snippet's words, or questions about it from a generator
or a language model.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pyarrow as pa

from multiview import names
from multiview.config import MakeQuestions
from multiview.data.cjk import count_words, word_spans
from multiview.data.passages import ROW_GROUP, Passage, count_passages, read_passages
from multiview.data.queries import write_by_parts
from multiview.data.question_selection import held_out, limited, one_per_passage, questions_per_passage
from multiview.data.questions import (
    FILE,
    GENERATED,
    SCHEMA,
    Question,
    iterate_questions,
    question_table,
    seeded_hash,
    write_questions,
)
from multiview.errors import InputError, counted
from multiview.index.bm25 import Bm25Index, tokenizer
from multiview.model.layouts.snippets import split_snippets
from multiview.negatives.filters import Positives
from multiview.steps.context import StepContext

DRAFTS_AT_ONCE = 10_000
"""Drafts that BM25 searches for together."""

SHORTEST_CROP, LONGEST_CROP = 4, 10
"""Fewest and most words of a crop (docs/results-tables.md); snippets with fewer words are not cropped."""


@dataclass(frozen=True, slots=True)
class QuestionSnippet:
    """A snippet that questions are made from: `text`, which begins at `start` in its passage's text."""

    passage: Passage
    start: int
    text: str

    @property
    def name(self) -> str:
        """The passage's id and the offset, which together are unique."""
        return f"{self.passage.id}:{self.start}"

    def question(self, text: str) -> Question:
        """Returns a question about the snippet, which is its answer."""
        return Question(f"{GENERATED}{self.name}", text, (self.text,), (self.start,), (self.passage.id,))


Ask = Callable[[Sequence[QuestionSnippet]], Iterable[tuple[int, str]]]
"""Function that returns (index, text of a question) per snippet, in any order; an empty text is no question."""


def draw_snippets(
    passage: Passage, settings: MakeQuestions, least_words: int = 1, language: str = "english"
) -> list[QuestionSnippet]:
    """Returns the snippets of a passage that questions are made from, in text order; none where the passage is not drawn.

    A passage, title included, is cut by CAMVR's Algorithm 1. Its snippets of at least `least_words` words, stripped and
    without the title, are drawn by the seed, the passage's id and their offsets.
    """
    if settings.share < 1 and _fraction(settings.seed, f"passage {passage.id}") >= settings.share:
        return []
    drawn = []
    for snippet in split_snippets(passage.title, passage.text, passage.sentence_ends, settings.snippets):
        start, stop = snippet.span or (0, 0)
        text = passage.text[start:stop]
        if count_words(text, language) >= least_words:
            drawn.append(QuestionSnippet(passage, start + len(text) - len(text.lstrip()), text.strip()))
    drawn.sort(key=lambda snippet: seeded_hash(settings.seed, f"snippet {snippet.name}"))
    return sorted(drawn[: settings.per_passage], key=lambda snippet: snippet.start)


def crop(snippet: QuestionSnippet, settings: MakeQuestions, language: str = "english") -> str:
    """Returns a run of `SHORTEST_CROP` to `LONGEST_CROP` words of the snippet; of all of its words if it has fewer."""
    text = snippet.text
    words = word_spans(text, language)
    longest = min(LONGEST_CROP, len(words))
    shortest = min(SHORTEST_CROP, longest)
    drawn = f"crop 0 of {snippet.name}"
    length = shortest + int(_fraction(settings.seed, f"length of {drawn}") * (longest - shortest + 1))
    start = int(_fraction(settings.seed, f"start of {drawn}") * (len(words) - length + 1))
    run = words[start : start + length]
    return " ".join(text[run[0][0] : run[-1][1]].split())


def crop_questions(context: StepContext) -> None:
    """Step: drafts questions for one shard of `passages` as crops of their snippets, without a model, into `drafts`."""
    settings, language = context.settings.make_questions, context.settings.corpus.language

    def ask(snippets: Sequence[QuestionSnippet]) -> Iterable[tuple[int, str]]:
        return enumerate(crop(snippet, settings, language) for snippet in snippets)

    write_drafts(context, ask, SHORTEST_CROP, language)


def generate_questions(context: StepContext) -> None:
    """Step: drafts questions for one shard of `passages` with `generator`, which reads one snippet each, into `drafts`.

    The generator reads the snippet's text, after the title where `generation.input` includes it.
    """
    from multiview.generation.generate import QueryGenerator

    settings = context.settings.generation.model_copy(update={"queries": 1})
    generator = QueryGenerator(context.input("generator").path, settings, context.settings.encode.device)

    def ask(snippets: Sequence[QuestionSnippet]) -> Iterator[tuple[int, str]]:
        read = [replace(snippet.passage, id=snippet.name, text=snippet.text) for snippet in snippets]
        return ((index, text) for index, (text,) in generator.queries(read))

    write_drafts(context, ask)


def write_drafts(context: StepContext, ask: Ask, least_words: int = 1, language: str = "english") -> None:
    """Writes the questions that `ask` makes from the drawn snippets of the input `passages`, in their order, as `drafts`."""
    shard, settings = context.input("passages").path, context.settings.make_questions
    total, snippets = count_passages(shard), 0

    def drawn() -> Iterator[tuple[int, QuestionSnippet]]:
        """The snippets, each with the number of passages read until then."""
        nonlocal snippets
        for read, passage in enumerate(read_passages(shard), 1):
            for snippet in draw_snippets(passage, settings, least_words, language):
                snippets += 1
                yield read, snippet

    def make(part: list[tuple[int, QuestionSnippet]]) -> pa.Table:
        texts: dict[int, str] = {}
        for index, text in ask([snippet for _, snippet in part]):
            texts[index] = text
            context.events.progress(part[len(texts) - 1][0], total, "passages")
        return question_table(
            snippet.question(texts[index]) for index, (_, snippet) in enumerate(part) if texts[index]
        )

    rest, file = drawn(), context.output(names.DRAFTS) / FILE
    questions = write_by_parts(context, iter(lambda: list(islice(rest, ROW_GROUP)), []), make, file, SCHEMA)
    context.events.progress(total, total, "passages")
    context.events.fact(passages=total, snippets=snippets, questions=questions)


def _fraction(seed: int, name: str) -> float:
    """Returns a pseudo-random number in [0, 1) that depends only on the seed and the name."""
    return int(seeded_hash(seed, name)[:13], 16) / 16**13


# --- the round trip ---------------------------------------------------------------------------------


def make_questions(context: StepContext) -> None:
    """Step: makes `train_questions` and `dev_questions` from the `drafts` of all shards of `passages`.

    The questions about a share of the passages are held out as dev questions, as they were drafted. The others are kept
    if BM25 finds their passage among the first `make_questions.found_within`, and if the views of the input `index`, of
    `model`, do too where a step declares it. The settings of `questions` apply as for labelled ones. All drafts are
    held in memory. Raises InputError where nothing is left to train on.
    """
    asked, made = context.settings.questions, context.settings.make_questions
    drafted = [q for part in context.list_input("drafts") for q in iterate_questions(part.path)]
    drafts = _different(drafted, context.settings.corpus.language) if asked.origin == "llm" else drafted
    if len({q.positive_ids for q in drafts}) < 2:
        raise InputError(
            f"make_questions: {counted(len(drafted), 'question')} drafted, {len(drafts)} without repeats, about fewer than two "
            "passages, so none can be held out: set a larger make_questions.share, or see what the step before this one left out"
        )
    train, dev = held_out(drafts, asked.dev_share, asked.seed)
    if asked.one_per_passage:
        train = one_per_passage(train, asked.seed)
    kept, searched = _round_trip(context, train)
    if not kept:
        raise InputError(
            f"make_questions.found_within={made.found_within}: the passage of none of {counted(searched, 'question')} is found; "
            "set a larger number, or null to keep all"
        )
    dev = limited(dev, asked.dev_limit, asked.seed)
    write_questions(kept, context.output(names.TRAIN_QUESTIONS))
    write_questions(dev, context.output(names.DEV_QUESTIONS))
    context.events.fact(**{names.GENERATED: asked.origin})
    context.events.figures(
        drafts=len(drafts),
        repeated_questions=len(drafted) - len(drafts),
        searched_questions=searched,
        train_questions=len(kept),
        dev_questions=len(dev),
        avq=questions_per_passage(kept),
    )


def _different(questions: Sequence[Question], language: str) -> list[Question]:
    """Returns only the first by id of questions whose words are the same but for inflection, order and stop words."""
    texts, cutter = [q.question for q in questions], tokenizer(language)
    terms = cutter.streaming_tokenize(texts, update_vocab=True, allow_empty=False)
    asked = {q.qid: frozenset(each) or q.question for q, each in zip(questions, terms, strict=True)}
    first = {asked[qid]: qid for qid in sorted(asked, reverse=True)}
    return [q for q in questions if first[asked[q.qid]] == q.qid]


def _by_views(context: StepContext, k: int) -> Callable[[Sequence[Question]], np.ndarray]:
    """Returns a function that tells whose passage [q] the input `index`, asked as any search asks it, finds among the
    first k; all, without it."""
    if context.optional_input("index") is None:
        return lambda questions: np.ones(len(questions), bool)
    from multiview.encoding.encode import Encoder
    from multiview.index.view_index import ViewIndex

    index = ViewIndex.of_step(context)
    encoder = Encoder.of_step(context)

    def found(questions: Sequence[Question]) -> np.ndarray:
        positives = Positives(index.ids, questions)
        if missing := int((positives.first < 0).sum()):
            raise InputError(
                f"make_questions.found_by: this index lacks the passages of {missing:,} of {counted(len(questions), 'question')}; "
                "give an index of this very corpus"
            )
        top = index.search(encoder.question_vectors([question.question for question in questions]), k)
        return positives.hits(top.passages).max(axis=1)

    return found


def _round_trip(context: StepContext, questions: Sequence[Question]) -> tuple[list[Question], int]:
    """Returns the questions that find their passage, or those of them that `limited` would draw by `questions.limit`,
    and the number of questions that were searched until there were enough."""
    asked, k = context.settings.questions, context.settings.make_questions.found_within
    if k is None:
        return limited(questions, asked.limit, asked.seed), 0
    passages = read_passages(context.input("passages").path)
    index = Bm25Index.of(passages, context.settings.bm25, context.settings.corpus.language)
    ranked = sorted(questions, key=lambda question: seeded_hash(asked.seed, question.qid))
    kept, by_views = set[str](), _by_views(context, k)
    searched = 0
    while searched < len(ranked) and (asked.limit is None or len(kept) < asked.limit):
        batch = ranked[searched : searched + DRAFTS_AT_ONCE]
        top = index.search([question.question for question in batch], k)
        found = Positives(index.ids, batch).hits(top.passages).max(axis=1) & by_views(batch)
        kept.update(question.qid for question, is_found in zip(batch, found, strict=True) if is_found)
        searched += len(batch)
        context.events.progress(searched, len(ranked), "questions")
    return limited([q for q in questions if q.qid in kept], asked.limit, asked.seed), searched
