"""Rates of this machine, in the form of the table that `multiview plan` reads (src/multiview/estimates/rates.yaml).

    MULTIVIEW_DATA=data python -m benchmarks.rates

Real steps on SQuAD's passages, one thread, processor time: other programs disturb it little.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import typer
from transformers import AutoTokenizer, T5Config, T5ForConditionalGeneration

from benchmarks.index_kinds import views_of, write_embeddings
from benchmarks.squad import repeated
from benchmarks.table import squad_folder
from benchmarks.timing import chosen_cores, seconds_of
from benchmarks.training import BASE, task
from benchmarks.training import ours as train
from multiview import environment
from multiview.artifacts.staged import Recorded, Staged
from multiview.config import Bm25, Config, Encode, Generation, Index, Model, Train
from multiview.config.overrides import validate
from multiview.data.passages import read_passages, read_texts
from multiview.data.queries import iterate_queries, write_queries
from multiview.data.questions import read_questions
from multiview.data.sentences import tokenizer
from multiview.data.split import split
from multiview.encoding.encode import Encoder
from multiview.estimates.generation_costs import LONGEST_QUERY, T5_BASE, generation_flops
from multiview.estimates.model_shape import ModelShape
from multiview.evaluation.generated_queries import rouge_l_by_number, self_bleu
from multiview.generation.generate import QueryGenerator
from multiview.generation.generators import save
from multiview.index.build import build_index
from multiview.index.faiss_library import threads
from multiview.index.view_index import ViewIndex
from multiview.model.bases import staged_base
from multiview.model.encoder import BiEncoder
from multiview.model.layouts import Layout
from multiview.negatives.bm25 import Bm25Index
from multiview.negatives.filtering import answer_holding
from multiview.refresh.changes import match
from multiview.steps.context import StepContext
from multiview.steps.events import NoEvents

PASSAGES, QUESTIONS, ENCODED, GENERATED = 20_000, 1_000, 800, 8
QUERIES, COMPARED = 10, 50
REPEATED = 4
"""How often BM25's index holds each passage: among few passages, more than half of a search does not depend
on the number of passages."""
SHAPE = ModelShape(layers=6, width=384, inner=1536, vocabulary=30522, positions=512)
"""MiniLM's, which is `BASE`."""


