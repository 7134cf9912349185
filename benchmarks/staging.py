"""Staging of a step's inputs, beside computing their sha256 alone, which is the bound (docs/store.md).

    python -m benchmarks.staging --megabytes 512

An artifact of a local store is staged as a step stages it: first when every byte is read and compared with the
record, and then again unchanged, when each file's size, times and inode are compared with those remembered. Bound:
hashlib's sha256 over the same files. Times are processor time of one thread, from the page cache.
"""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.table import Goal, Row, Size, markdown, number, of_times
from benchmarks.timing import in_turns
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Record
from multiview.artifacts.staging import SETTLED, stage, verified_file
from multiview.artifacts.store import LocalStore

FIRST, AGAIN, BOUND = "verified", "found unchanged", "sha256 alone"
FILES = 8
MEGABYTE = 10**6


def publish(store: LocalStore, megabytes: int) -> Record:
    """Publishes an artifact of random bytes in `FILES` files, and waits until their times count as settled."""
    rng, attempt = np.random.default_rng(0), Attempt(store, "embeddings", "random")
    for shard in range(FILES):
        (attempt.path / f"shard-{shard}.bin").write_bytes(rng.bytes(megabytes * MEGABYTE // FILES))
    record, _ = attempt.publish(step="encode", step_version=1, config={}, inputs={})
    time.sleep(2 * SETTLED / 1e9)
    return record


def digests(folder: Path) -> list[str]:
    """The sha256 of each file of a folder, by hashlib alone."""
    found = []
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            found.append(hashlib.file_digest(file, "sha256").hexdigest())
    return found


def measure(megabytes: int, repeats: int) -> Iterator[Row]:
    """The rows of an artifact that is verified, and of one that is found again unchanged."""
    with tempfile.TemporaryDirectory() as folder:
        store = LocalStore(Path(folder))
        record = publish(store, megabytes)

        def first() -> None:
            store.remove(verified_file(record.data))
            stage(store, record)

        times = in_turns(
            {
                FIRST: first,
                AGAIN: lambda: stage(store, record),
                BOUND: lambda: digests(store.root / record.data),
            },
            repeats,
            time.process_time,
        )
    size = sum(file.bytes for file in record.files) / MEGABYTE
    rate = {name: 1000 * size / sorted(found)[len(found) // 2] for name, found in times.items()}
    speeds = f"{number(rate[FIRST])} MB/s beside {number(rate[BOUND])}"
    work = f"stage {number(size)} MB in {FILES} files"
    yield of_times(
        f"{work}, each byte verified ({speeds})",
        "ms",
        times,
        ours=FIRST,
        bound=BOUND,
        goal=Goal(of_bound=0.9),
    )
    yield of_times(f"{work}, unchanged since they were verified", "ms", times, ours=AGAIN, peer=FIRST)


def rows(size: Size) -> Iterator[Row]:
    """The rows of `make bench`."""
    yield from measure(128, 3) if size == "quick" else measure(512, 5)


def main(
    megabytes: Annotated[int, typer.Option(min=1, help="Megabytes of the artifact.")] = 512,
    repeats: Annotated[int, typer.Option(min=1, help="Repeats of each.")] = 5,
) -> None:
    """Prints milliseconds of processor time, min / median / max."""
    for line in markdown(measure(megabytes, repeats)):
        print(line, flush=True)


if __name__ == "__main__":
    typer.run(main)
