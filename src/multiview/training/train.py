"""The steps `train` and `warm-up`: a trained model from another one, on questions or on generated queries."""

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from multiview.artifacts.scratch import scratch
from multiview.config import Train
from multiview.model.base_model.loading import unknown_text
from multiview.model.devices import within_gpu_memory
from multiview.model.dropout import set_dropout
from multiview.model.encoder import BiEncoder
from multiview.model.layouts import check
from multiview.model.lora import check_peft
from multiview.model.systems import load_settings
from multiview.steps.context import StepContext
from multiview.training.all_gather import check_same_start
from multiview.training.batches import GROUP_COST, Collator
from multiview.training.data import TrainingData, training_data, warm_up_data
from multiview.training.processes import on_processes, processes_here
from multiview.training.trainer import BiEncoderTrainer, training_arguments
from multiview.training.validation import Validation, ValidationCallback, check_finite, diverged


def train(context: StepContext) -> None:
    """Step: train the model `start` on `questions` with hard `negatives` (may be absent) from `passages`, into `model`.

    With `train.validate_steps` the output is the best model that a validation saw, else the last one. A run that was
    killed continues from its last checkpoint and ends with exactly the weights of an uninterrupted run. Raises
    InputError for settings that do not suit the model.
    """
    fit_on_processes(training_data, context)


def warm_up(context: StepContext) -> None:
    """Step: train the model `start` on the generated `queries` of `passages`, into `model`.

    An epoch trains on every passage once, but those of an incomplete last batch, with its next query each time; the
    only negatives are the other passages of the batch (Dual Cross Encoder 3.5). Passages without queries are skipped
    and counted. Raises InputError where no passage has a query.
    """
    fit_on_processes(warm_up_data, context)


def fit_on_processes(prepare: Callable[[StepContext, Path], TrainingData], context: StepContext) -> None:
    """Calls `prepare` once, with a scratch folder for files, and runs `fit` on its data in each training process."""
    # Both raise before the data are read.
    processes_here(context.settings.train)
    check_peft(context.settings.train)
    with tempfile.TemporaryDirectory(prefix="passages-", dir=scratch()) as folder:
        data = prepare(context, Path(folder))
        stream = data.stream
        context.events.fact(
            questions=stream.count, steps=stream.steps, steps_per_epoch=stream.steps_per_epoch
        )
        temperature = context.settings.train.temperature
        by_epoch = temperature.schedule == "annealed" and temperature.clock == "epoch"
        if by_epoch and stream.steps <= stream.steps_per_epoch:
            context.events.warning(
                "train.temperature: annealed by the epoch, it stays 1 in a single one; temperature.clock=progress anneals it"
            )
        on_processes(partial(fit, data), context)


def fit(data: TrainingData, context: StepContext) -> None:
    """Trains the model `start` on `data` and saves it as the output `model`; runs in each process of the training.

    With held-out questions, the saved model is the best of those validated.
    """
    settings, stream, held_out = context.settings.train, data.stream, data.held_out
    start = context.input("start").path
    check(load_settings(start), settings)
    model = BiEncoder.load(start)
    if not set_dropout(model, settings.dropout, settings.attention_dropout) and settings.dropout:
        context.events.warning(
            f"train.dropout {settings.dropout}: the base drops no hidden states, so it has no effect on them"
        )
    texts = (passage.text for passage in data.passages.values())
    if gap := unknown_text(model.tokenizer, model.settings.base, texts):
        context.events.warning(gap)
    if settings.lora_rank:
        model.add_adapters(settings.lora_rank, settings.seed)
    model.encode_again = settings.chunk is not None
    if settings.gradient_checkpointing:
        model.checkpoint_activations()
    latest = context.checkpoints.latest()
    with tempfile.TemporaryDirectory(prefix="training-", dir=scratch()) as folder:
        arguments = training_arguments(settings, stream, Path(folder), context.events)
        check_same_start(latest)
        collator = Collator(
            model.layout,
            model.tokenizer.pad_token_id,
            data.passages,
            settings,
            data.equal,
            data.matching,
            data.with_question,
            GROUP_COST[arguments.device.type],
        )
        first, validating, device = arguments.process_index == 0, None, arguments.device
        if held_out is not None:
            validation = Validation(model, held_out, data.passages, settings, device) if first else None
            validating = ValidationCallback(validation, settings, context.events, Path(folder), latest)
        with within_gpu_memory(_memory_hint(settings)):
            trainer = BiEncoderTrainer(
                model, stream, collator, arguments, context.events, context.checkpoints, validating
            )
            trainer.train(resume_from_checkpoint=None if latest is None else str(latest))
        if first and validating is not None:
            validating.hand_on(context.output("model"))
        elif first:
            check_finite(model, diverged(settings))
            model.cpu().save(context.output("model"))


def _memory_hint(settings: Train) -> str:
    """Returns what to set so that the same training takes less memory of a GPU."""
    if settings.chunk is None:
        return "set train.chunk, such as to 64 sequences, which takes longer and draws other dropout masks"
    ways = [f"train.chunk below {settings.chunk}"] if settings.chunk > 1 else []
    ways += [] if settings.gradient_checkpointing else ["train.gradient_checkpointing=true"]
    return f"set {' or '.join(ways or ['a smaller model.passage_length'])}"
