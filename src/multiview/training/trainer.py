"""transformers' Trainer with our loss and our order of questions, which reports to a step's events."""

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate.utils import recursively_apply
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_callback import PrinterCallback

from multiview import metric_names
from multiview.config import GeneratorTraining, Train
from multiview.data.questions import seeded_hash
from multiview.errors import InputError, counted
from multiview.model.batch import moved
from multiview.model.devices import workers
from multiview.model.encoder import BiEncoder
from multiview.model.loss import (
    contrastive_loss,
    distillation_loss,
    in_sequence_loss,
    nested_loss,
    temperature,
)
from multiview.steps.checkpoints import NO_CHECKPOINTS, Checkpoints
from multiview.steps.events import Events
from multiview.training.all_gather import whole_batch
from multiview.training.batches import Collator, TrainingBatch
from multiview.training.example_order import Stream
from multiview.training.validation import diverged

LOG_STEPS = 10
"""Steps between logged losses."""
ADAM_EPSILON = 1e-8
"""Adam's epsilon (DPR)."""
DISTILL_TEMPERATURE = 1.0
"""Temperature of the cross-encoder's logits in distillation; the model's scores have that of the loss (ours)."""


class BiEncoderTrainer(Trainer):
    """Trains a `BiEncoder`; reports the parts of the loss every `LOG_STEPS` steps, as means over these steps."""

    def __init__(
        self,
        model: BiEncoder,
        stream: Stream,
        collator: Collator,
        arguments: TrainingArguments,
        events: Events,
        checkpoints: Checkpoints = NO_CHECKPOINTS,
        validating: TrainerCallback | None = None,
    ) -> None:
        """`validating` may end the training, and adds its files to a checkpoint before that is published."""
        first = [] if validating is None else [validating]
        super().__init__(
            model=model,
            args=arguments,
            train_dataset=stream,  # pyright: ignore[reportArgumentType]
            data_collator=partial(_as_arrays, collator),
            callbacks=[*first, ReportingCallback(events, checkpoints)],
        )
        self.remove_callback(PrinterCallback)
        self.stream = stream
        self.collator = collator
        self.settings: Train = stream.settings
        self._events = events
        self._parts: dict[str, list[torch.Tensor]] = defaultdict(list)
        self._temperature = 1.0

    def compute_loss(
        self,
        model: torch.nn.Module,
        inputs: Any,
        return_outputs: bool = False,
        num_items_in_batch: Any = None,
    ) -> Any:
        """Returns the loss of one `TrainingBatch`, `inputs`, at this step's temperature."""
        batch: TrainingBatch = inputs
        questions, vectors = model(batch["questions"], batch["passages"])
        # Scored outside autocast: the vectors are float32, and half precision cannot distinguish views.
        with torch.autocast(questions.device.type, enabled=False):
            questions, rows, batch = whole_batch(questions, vectors, batch)
            scores = (questions.float() @ rows.float().T)[:, batch["view_index"]]
        step, stream = self.state.global_step, self.stream
        self._temperature = temperature(self.settings.temperature, step, stream.steps_per_epoch, stream.steps)
        contrast = nested_loss if self.collator.layout.nested else contrastive_loss
        loss, parts = contrast(
            scores,
            batch["view_mask"],
            batch["positive"],
            batch["excluded"],
            self._temperature,
            real_views=batch["real_views"],
            answer_views=batch["answer_views"],
            positive_mode=self.settings.positive,
            local_weight=self.settings.local_weight,
        )
        if self.settings.in_sequence_weight:
            in_sequence = in_sequence_loss(
                scores, batch["positive"], batch["answer_views"], batch["other_views"], self._temperature
            )
            loss = loss + self.settings.in_sequence_weight * in_sequence
            self._parts["in_sequence_loss"].append(in_sequence.detach())
        if "teacher" in batch:
            divergence = distillation_loss(
                scores, batch["view_mask"], batch["teacher"], self._temperature, DISTILL_TEMPERATURE
            )
            loss = loss + self.settings.distill_weight * divergence
            self._parts["distill_loss"].append(divergence.detach())
        self._parts["contrastive_loss"].append(parts.contrastive)
        self._parts["local_loss"].append(parts.local)
        self._parts["in_batch_accuracy"].append(parts.correct)
        if self.settings.positive != "max":
            self._parts["fallback_share"].append(parts.fallback)
        for view, share in enumerate(parts.wins):
            self._parts[metric_names.view_wins(view)].append(share)
        return (loss, {}) if return_outputs else loss

    def training_step(self, model: torch.nn.Module, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        """Forward and backward pass of one `TrainingBatch` of arrays, `inputs`.

        With several processes, each seeds every step: dropout differs between them, and a resumed run repeats it.
        """
        if self.args.world_size > 1:
            name = f"{self.state.global_step}:{self.args.process_index}"
            torch.manual_seed(int(seeded_hash(self.settings.seed, name)[:15], 16))
        return super().training_step(model, _on_device(inputs, self.args.device), num_items_in_batch)

    def get_train_dataloader(self) -> DataLoader:
        """A loader of the stream's steps: of whole steps, or of this process's share of each."""
        if self.args.world_size == 1:
            return super().get_train_dataloader()
        # The Trainer's shards would not do: the masks of negatives need all of the step's examples.
        share = partial(self.collator.share, rank=self.args.process_index, processes=self.args.world_size)
        return DataLoader(
            self.stream,  # pyright: ignore[reportArgumentType]
            batch_size=self.stream.batch_size,
            collate_fn=partial(_as_arrays, share),
            num_workers=self.args.dataloader_num_workers,
            persistent_workers=self.args.dataloader_persistent_workers,
        )

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Reports the means of the losses and shares since the last report; the summary at the end is not reported.

        Raises InputError where the loss is NaN or infinite.
        """
        if "loss" not in logs:
            return
        step = self.state.global_step
        steps = len(self._parts["contrastive_loss"])
        means = {name: torch.stack(values).sum().item() / steps for name, values in self._parts.items()}
        self._parts.clear()
        if not math.isfinite(means["contrastive_loss"]):
            raise InputError(
                f"the training diverged: the loss is NaN or infinite by step {step}; {diverged(self.settings)}"
            )
        epoch = step / self.stream.steps_per_epoch
        for name, value in {**logs, **means, "temperature": self._temperature, "epoch": epoch}.items():
            self._events.metric(name, float(value), step=step)


def _on_device(batch: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Returns a batch with tensors on `device` in place of arrays."""
    return recursively_apply(
        lambda array: moved(torch.from_numpy(array), device),
        batch,
        test_type=lambda value: isinstance(value, np.ndarray),
    )


def _as_arrays(collate: Callable[[Any], TrainingBatch], examples: Any) -> Any:
    """Returns a batch as arrays. They come from another process in one message, where each tensor would take a file
    descriptor that both processes stop for."""
    return recursively_apply(Tensor.numpy, collate(examples))


@dataclass(frozen=True)
class ReportingCallback(TrainerCallback):
    """Reports progress after each step and what the Trainer logs, and publishes checkpoints."""

    events: Events
    checkpoints: Checkpoints

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        # A checkpoint holds the interval of the training that wrote it.
        state.save_steps = int(args.save_steps)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        self.events.progress(state.global_step, state.max_steps, "steps")
        if control.should_training_stop:
            # The trained model is about to be written; nothing will resume from this step.
            control.should_save = False
            control.should_log = True
        # Logged at each checkpoint, so that a resumed training reports means over the very same steps.
        control.should_log |= control.should_save

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **more: Any
    ) -> None:
        if "loss" in more["logs"]:  # the summary at the end has none
            for name, value in more["logs"].items():
                self.events.metric(name, float(value), step=state.global_step)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        if state.is_world_process_zero:
            folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
            self.checkpoints.publish(state.global_step, folder)


