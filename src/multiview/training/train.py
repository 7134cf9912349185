"""The step `train`: a trained model from an initial model, passages, questions and negatives."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from multiview.artifacts.scratch import scratch
from multiview.artifacts.staged import Staged
from multiview.config import Train
from multiview.data.answers import matching_mode
from multiview.data.passages import Passage, PassageLookup, ids_in, read_tables
from multiview.data.questions import Question, read_questions
from multiview.data.tokens import Mode
from multiview.errors import InputError, counted
from multiview.model.devices import within_gpu_memory
from multiview.model.dropout import set_dropout
from multiview.model.encoder import BiEncoder, load_settings
from multiview.model.half_products import half_products
from multiview.model.layouts import check
from multiview.negatives.pool import Pool, read_negatives, read_positives
from multiview.negatives.teacher import read_teacher
from multiview.steps.context import StepContext
from multiview.training.batches import GROUP_COST, Collator
from multiview.training.gathering import check_same_start
from multiview.training.held_out import HeldOut, hold_out, pool_of
from multiview.training.processes import on_processes
from multiview.training.stream import QuestionStream, Stream
from multiview.training.trainer import BiEncoderTrainer, training_arguments
from multiview.training.validation import Validating, Validation


def train(context: StepContext) -> None:
    """Step: train the model `start` on `questions` with hard `negatives` (may be absent) from `passages`, into `model`.

    Reads settings.train and settings.questions, and runs on `train.processes` processes. With `train.validate_steps`
    the output is the best model that a validation saw (`multiview.training.validation`), else the last one. A run that
    was killed continues from `checkpoints.latest()` and ends with exactly the weights of an uninterrupted run. Raises
    InputError for settings that do not suit the model.
    """
    on_processes(_train, context)


def _train(context: StepContext) -> None:
    settings = context.settings
    data = training_data(settings.train, context)
    start, matching = context.input("start").path, matching_mode(settings)
    fit(settings.train, start, data.stream, data.passages, context, matching, held_out=data.held_out)


def fit(
    settings: Train,
    start: Path,
    stream: Stream,
    passages: Mapping[str, Passage],
    context: StepContext,
    matching: Mode = "string",
    with_question: bool = True,
    held_out: HeldOut | None = None,
) -> None:
    """Trains the model in `start` on `stream` and saves it as the output `model`; runs in each process of the training.

    `with_question` says whether passages are read together with their question where the layout does that. With
    `held_out` questions, whose pool `passages` must hold, the model that is saved is the best of those validated.
    """
    check(load_settings(start), settings)
    model = BiEncoder.load(start)
    set_dropout(model, settings.dropout, settings.attention_dropout)
    model.encode_again = settings.chunk is not None
    if settings.gradient_checkpointing:
        model.checkpoint_activations()
    latest = context.checkpoints.latest() if context.checkpoints is not None else None
    with tempfile.TemporaryDirectory(prefix="training-", dir=scratch()) as folder:
        arguments = training_arguments(settings, stream, Path(folder), context.events)
        check_same_start(latest)
        collator = Collator(
            model.layout,
            model.tokenizer.pad_token_id,
            passages,
            settings,
            matching,
            with_question,
            GROUP_COST[arguments.device.type],
            arguments.device.type == "cpu" and model.prepare_packing(),
        )
        first, validating = arguments.process_index == 0, None
        if held_out is not None:
            validation = Validation(model, held_out, passages, settings, arguments.device) if first else None
            validating = Validating(validation, settings, context.events, Path(folder), latest)
        trainer = BiEncoderTrainer(
            model, stream, collator, arguments, context.events, context.checkpoints, validating
        )
        with half_products(arguments.device, arguments.bf16), within_gpu_memory(_memory_hint(settings)):
            trainer.train(resume_from_checkpoint=None if latest is None else str(latest))
        if first and validating is not None:
            validating.hand_on(context.output("model"))
        elif first:
            model.cpu().save(context.output("model"))


def _memory_hint(settings: Train) -> str:
    """Returns what to set so that the same training takes less memory of a GPU."""
    if settings.chunk is None:
        return "set train.chunk, such as to 64 sequences, which changes the time and not the result"
    ways = [f"train.chunk below {settings.chunk}"] if settings.chunk > 1 else []
    ways += [] if settings.gradient_checkpointing else ["train.gradient_checkpointing=true"]
    return f"set {' or '.join(ways or ['a smaller model.passage_length'])}"


class TrainingData(NamedTuple):
    """The data of a training."""

    stream: QuestionStream
    passages: dict[str, Passage]
    """All positives, all pools of negatives, and the pool of the validation, by id."""
    held_out: HeldOut | None
    """The questions of the validation, if there is one."""


def training_data(settings: Train, context: StepContext) -> TrainingData:
    """Returns the questions to train on and those to validate on, with their passages.

    `train.positive_passage` chooses among the positives that the corpus holds. A question without any is dropped and
    counted. Positives that mining found come after the positives of the question itself. Raises InputError where no
    question is left.
    """
    negatives = context.optional_input("negatives")
    source, corpus = context.input("questions").path, context.input("passages").path
    all_questions = read_questions(source)
    all_questions, held_out = _held_out(settings, all_questions, negatives, corpus, context)
    if negatives is not None:
        all_questions = with_found_positives(all_questions, read_positives(negatives.path))
    in_corpus = ids_in(corpus, {name for question in all_questions for name in question.positive_ids})
    questions: list[Question] = []
    positives: list[list[str]] = []
    dropped = 0
    for question in all_questions:
        present = [name for name in question.positive_ids if name in in_corpus]
        if not present:
            dropped += 1
        else:
            questions.append(question)
            positives.append(present[:1] if settings.positive_passage == "first" else present)
    if not questions:
        raise InputError(f"{source}: no question has its positive passage in the corpus")
    pool = _pool(negatives, questions) if settings.negatives else {}
    stream = QuestionStream(questions, positives, pool, settings, _teacher(settings, negatives))
    if stream.batch_size < settings.batch_size:
        context.events.warning(
            f"train.batch_size {settings.batch_size}: there is no more than {counted(len(questions), 'question')}, so batches have {len(questions):,}"
        )
    hard = [{id_ for ids in pool.get(question.qid, {}).values() for id_ in ids} for question in questions]
    short_of_negatives = sum(len(ids) < settings.negatives for ids in hard)
    if settings.negatives and short_of_negatives:
        context.events.warning(
            f"fewer than {counted(settings.negatives, 'hard negative')} for {short_of_negatives:,} of {counted(len(questions), 'question')}"
        )
    for name, value in (
        ("questions", len(questions)),
        ("dropped_questions", dropped),
        ("steps", stream.steps),
        ("steps_per_epoch", stream.steps_per_epoch),
        ("questions_short_of_negatives", short_of_negatives),
    ):
        context.events.fact(name, value)
    for source, count in Counter(s for sources in pool.values() for s, ids in sources.items() if ids).items():
        context.events.fact(f"questions_with_{source}_negatives", count)
    needed = {name for names in positives for name in names}.union(*hard, held_out.pool if held_out else ())
    return TrainingData(stream, PassageLookup(corpus).passages(needed), held_out)


def _held_out(
    settings: Train, questions: list[Question], negatives: Staged | None, corpus: Path, context: StepContext
) -> tuple[list[Question], HeldOut | None]:
    """The questions to train on, those without a positive in the corpus among them, and the ones held out of them."""
    if settings.validate_steps is None:
        return questions, None
    in_corpus = ids_in(corpus, {name for question in questions for name in question.positive_ids})
    gold = {q.qid: [name for name in q.positive_ids if name in in_corpus] for q in questions}
    without = [question for question in questions if not gold[question.qid]]
    known = [question for question in questions if gold[question.qid]]
    training, held = hold_out(known, gold, settings.validation_questions, settings.seed)
    if len(held) < settings.validation_questions:
        context.events.warning(
            f"train.validation_questions {settings.validation_questions}: only {len(held):,} of {counted(len(known), 'question')} "
            "held out, so that most are left to train on"
        )
    ids = (name for batch in read_tables(corpus, ["id"]) for name in batch.column("id").to_pylist())
    pool = pool_of(held, gold, _pool(negatives, held), ids, settings)
    for name, value in (
        ("validation_questions", len(held)),
        ("validation_passages", len(pool)),
        ("questions_about_validation_passages", len(known) - len(training) - len(held)),
    ):
        context.events.fact(name, value)
    return training + without, HeldOut(held, gold, pool)


def with_found_positives(questions: Iterable[Question], found: Mapping[str, list[str]]) -> list[Question]:
    """Returns the questions with the positives that mining `found` added after their own, so that none becomes a negative.

    The offsets of answers refer to the first positive of the question itself; a question without one loses them.
    """
    extended = []
    for question in questions:
        if more := found.get(question.qid):
            positives = tuple(dict.fromkeys([*question.positive_ids, *more]))
            starts = question.answer_starts if question.positive_ids else None
            question = replace(question, answer_starts=starts, positive_ids=positives)
        extended.append(question)
    return extended


def _teacher(settings: Train, negatives: Staged | None) -> Mapping[str, Mapping[str, float]] | None:
    """A cross-encoder's logits by question and passage, if the model is to learn from them."""
    if not settings.distill_weight:
        return None
    if negatives is None:
        raise InputError("train.distill_weight: without negatives there is nothing to distil; set it to 0")
    return read_teacher(negatives.path)


def _pool(negatives: Staged | None, questions: list[Question]) -> Pool:
    """Hard negatives by question id and source, without the question's positives, which a file of the user's may contain."""
    if negatives is None:
        return {}
    pool = read_negatives(negatives.path)
    return {
        question.qid: {
            source: [id_ for id_ in ids if id_ not in question.positive_ids]
            for source, ids in pool.get(question.qid, {}).items()
        }
        for question in questions
    }
