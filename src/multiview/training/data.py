"""The questions and the passages of a training, and of its validation."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, zip_longest
from pathlib import Path

import pyarrow as pa

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Train
from multiview.data.answers import matching_mode
from multiview.data.passages import Passage, PassageLookup, equal_texts, ids_in, read_passages, read_tables
from multiview.data.queries import with_queries
from multiview.data.questions import Question, positive_ids, read_questions, seeded_hash
from multiview.data.tokens import Mode
from multiview.errors import InputError, counted
from multiview.negatives.cross_encoder import read_teacher
from multiview.negatives.negatives_file import Pool, read_negatives, read_positives
from multiview.steps.context import StepContext
from multiview.training.example_order import QueryStream, QuestionStream, Stream
from multiview.training.mapped_passages import MAPPED_FILE, MappedPassages

HELD_OUT_SHARE = 0.2
"""The largest share of the questions that is held out."""


@dataclass(frozen=True)
class ValidationSet:
    """Questions that are not trained on, with the passages among which each has to find its gold passages."""

    questions: Sequence[Question]
    gold: Mapping[str, Sequence[str]]
    """Each question's positives in the corpus, by its id; all of them are in the pool."""
    pool: Sequence[str]
    """Ids of passages, in string order."""


@dataclass(frozen=True)
class TrainingData:
    """What a training reads. Its processes get a copy each, and share the file of the passages."""

    stream: Stream
    passages: Mapping[str, Passage]
    """All passages that the stream may draw, and the pool of the validation, by id."""
    held_out: ValidationSet | None = None
    """The questions of the validation, if there is one."""
    matching: Mode = "string"
    """How answers are found in passages."""
    equal: Mapping[str, str] = field(default_factory=dict)
    """Ids of passages with equal texts (`equal_texts`): a question's positive is no negative under another id."""
    with_question: bool = True
    """Whether passages are read together with their question where the layout does that."""


def training_data(context: StepContext, folder: Path) -> TrainingData:
    """Returns the questions to train on and those to validate on, with their passages, which are written into `folder`.

    A gold passage of a held-out question is no positive here, not even under another id with the same text or as found
    by mining; it may be a hard negative. Questions left without a positive in the corpus are dropped and counted.
    Raises InputError where no question is left.
    """
    settings, negatives = context.settings.train, context.optional_input("negatives")
    source, corpus = context.input("questions").path, context.input("passages").path
    given, found = read_questions(source), read_positives(negatives.path) if negatives is not None else {}
    equal = equal_texts(corpus, positive_ids(with_found_positives(given, found)))
    training, held_out = _held_out(settings, given, negatives, corpus, equal, context)
    all_questions = with_found_positives(training, found)
    held = {equal.get(id_, id_) for ids in held_out.gold.values() for id_ in ids} if held_out else set()
    gold = {
        qid: [id_ for id_ in ids if equal.get(id_, id_) not in held]
        for qid, ids in _gold(all_questions, corpus).items()
    }
    questions = [question for question in all_questions if gold[question.qid]]
    most = 1 if settings.positive_passage == "first" else None
    positives = [gold[question.qid][:most] for question in questions]
    if not questions:
        raise InputError(f"{source}: no question has its positive passage in the corpus")
    pool = _pool(negatives if settings.negatives else None, questions, equal)
    if settings.distill_weight and negatives is None:
        raise InputError("train.distill_weight: without negatives there is nothing to distil; set it to 0")
    teacher = read_teacher(negatives.path) if settings.distill_weight and negatives else None
    stream = QuestionStream(questions, positives, pool, settings, teacher)
    if stream.batch_size < settings.batch_size:
        context.events.warning(
            f"train.batch_size {settings.batch_size}: there are only {counted(len(questions), 'question')}, so batches hold {len(questions):,}"
        )
    needed = dict.fromkeys(chain(*positives, held_out.pool if held_out else ()))
    by_source, short_of_negatives = Counter[str](), 0
    for question in questions:
        of = pool.get(question.qid, {})
        by_source.update(source for source, ids in of.items() if ids)
        short_of_negatives += len(set().union(*of.values())) < settings.negatives
        needed |= dict.fromkeys(chain(*of.values()))
    own_views = settings.local_weight or settings.in_sequence_weight
    alone = 1 in (
        stream.batch_size,
        settings.negative_group,
        len({equal.get(id_, id_) for id_ in chain(*positives)}),
    )
    if alone and not (by_source or own_views):
        raise InputError(
            f"{source}: without hard negatives, one passage, or one question in a batch (train.batch_size) or a group "
            "(train.negative_group), leaves no negative to learn from; give more of either"
        )
    if settings.negatives and short_of_negatives:
        context.events.warning(
            f"fewer than {counted(settings.negatives, 'hard negative')} for {short_of_negatives:,} of {counted(len(questions), 'question')}"
        )
    context.events.fact(
        dropped_questions=len(all_questions) - len(questions),
        questions_short_of_negatives=short_of_negatives,
        **{f"questions_with_{source}_negatives": count for source, count in by_source.items()},
    )
    passages = ((passage, ()) for _, passage in PassageLookup(corpus).stream(pa.array(needed, pa.string())))
    mapped = MappedPassages.write(passages, folder / MAPPED_FILE)
    return TrainingData(stream, mapped, held_out, matching_mode(context.settings), equal)