class ProcessArguments(TrainingArguments):
    """Arguments of a process that drives one GPU: transformers' DataParallel over several would split up the in-batch
    negatives and make the batch larger than the one that is set."""

    @property
    def n_gpu(self) -> int:
        """Number of GPUs of this process."""
        return min(super().n_gpu, 1)


def shared_arguments(settings: Train | GeneratorTraining, folder: Path, **own: Any) -> ProcessArguments:
    """Returns arguments for our settings; `own` are those of one kind of training alone."""
    has_gpu = torch.cuda.is_available()
    return ProcessArguments(
        output_dir=str(folder),
        learning_rate=settings.learning_rate,
        lr_scheduler_type="linear",
        optim="adamw_torch_fused",
        bf16=settings.precision == "bfloat16",
        use_cpu=not has_gpu,
        seed=settings.seed,
        remove_unused_columns=False,
        logging_strategy="steps",
        logging_steps=LOG_STEPS,
        logging_nan_inf_filter=False,
        save_strategy="steps",
        save_steps=settings.checkpoint_steps,
        save_total_limit=1,
        disable_tqdm=True,
        report_to="none",
        log_level="error",
        **own,
    )


def training_arguments(settings: Train, stream: Stream, folder: Path, events: Events) -> TrainingArguments:
    """The Trainer's arguments for our settings. Raises InputError for a precision that this machine lacks."""
    if settings.precision == "float16" and not torch.cuda.is_available():
        raise InputError("train.precision: float16 needs a GPU; use bfloat16 or float32")
    ahead = workers(torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    arguments = shared_arguments(
        settings,
        folder,
        per_device_train_batch_size=stream.batch_size,  # for one process; several processes use `get_train_dataloader`
        max_steps=stream.steps,
        warmup_steps=warmup_steps(settings, stream.steps, events),
        weight_decay=settings.weight_decay,
        max_grad_norm=settings.max_grad_norm,
        adam_epsilon=ADAM_EPSILON,
        fp16=settings.precision == "float16",
        train_sampling_strategy="sequential",
        dataloader_num_workers=ahead,
        dataloader_persistent_workers=ahead > 0,
        dataloader_pin_memory=False,  # `_on_device` pins
        ddp_find_unused_parameters=False,
        ddp_static_graph=True,  # for bases with parameters that have no gradient, such as Longformer's
    )
    check_processes(arguments.world_size, stream.batch_size)
    return arguments


def check_processes(processes: int, questions: int) -> None:
    """Raises InputError for more processes than a batch has questions: some would have nothing to do."""
    if processes > questions:
        raise InputError(
            f"train.processes: {counted(processes, 'process', 'processes')} in all for batches of {counted(questions, 'question')}; set fewer"
        )


def warmup_steps(settings: Train, steps: int, events: Events) -> int:
    """Number of steps of linear warm-up: `train.warmup_steps`, or `train.warmup_ratio` of all `steps` where that is not
    set or, with a warning, where it is more than half of them."""
    by_ratio = round(settings.warmup_ratio * steps)
    if settings.warmup_steps is None:
        return by_ratio
    if 2 * settings.warmup_steps > steps:
        events.warning(
            f"train.warmup_steps {settings.warmup_steps} is more than half of {counted(steps, 'step')}; warming up for {by_ratio}"
        )
        return by_ratio
    return settings.warmup_steps
