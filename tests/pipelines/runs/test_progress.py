"""The display of a run: the lines of its steps, and on a terminal the running ones below."""

import io
import re
import time
from dataclasses import replace

from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.cli.console import Console
from multiview.errors import print_line
from multiview.steps import events
from multiview.steps.context import StepContext
from multiview.steps.events import PROGRESS_SECONDS, EventLog
from multiview.steps.execution import run_step
from multiview.steps.runs import StepState, write_state
from multiview.steps.work import StepReporter
from pipelines.runs.progress import Progress
from tests.fixtures.counting_step import COUNT, passages, settings

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


def test_a_terminal_has_the_same_lines_and_below_them_the_running_steps(tmp_path, monkeypatch, capsys):
    """The last line fits a narrow terminal, and square brackets are no markup."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "34")
    store, steps = LocalStore(tmp_path / "store"), ["split", "camvr/round-1/train"]
    log = EventLog(store, "model/k/attempts/1")
    log.progress(30, 120, "[b]steps[/b]")
    with log.lines():
        time.sleep(2 * PROGRESS_SECONDS)
    with Progress(store, "run", steps, started=0.0):
        write_state(store, "run", state(steps[0], "found"))
        write_state(store, "run", state(steps[1], "running", None, attempt="model/k/attempts/1"))
        time.sleep(1)  # three looks at the store, and a dozen frames
    printed = re.split("[\r\n]+", re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().out))
    lines = [" ".join(line.split()) for line in printed]
    assert [line for line in lines if "/2 " in line] == [
        "✓ 1/2 split found",
        "2/2 camvr/round-1/train started",
    ]
    assert "camvr/round-1/train 30/120 [b]…" in {line[2:] for line in lines}


def slow(context: StepContext) -> None:
    """The function of a step that works for about two lines."""
    context.events.warning("1 passage is empty")
    for done in range(1, 20):
        context.events.progress(done, 40, "passages")
        time.sleep(0.1)
    (context.output("counts") / "count.txt").write_text("19")
    (context.output("words") / "words.txt").write_text("")


def test_without_a_terminal_a_run_has_the_lines_that_its_pods_have_in_their_logs(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(events, "LINE_SECONDS", 0.7)
    store, step = LocalStore(tmp_path / "store"), replace(COUNT, function_path=f"{__name__}:slow")
    progress = Progress(store, "run", ["split", "count"], started=0.0)
    progress.console = Console(file=(printed := io.StringIO()), width=200, soft_wrap=True)
    reporter = StepReporter(store, "run", "count", "count")
    reporter.log = print_line
    with progress:
        run_step(step, reporter, settings(), {"passages": passages(store, "a b")})
    pod = capsys.readouterr().out.splitlines()
    begun, ended = "  count started", r"✓ count \d\.\d s"
    address = f"{store.url}/counts/{reporter.state.key}"
    assert pod[0] == begun and pod[1] == "  count: warning: 1 passage is empty"
    assert re.fullmatch(r"  count: \d+/40 passages, \d+\.\d/s, 0:\d\d:\d\d left", pod[2])
    assert re.fullmatch(ended, pod[-3]) and pod[-2] == f"  count: wrote counts {address}"
    assert pod[-1] == f"  count: wrote words {address.replace('counts', 'words')}"
    here = printed.getvalue().replace(" 1/2 ", "").splitlines()
    assert set(here) <= set(pod) and {*pod[:3], *pod[-3:]} <= set(here)


def test_a_step_that_is_tried_again_is_read_again(tmp_path):
    for first in ("failed", "killed"):
        progress = watched(tmp_path / first, state("compare", first, error="its pod was told to end"))
        made = {"comparison": Reference(address="/s/comparison/k", digest="d")}
        write_state(progress.store, "run", state("compare", "done", outputs=made))
        (last,) = progress.finish()
        assert (last.status, last.outputs) == ("done", made)
