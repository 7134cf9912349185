"""Fine-tuning of a query generator: from gold passages to the training questions about them."""

import math
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import DataCollatorForSeq2Seq, PrinterCallback, Trainer

from multiview.artifacts.scratch import scratch
from multiview.config import Generation
from multiview.data.passages import Passage, PassageLookup
from multiview.data.questions import read_questions
from multiview.errors import InputError
from multiview.generation.generators import input_length, input_text, load, save
from multiview.model.devices import within_gpu_memory
from multiview.model.layouts.base import PreTrainedTokenizer
from multiview.steps.context import StepContext
from multiview.steps.events import Events
from multiview.training.trainer import ReportingCallback, shared_arguments
from multiview.training.validation import check_finite


def train_generator(context: StepContext) -> None:
    """Step: trains the generator `base` to write the training `questions` about their gold `passages`, as `generator`.

    A run that was killed continues from its last checkpoint and ends with the weights of an uninterrupted run. Raises
    InputError for a training that diverged.
    """
    pairs = gold_pairs(context.input("passages").path, context.input("questions").path, context.events)
    model, tokenizer = load(context.input("base").path)
    longest = input_length(model, context.settings.generation)
    padded = DataCollatorForSeq2Seq(tokenizer, model)

    def batch_of(pairs: list[tuple[Passage, str]]) -> Any:
        how = (tokenizer, context.settings.generation, longest)
        return padded([tokens(passage, question, *how) for passage, question in pairs])

    latest = context.checkpoints.latest()
    settings = context.settings.generation.train
    with tempfile.TemporaryDirectory(prefix="training-", dir=scratch()) as folder:
        arguments = shared_arguments(
            settings,
            Path(folder),
            per_device_train_batch_size=settings.batch_size,
            num_train_epochs=settings.epochs,
            dataloader_pin_memory=torch.cuda.is_available(),
        )
        if settings.max_steps:  # which the library would take in place of the epochs
            steps = settings.epochs * math.ceil(len(pairs) / arguments.train_batch_size)
            arguments.max_steps = min(math.ceil(steps), settings.max_steps)
        with within_gpu_memory(f"set generation.train.batch_size below {settings.batch_size}"):
            trainer = Trainer(
                model=model,
                args=arguments,
                train_dataset=pairs,  # pyright: ignore[reportArgumentType]
                data_collator=batch_of,
                callbacks=[ReportingCallback(context.events, context.checkpoints)],
            )
            trainer.remove_callback(PrinterCallback)
            trainer.train(resume_from_checkpoint=None if latest is None else str(latest))
    way_out = f"lower generation.train.learning_rate={settings.learning_rate:g}"
    check_finite(model, way_out, "the training of the generator")
    save(model.cpu(), tokenizer, context.output("generator"))


def gold_pairs(passages: Path, questions: Path, events: Events) -> list[tuple[Passage, str]]:
    """Returns (first gold passage, question) per question, in order; questions without a gold passage are counted.

    Raises InputError when there is no pair, or a gold passage is not in the corpus.
    """
    all_questions = read_questions(questions)
    with_gold = [question for question in all_questions if question.positive_ids]
    if not with_gold:
        raise InputError(f"{questions}: no question has a gold passage, so there is nothing to learn to ask")
    by_id = PassageLookup(passages).passages({question.positive_ids[0] for question in with_gold})
    events.fact(pairs=len(with_gold), dropped_questions=len(all_questions) - len(with_gold))
    return [(by_id[question.positive_ids[0]], question.question) for question in with_gold]


def tokens(
    passage: Passage, question: str, tokenizer: PreTrainedTokenizer, settings: Generation, longest: int
) -> dict[str, list[int]]:
    """Returns what the generator reads, up to `longest` tokens, and what it should write."""
    source = tokenizer(input_text(passage, settings), truncation=True, max_length=longest)
    target = tokenizer(text_target=question, truncation=True, max_length=settings.max_length)
    return {**{name: source[name] for name in ("input_ids", "attention_mask")}, "labels": target["input_ids"]}
