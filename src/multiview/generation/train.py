"""Fine-tuning a query generator: gold passages in, the training questions asked of them out."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments, TrainerCallback
from transformers.trainer_callback import PrinterCallback, ProgressCallback

from multiview.config import Generation, GeneratorTraining
from multiview.data.passages import Passage, PassageLookup
from multiview.data.questions import read_questions
from multiview.errors import InputError
from multiview.generation.generators import check_lengths, input_text, load, save
from multiview.steps.context import StepContext
from multiview.steps.events import Events
from multiview.training.trainer import ReportingCallback


def train_generator(context: StepContext) -> None:
    """Step: teach the generator `base` to ask the training `questions` of their gold `passages`, into `generator`.

    Reads settings.generation. A run that was killed goes on from `checkpoints.latest()` and ends with the very
    weights that it would have had.
    """
    pairs = gold_pairs(context.input("passages").path, context.input("questions").path, context.events)
    model, tokenizer = load(context.input("base").path)
    check_lengths(model, context.settings.generation)
    latest = context.checkpoints.latest() if context.checkpoints is not None else None
    with tempfile.TemporaryDirectory(prefix="training-") as folder:
        trainer = Seq2SeqTrainer(
            model=model,
            args=training_arguments(context.settings.generation.train, Path(folder)),
            train_dataset=Pairs(pairs, tokenizer, context.settings.generation),
            data_collator=DataCollatorForSeq2Seq(tokenizer, model),
            callbacks=[ReportingCallback(context.events, context.checkpoints), LossCallback(context.events)],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.remove_callback(ProgressCallback)
        trainer.train(resume_from_checkpoint=None if latest is None else str(latest))
    save(model.cpu(), tokenizer, context.output("generator"))


def gold_pairs(passages: Path, questions: Path, events: Events) -> list[tuple[Passage, str]]:
    """Each question with its first gold passage, in the questions' order; those without one are counted.

    InputError when there is no pair, or a gold passage is not in the corpus.
    """
    asked = read_questions(questions)
    golden = [question for question in asked if question.positive_ids]
    if not golden:
        raise InputError(f"{questions}: no question has a gold passage, so there is nothing to learn to ask")
    texts = PassageLookup(passages).passages({question.positive_ids[0] for question in golden})
    events.fact("pairs", len(golden))
    events.fact("dropped_questions", len(asked) - len(golden))
    return [(texts[question.positive_ids[0]], question.question) for question in golden]


class Pairs(Dataset):
    """Passages and questions as tokens, made when they are asked for."""

    def __init__(self, pairs: Sequence[tuple[Passage, str]], tokenizer: Any, settings: Generation) -> None:
        self._pairs, self._tokenizer, self._settings = pairs, tokenizer, settings

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, index: int) -> dict[str, list[int]]:
        passage, question = self._pairs[index]
        settings = self._settings
        text = input_text(passage, settings)
        read = self._tokenizer(text, truncation=True, max_length=settings.input_length)
        asked = self._tokenizer(text_target=question, truncation=True, max_length=settings.max_length)
        return {
            "input_ids": read["input_ids"],
            "attention_mask": read["attention_mask"],
            "labels": asked["input_ids"],
        }


class LossCallback(TrainerCallback):
    """The loss, the learning rate and the gradient's norm, every `log_steps`; the summary at the end is not told."""

    def __init__(self, events: Events) -> None:
        self._events = events

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        if "loss" in logs:
            for name, value in logs.items():
                self._events.metric(name, float(value), step=state.global_step)


def training_arguments(settings: GeneratorTraining, folder: Path) -> Seq2SeqTrainingArguments:
    """Our settings in the Trainer's words."""
    gpu = torch.cuda.is_available()
    arguments = Seq2SeqTrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=settings.batch_size,
        num_train_epochs=settings.epochs,
        max_steps=settings.max_steps or -1,
        learning_rate=settings.learning_rate,
        lr_scheduler_type="linear",
        warmup_steps=settings.warmup_ratio,  # below 1 it is a share of all steps
        max_grad_norm=settings.max_grad_norm,
        optim="adamw_torch_fused",
        bf16=settings.precision == "bfloat16",
        use_cpu=not gpu,
        seed=settings.seed,
        remove_unused_columns=False,
        dataloader_pin_memory=gpu,
        logging_strategy="steps",
        logging_steps=settings.log_steps,
        logging_nan_inf_filter=False,
        save_strategy="steps",
        save_steps=settings.checkpoint_steps,
        save_total_limit=1,
        disable_tqdm=True,
        report_to="none",
        log_level="error",
    )
    # One process drives one GPU, as in the training of encoders: the batch is what it is set to.
    arguments._n_gpu = min(arguments.n_gpu, 1)
    return arguments