def of_data(folder: Path) -> Iterator[tuple[str, float]]:
    """Split, BM25 and the search for answers in hits; `folder` holds the split's outputs afterwards."""
    data = squad_folder()
    source = folder / "passages.parquet"
    pq.write_table(pq.read_table(data / "passages.parquet").slice(0, PASSAGES), source)
    drawn = folder / "questions.parquet"
    asked = pq.read_table(data / "train.parquet")
    pq.write_table(asked.take(list(range(0, len(asked), len(asked) // QUESTIONS))), drawn)
    questions = {
        "source": str(drawn),
        "columns": {"positive_ids": "positive_passage_id"},
        "dev_limit": 100,
        "max_missing_gold": 1.0,
    }
    settings = validate({"corpus": {"source": str(source)}, "questions": questions})
    outputs = {name: folder / name for name in ("passages", "train_questions", "dev_questions")}
    for output in outputs.values():
        output.mkdir()
    context = StepContext(settings, {}, outputs, NoEvents())
    tokenizer()  # which imports NLTK
    taken = seconds_of(lambda: split(context))
    passages = outputs["passages"]
    words = sum(len(passage.text.split()) for passage in read_passages(passages))
    yield "split_words", words / taken
    with chosen_cores(2):  # sentences are split in other processes
        yield "read_words", words / seconds_of(lambda: split(context))
    asked = read_questions(outputs["train_questions"])
    texts = [question.question for question in asked]
    built: list[Bm25Index] = []
    many = repeated(list(read_passages(passages)), REPEATED * PASSAGES)
    begin = seconds_of(lambda: built.append(Bm25Index(iter(many), Bm25(), "english")))
    yield "bm25_words", REPEATED * words / begin
    searched = seconds_of(lambda: built[0].search(texts, 50))
    yield "bm25_scores", len(asked) * len(many) / searched
    once = np.arange(len(many)) < PASSAGES
    top = built[0].search(texts, 200, among=once)
    tested = seconds_of(
        lambda: answer_holding(top.passages, built[0].ids, read_texts(passages), asked, "string")
    )
    yield "answer_words", top.passages.size / tested * words / PASSAGES


def of_model(folder: Path) -> Iterator[tuple[str, float]]:
    """Tokenising and encoding with MiniLM, and training steps, in float32 and in bfloat16."""
    model = folder / "model"
    BiEncoder.create(Model(base=BASE, architecture="camvr", pooling="snippet", normalise=True)).save(model)
    encoder = Encoder(model, Encode(device="cpu"))
    passages = list(read_passages(folder / "passages"))[:ENCODED]
    sequences = []
    laid = seconds_of(lambda: sequences.extend((s, 0) for p in passages for s in encoder.layout.passage(p)))
    words = sum(len(passage.text.split()) for passage in passages)
    yield "tokenised_words", words / laid
    tokens = np.array([len(sequence.input_ids) for sequence, _ in sequences])
    yield "tokens_per_word", tokens.sum() / words
    work = SHAPE.forward_flops(int(tokens.sum()), float(tokens.mean()))
    for name, precision in (("encode_flops", "float32"), ("encode_half_flops", "bfloat16")):
        encoder = Encoder(model, Encode.model_validate({"device": "cpu", "compute": precision}))
        list(encoder.passages(sequences[:8]))  # the weights are ordered by the first
        yield name, work / seconds_of(lambda encoder=encoder: list(encoder.passages(sequences)))
    for name, precision in (("train_flops", "float32"), ("train_half_flops", "bfloat16")):
        yield name, _trained_flops(encoder.layout, precision)


def _trained_flops(layout: Layout, precision: str) -> float:
    """Operations per second of three training steps."""
    settings = {"batch_size": 16, "max_steps": 4, "warmup_steps": 0, "checkpoint_steps": 9}
    steps = task(
        squad_folder(), BASE, Train.model_validate({**settings, "precision": precision}), time.process_time
    )
    lengths = []
    for step in range(1, 4):
        for example in steps.stream.step(step):
            lengths.append(len(layout.question(example.question.question).input_ids))
            for name in (example.positive, *example.negatives):
                lengths += [len(each.input_ids) for each in layout.passage(steps.passages[name])]
    return 3 * SHAPE.forward_flops(sum(lengths), float(np.mean(lengths))) / sum(train(steps))


def of_queries(folder: Path) -> Iterator[tuple[str, float]]:
    """Reading generated queries, and comparing some with each other and with a question; SQuAD's questions stand for them."""
    asked = [question.question for question in read_questions(folder / "train_questions")]
    lists = [(f"p{i}", tuple(asked[(i + j) % len(asked)] for j in range(QUERIES))) for i in range(PASSAGES)]
    (drawn := folder / "queries").mkdir()
    write_queries(lists, drawn / "queries.parquet")
    yield "read_queries", PASSAGES * QUERIES / seconds_of(lambda: list(iterate_queries(drawn)))

    def compare(count: int) -> None:
        for _, queries in lists[:count]:
            rouge_l_by_number(queries[0], queries, QUERIES)
            self_bleu(queries)

    compare(1)  # which imports NLTK
    yield "compared_queries", COMPARED * QUERIES / seconds_of(lambda: compare(COMPARED))


def of_changes(folder: Path) -> Iterator[tuple[str, float]]:
    """Finding the passages of a million that an index of as many holds."""
    hashes = np.random.default_rng(0).integers(256, size=(2, 1_000_000, 16), dtype=np.uint8)
    ids, contents = (pa.array([row.tobytes().hex() for row in each]) for each in hashes)
    passages = pa.table({"id": ids, "content_hash": contents})
    known = passages.take(np.random.default_rng(1).permutation(len(ids)))
    yield "matched_passages", len(ids) / seconds_of(lambda: match(passages, known))


def of_generator(folder: Path) -> Iterator[tuple[str, float]]:
    """Writing queries with a model of T5-base's shape, whose random weights never end a query early."""
    width, layers = T5_BASE.width, T5_BASE.layers
    shape = T5Config(
        vocab_size=T5_BASE.vocabulary,
        d_model=width,
        d_kv=width // 12,
        num_heads=12,
        num_layers=layers,
        d_ff=T5_BASE.inner,
        decoder_start_token_id=0,  # pyright: ignore[reportCallIssue]
    )
    with staged_base(BASE) as base:
        tokenizer = AutoTokenizer.from_pretrained(base)
    save(T5ForConditionalGeneration(shape), tokenizer, folder / "generator")
    settings = Generation(batch_size=GENERATED, input_length=128, max_length=LONGEST_QUERY, device="cpu")
    generator, read = QueryGenerator(folder / "generator", settings), settings.input_length
    cut = [p for p in read_passages(folder / "passages") if len(p.text.split()) > read][:GENERATED]
    taken = seconds_of(lambda: list(generator.queries(cut)))
    yield "generate_flops", generation_flops(len(cut), read, settings.queries, LONGEST_QUERY) / taken


def of_index(folder: Path) -> Iterator[tuple[str, float]]:
    """Exact search, and the building of each kind of index."""
    rng = np.random.default_rng(0)
    matrix, counts = views_of(12_000, 9, 384, rng)
    staged: Staged = write_embeddings(folder / "embeddings", matrix, counts)
    inputs = {"model": Recorded("random"), "passages": Recorded("random"), "embeddings": [staged]}
    taken = {}
    for kind in ("exact", "compact", "hnsw"):
        (target := folder / kind).mkdir()
        settings = Config.partial({"index": Index(kind=kind, measured=0), "encode": Encode()})
        context = StepContext(settings, inputs, {"index": target}, NoEvents())
        taken[kind] = seconds_of(lambda context=context: build_index(context))
    yield "copied_bytes", matrix.nbytes / taken["exact"]
    lists = ViewIndex.load(folder / "compact").header["lists"]
    products = 2 * len(matrix) * lists * matrix.shape[1]
    sample = min(len(matrix), max(65_536, 64 * lists))
    products += 10 * 2 * sample * lists * matrix.shape[1]
    yield "lists_flops", products / (taken["compact"] - taken["exact"])
    yield "hnsw_views", len(matrix) / (taken["hnsw"] - taken["exact"])
    index = ViewIndex.load(folder / "exact")
    queries = matrix[rng.integers(len(matrix), size=256)].astype(np.float32)
    searched = min(seconds_of(lambda: index.search(queries, 100)) for _ in range(3))
    yield "search_flops", 2 * len(matrix) * matrix.shape[1] * len(queries) / searched


def main() -> None:
    """Prints each rate per second of one thread."""
    os.environ[environment.OMP_NUM_THREADS] = "1"
    torch.set_num_threads(1)
    with threads(1), tempfile.TemporaryDirectory() as temporary:
        for measure in (of_data, of_queries, of_changes, of_model, of_generator, of_index):
            for name, rate in measure(Path(temporary)):
                print(f"{name}: {rate:.3g}", flush=True)


if __name__ == "__main__":
    typer.run(main)