def warm_up_data(context: StepContext, folder: Path) -> TrainingData:
    """Returns data with one query per epoch for each passage that has queries; passages are written into `folder`."""
    settings = context.settings.train
    corpus = context.input("passages").path
    rows = with_queries(read_passages(corpus), context.input("queries").path)
    passages = MappedPassages.write(rows, folder / MAPPED_FILE)
    if not len(passages.ids_with_queries):
        raise InputError(
            "generation.model wrote no query for any passage: choose another model, or skip the warm-up with train.warm_up={}"
        )
    stream = QueryStream(passages.ids_with_queries, passages.queries, settings)
    if 1 in (stream.batch_size, settings.negative_group):
        raise InputError(
            "train.warm_up: one passage with queries, batch_size=1 or negative_group=1 leaves a query no negative to "
            "learn from; give more, or skip the warm-up with train.warm_up={}"
        )
    if settings.warmup_passage == "with_query":
        context.events.warning(
            "train.warmup_passage=with_query: each positive is the one passage that holds its question, and a warm-up has "
            "no hard negatives, so the model can learn to match texts instead of answers; `plain` avoids it"
        )
    context.events.fact(passages_without_queries=len(passages) - len(passages.ids_with_queries))
    with_question = settings.warmup_passage == "with_query"
    return TrainingData(stream, passages, equal=equal_texts(corpus), with_question=with_question)


def _held_out(
    settings: Train,
    questions: list[Question],
    negatives: LocalArtifact | None,
    corpus: Path,
    equal: Mapping[str, str],
    context: StepContext,
) -> tuple[list[Question], ValidationSet | None]:
    """The questions to train on, including those without a positive in the corpus, and the ones held out."""
    if settings.validate_steps is None:
        return questions, None
    gold = _gold(questions, corpus)
    without = [question for question in questions if not gold[question.qid]]
    known = [question for question in questions if gold[question.qid]]
    texts = {qid: [equal.get(id_, id_) for id_ in ids] for qid, ids in gold.items()}
    training, held = hold_out(known, texts, settings.validation_questions, settings.seed)
    neither = len(known) - len(training) - len(held)
    if neither > HELD_OUT_SHARE * len(known):
        context.events.warning(
            f"train.validation_questions {settings.validation_questions}: {neither:,} of {counted(len(known), 'question')} share a "
            "gold passage with a held-out one and are not trained on; set fewer, or train.validate_steps to null"
        )
    if len(held) < settings.validation_questions:
        context.events.warning(
            f"train.validation_questions {settings.validation_questions}: only {len(held):,} of {counted(len(known), 'question')} "
            "held out, so that most are left to train on"
        )
    ids = (name for batch in read_tables(corpus, ["id"]) for name in batch.column("id").to_pylist())
    pool = pool_of(held, gold, _pool(negatives, held, equal), ids, settings)
    context.events.fact(
        validation_questions=len(held),
        validation_passages=len(pool),
        questions_about_validation_passages=neither,
    )
    return training + without, ValidationSet(held, {q.qid: gold[q.qid] for q in held}, pool)


