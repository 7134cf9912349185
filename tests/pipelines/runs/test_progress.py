"""The screen of a run: a row for each place of the DAG, shards as one, and plain lines elsewhere."""

import io
import time

from multiview.artifacts.store import LocalStore
from multiview.steps.events import PROGRESS_SECONDS, EventLog
from multiview.steps.runs import StepState, write_state
from multiview.terminal import Console
from pipelines.runs.progress import Progress

PATHS = [
    "split",
    "bm25-negatives",
    "camvr/initial-model",
    "camvr/round-1/train",
    "camvr/round-1/encode/shard-00",
    "camvr/round-1/encode/shard-01",
    "compare",
]


def watched(tmp_path, *states: StepState) -> Progress:
    store = LocalStore(tmp_path / "store")
    for state in states:
        write_state(store, "run", state)
    progress = Progress(store, "run", PATHS, started=0.0)
    progress.console = Console(file=io.StringIO(), width=100)
    progress._poll()
    return progress


def state(path: str, status, seconds: float | None = 0.0, **more) -> StepState:
    now = time.time()
    ended = None if seconds is None else now + seconds
    return StepState(path=path, step=path, status=status, started=now, ended=ended, **more)


def screen(progress: Progress) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    console.print(progress.render())
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_screen_has_a_row_for_each_place_and_shards_are_one(tmp_path):
    log = EventLog(LocalStore(tmp_path / "store"), "embeddings/k/attempts/1")
    time.sleep(PROGRESS_SECONDS)  # at most two a second are written
    log.progress(30, 120, "passages")
    log.close()
    progress = watched(
        tmp_path,
        state("split", "found"),
        state("bm25-negatives", "done", 2.5),
        state("camvr/initial-model", "done", 12),
        state("camvr/round-1/train", "done", 61.4),
        state("camvr/round-1/encode/shard-00", "running", None, attempt="embeddings/k/attempts/1"),
    )
    rows = screen(progress)
    assert rows[0].split() == ["✓", "split", "found", "✓", "bm25-negatives", "2.5", "s"]
    assert rows[1].split() == ["camvr", "✓", "initial-model", "12", "s"]
    assert rows[2].split()[:5] == ["camvr/round-1", "✓", "train", "61", "s"]
    assert rows[2].endswith("encode 30/120 passages")
    assert rows[3].split() == ["·", "compare"]
    assert "4/7 steps" in rows[5]


def test_a_failed_shard_marks_its_step(tmp_path):
    progress = watched(
        tmp_path,
        state("camvr/round-1/encode/shard-00", "done", 1),
        state("camvr/round-1/encode/shard-01", "failed", 1, error="out of paper"),
    )
    assert "✗ encode" in screen(progress)[2]


def test_without_a_terminal_each_beginning_and_end_is_a_line(tmp_path):
    progress = watched(tmp_path, state("split", "running", None))
    write_state(progress.store, "run", state("split", "done", 3))
    progress._poll()
    progress._poll()
    assert isinstance(progress.console.file, io.StringIO)
    lines = [line.split() for line in progress.console.file.getvalue().splitlines()]
    assert lines == [["1/7", "split", "started"], ["✓", "1/7", "split", "3.0", "s"]]
