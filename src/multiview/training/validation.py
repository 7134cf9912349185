"""Validation while a model trains: held-out questions against a pool of passages, and the best model so far."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, distributed
from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from multiview import metric_names
from multiview.config import Train
from multiview.data.passages import Passage
from multiview.errors import InputError
from multiview.evaluation.analyses.matrices import mean_cosines, off_diagonal
from multiview.model.batch import Batch, Groups, encode_groups, make_groups, to_device
from multiview.model.devices import HALF
from multiview.model.encoder import BiEncoder
from multiview.model.layouts.base import kept_views
from multiview.steps.events import Events
from multiview.training.batches import locate_views
from multiview.training.data import ValidationSet

SEQUENCES_PER_BATCH = 32
"""Sequences per batch, which are of similar length."""
ITEMS_AT_ONCE = 256
"""Questions that are ranked at once."""
BEST_MODEL_FOLDER = "best"
STATE_FILE = "validation.json"
"""The best model so far and the state of the validation, in a checkpoint."""


class Validation:
    """Ranks held-out questions with a model while it trains; neither its weights nor any random state change.

    Passages are read without queries and without their padding views, in the precision of training. All sequences are
    laid out once, so two validations of equal weights give equal figures on one machine.
    """

    def __init__(
        self,
        model: BiEncoder,
        held_out: ValidationSet,
        passages: Mapping[str, Passage],
        settings: Train,
        device: torch.device,
    ) -> None:
        self.model, self._settings, self._device = model, settings, device
        layout, pad_id = model.layout, model.tokenizer.pad_token_id
        sequences = [layout.passage(passages[id_]) for id_ in held_out.pool]
        rows, views = locate_views(sequences, layout.max_views)
        # A passage without any text has padding views alone.
        kept = [kept_views(each, False) or kept_views(each, True) for each in views]
        self._rows = torch.tensor([row[i] for row, chosen in zip(rows, kept, strict=True) for i in chosen])
        self._numbers = np.array([i for chosen in kept for i in chosen])
        self._counts = np.array([len(chosen) for chosen in kept])
        self._starts = np.cumsum(self._counts) - self._counts
        self._passages = make_groups(
            [sequence for each in sequences for sequence in each],
            pad_id,
            layout.max_views,
            most=SEQUENCES_PER_BATCH,
        )
        asked = [layout.question(question.question) for question in held_out.questions]
        self._questions = make_groups(asked, pad_id, 1, most=SEQUENCES_PER_BATCH)
        row_of = {id_: row for row, id_ in enumerate(held_out.pool)}
        self._gold = [[row_of[id_] for id_ in held_out.gold[q.qid]] for q in held_out.questions]

    def figures(self) -> dict[str, float]:
        """Returns recall of gold passages at 1, MRR@10, the mean rank of the first gold passage (DPR) and, for several
        views, the share of questions whose best gold passage each view wins, and the mean cosine within a passage."""
        with self._as_in_inference():
            questions = self._encode(self.model.encode_questions, self._questions)
            vectors = self._encode(self.model.encode_passages, self._passages)
        views = vectors.flatten(0, 1)[self._rows.to(vectors.device)].float()
        figures = self._ranking(questions.float(), views)
        if self._numbers.any():
            cosines = mean_cosines(views.cpu().numpy(), self._counts)
            if of_pairs := off_diagonal(metric_names.VIEW_COSINE, cosines):
                figures[metric_names.VIEW_COSINE] = float(of_pairs[metric_names.VIEW_COSINE])
        return figures

    def _ranking(self, questions: Tensor, views: Tensor) -> dict[str, float]:
        asked = len(self._gold)
        first, winners = np.empty(asked, np.int64), np.empty(asked, np.int64)
        for start in range(0, asked, ITEMS_AT_ONCE):
            of_views = (questions[start : start + ITEMS_AT_ONCE] @ views.T).cpu().numpy()
            scores = np.maximum.reduceat(of_views, self._starts, axis=1)
            for position, (views_of, of) in enumerate(zip(of_views, scores, strict=True), start):
                gold = max(self._gold[position], key=lambda passage: (of[passage], -passage))
                # Of passages that tie, the smaller id comes first, as in a search; NaN counts against the gold one.
                better = (~(of <= of[gold])).sum() + (of[:gold] == of[gold]).sum()
                first[position] = 1 + better
                in_gold = slice(self._starts[gold], self._starts[gold] + self._counts[gold])
                winners[position] = self._numbers[in_gold][views_of[in_gold].argmax()]
        positives = np.array([len(set(gold)) for gold in self._gold])
        figures = {
            metric_names.recall_at(1): float(((first == 1) / positives).mean()),
            metric_names.MRR: float(np.where(first <= metric_names.RANKING_CUT, 1 / first, 0).mean()),
            metric_names.AVERAGE_RANK: float(first.mean()),
        }
        if self._numbers.any():
            wins = np.bincount(winners, minlength=int(self._numbers.max()) + 1) / len(winners)
            figures |= {metric_names.view_wins(view): float(share) for view, share in enumerate(wins)}
        return figures

    def _encode(self, encode: Callable[[Batch], Tensor], groups: Groups) -> Tensor:
        return encode_groups(lambda batch: encode(to_device(batch, self._device)), groups)

    @contextmanager
    def _as_in_inference(self) -> Iterator[None]:
        """Without dropout and gradients; random states are restored, as if nothing had been encoded."""
        half, training = HALF.get(self._settings.precision), self.model.training
        devices = [self._device] if self._device.type == "cuda" else []
        self.model.eval()
        try:
            with (
                torch.random.fork_rng(devices),
                torch.no_grad(),
                torch.autocast(self._device.type, half, enabled=half is not None),
            ):
                yield
        finally:
            self.model.train(training)


def check_finite(model: torch.nn.Module, way_out: str, training: str = "the training") -> None:
    """Raises InputError where a model has a weight that is NaN or infinite."""
    if not all(weight.isfinite().all() for weight in model.parameters()):
        raise InputError(f"{training} diverged: some weights are NaN or infinite; {way_out}")


def diverged(settings: Train) -> str:
    """Returns what to do where a training diverges."""
    return f"lower train.learning_rate={settings.learning_rate:g}, or raise train.warmup_steps"


@dataclass
class ValidationState:
    """The figures before training and those of the best model so far, as a checkpoint keeps them."""

    start: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    best_step: int = 0
    without_better: int = 0
    """Number of validations since the best one."""


class ValidationCallback(TrainerCallback):
    """Validates every `train.validate_steps` steps and after the last, keeps the best model, and stops by `train.patience`.

    The best model has the highest MRR@10, the earliest of equals; that before the first step is measured, but is never
    the best. Every checkpoint holds the best so far. The first process validates; the others wait for its decision.
    """

    def __init__(
        self,
        validation: Validation | None,
        settings: Train,
        events: Events,
        folder: Path,
        resumed: Path | None,
    ) -> None:
        """`validation` is None in all processes but the first; `folder` is for the best model, and `resumed` the checkpoint
        that training continues from."""
        self._validation, self._settings, self._events = validation, settings, events
        self._folder = folder / BEST_MODEL_FOLDER
        self._state = ValidationState()
        self._stopped: int | None = None
        if resumed is not None and validation is not None:
            self._state = ValidationState(**json.loads((resumed / STATE_FILE).read_text()))
            if self._state.best:
                shutil.copytree(resumed / BEST_MODEL_FOLDER, self._folder)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        if self._validation is not None and not self._state.start:
            self._state.start = self._measure(self._validation, 0)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        step, last = state.global_step, state.global_step >= state.max_steps
        assert self._settings.validate_steps is not None
        if step % self._settings.validate_steps and not last:
            return
        if self._validation is not None:
            self._compare(self._validation, step)
        if self._exhausted() and not last:
            self._stopped = step
            control.should_training_stop = True

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        if self._validation is None:
            return
        checkpoint = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        if self._state.best:
            shutil.copytree(self._folder, checkpoint / BEST_MODEL_FOLDER)
        (checkpoint / STATE_FILE).write_text(json.dumps(asdict(self._state)))

    def hand_on(self, output: Path) -> None:
        """Copies the best model to `output`, and reports its step and figures; only in the first process."""
        shutil.copytree(self._folder, output, dirs_exist_ok=True)
        self._events.fact(best_step=self._state.best_step, best_validation=self._state.best)
        if self._stopped is not None:
            self._events.fact(stopped_early_at=self._stopped)
        best, start = self._state.best[metric_names.MRR], self._state.start[metric_names.MRR]
        if best < start:
            self._events.warning(
                f"no validation is as good as that before training: MRR@10 {best:.3f} after step {self._state.best_step}, "
                f"{start:.3f} before: train longer, or with a lower train.learning_rate"
            )

    def _measure(self, validation: Validation, step: int) -> dict[str, float]:
        figures = validation.figures()
        for name, value in figures.items():
            self._events.metric(metric_names.of_validation(name), value, step=step)
        return figures

    def _compare(self, validation: Validation, step: int) -> None:
        check_finite(validation.model, diverged(self._settings))
        figures = self._measure(validation, step)
        self._state.without_better += 1
        if not self._state.best or figures[metric_names.MRR] > self._state.best[metric_names.MRR]:
            self._state.best, self._state.best_step, self._state.without_better = figures, step, 0
            shutil.rmtree(self._folder, ignore_errors=True)
            validation.model.save(self._folder)

    def _exhausted(self) -> bool:
        """Whether patience has come to an end, which the first process decides."""
        patience = self._settings.patience
        exhausted = patience is not None and self._state.without_better >= patience
        if not distributed.is_initialized():
            return exhausted
        decision = [exhausted]
        distributed.broadcast_object_list(decision)
        return decision[0]