def _gold(questions: Sequence[Question], corpus: Path) -> dict[str, list[str]]:
    """The positives of each question that the corpus holds."""
    in_corpus = ids_in(corpus, positive_ids(questions))
    return {q.qid: [name for name in q.positive_ids if name in in_corpus] for q in questions}


def with_found_positives(questions: Iterable[Question], found: Mapping[str, list[str]]) -> list[Question]:
    """Returns the questions with the positives that mining `found` appended to their own, so that none is a negative.

    Answers' offsets refer to the first of a question's own positives; a question without any loses them.
    """
    extended = []
    for question in questions:
        if more := found.get(question.qid):
            positives = tuple(dict.fromkeys([*question.positive_ids, *more]))
            starts = question.answer_starts if question.positive_ids else None
            question = replace(question, answer_starts=starts, positive_ids=positives)
        extended.append(question)
    return extended


def _pool(negatives: LocalArtifact | None, questions: list[Question], equal: Mapping[str, str]) -> Pool:
    """The hard negatives of `questions`, without their positives and passages `equal` to one, which a file may hold."""
    of = {question.qid: question.positive_ids for question in questions}
    return read_negatives(negatives.path, of, equal) if negatives else {}


# --- validation -----------------------------------------------------------------------------------


def hold_out(
    questions: Sequence[Question], gold: Mapping[str, Sequence[str]], number: int, seed: int
) -> tuple[list[Question], list[Question]]:
    """Returns the questions to train on and up to `number` questions to validate on, with no gold passage in common.

    `gold` are each question's positives in the corpus, at least one, with one id for equal texts. Passages are drawn by
    `seed`, and the questions whose first positive is drawn are held out, up to `number` or a fifth of all. Other
    questions that share a gold passage with these are in neither list, since training would reveal it. Raises
    InputError where one of the lists is empty.
    """
    of_passage: defaultdict[str, list[Question]] = defaultdict(list)
    for question in sorted(questions, key=lambda question: question.qid):
        of_passage[gold[question.qid][0]].append(question)
    drawn = sorted(of_passage, key=lambda id_: _rank(seed, id_))
    number = min(number, int(HELD_OUT_SHARE * len(questions)))
    held = list(islice((question for id_ in drawn for question in of_passage[id_]), number))
    shown = {id_ for question in held for id_ in gold[question.qid]}
    training = [question for question in questions if shown.isdisjoint(gold[question.qid])]
    if not training or not held:
        raise InputError(
            "train.validate_steps: too few training questions to hold some out for a validation "
            f"(questions: {len(questions)}, gold passages: {len(of_passage)}); set it to null"
        )
    return training, held


def pool_of(
    questions: Sequence[Question],
    gold: Mapping[str, Sequence[str]],
    negatives: Pool,
    corpus: Iterable[str],
    settings: Train,
) -> list[str]:
    """Returns the ids of the passages that held-out `questions` are ranked against, in string order.

    There are `train.validation_passages`, if the corpus has that many: all gold passages, even if these are more; in up
    to half of the other places hard negatives, every question's best-ranked first; then passages drawn by `train.seed`.
    """
    pool = dict.fromkeys(id_ for question in questions for id_ in gold[question.qid])
    size = settings.validation_passages
    lists = [ids for question in questions for ids in negatives.get(question.qid, {}).values()]
    ranked = (id_ for rank in zip_longest(*lists) for id_ in rank if id_ is not None and id_ not in pool)
    places = max(0, size - len(pool)) // 2
    pool |= dict.fromkeys(islice(dict.fromkeys(ranked), places))
    sample = heapq.nsmallest(size, corpus, key=lambda id_: _rank(settings.seed, id_))
    others = (id_ for id_ in sample if id_ not in pool)
    pool |= dict.fromkeys(list(islice(others, max(0, size - len(pool)))))
    return sorted(pool)


def _rank(seed: int, id_: str) -> str:
    # Prefixed, so that the order differs from those of `question_selection.limited` and of training.
    return seeded_hash(seed, f"validation:{id_}")
