"""How a training on several processes ends badly: with one line, and with all of its processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from multiview.config import Config, Train
from multiview.errors import InputError, ProcessFailed, one_line
from multiview.steps.checkpoints import NO_CHECKPOINTS, Checkpoints
from multiview.steps.context import StepContext
from multiview.training import processes
from multiview.training.processes import on_processes, processes_here
from tests.fixtures.checkpoints import KeptCheckpoints
from tests.fixtures.events import RecordedEvents
from tests.training import process_bodies


def end(body: Any, tmp_path: Path, checkpoints: Checkpoints = NO_CHECKPOINTS) -> RecordedEvents:
    events = RecordedEvents()
    settings = Config.partial({"train": Train(processes=2)})
    on_processes(body, StepContext(settings, {}, {"seen": tmp_path}, events, checkpoints))
    return events


def test_a_process_that_dies_ends_the_training_with_one_line(tmp_path: Path) -> None:
    with pytest.raises(ProcessFailed) as caught:
        end(process_bodies.second_is_killed, tmp_path)
    assert one_line(caught.value) == "training process 1 was ended by SIGKILL"


def test_bad_input_of_a_process_keeps_its_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^questions\.parquet: row 7 has no answer$"):
        end(process_bodies.second_refuses, tmp_path)


def test_what_the_store_raises_is_raised_here(tmp_path: Path) -> None:
    for folder in ("kept", "checkpoint-4"):
        (tmp_path / folder).mkdir()
    with pytest.raises(KeyboardInterrupt):
        end(
            process_bodies.store_refuses,
            tmp_path / "checkpoint-4",
            KeptCheckpoints(tmp_path / "kept", stop_after=4),
        )


STARTER = """
from pathlib import Path
from multiview.config import Config, Train
from multiview.steps.context import StepContext
from multiview.training.processes import on_processes
from tests.training.process_bodies import says_its_ids
from tests.fixtures.events import RecordedEvents

if __name__ == "__main__":
    settings = Config.partial({"train": Train(processes=2)})
    on_processes(says_its_ids, StepContext(settings, {}, {"seen": Path("SEEN")}, RecordedEvents()))
"""


@pytest.mark.parametrize("how", [pytest.param(signal.SIGTERM, marks=pytest.mark.acceptance), signal.SIGKILL])
def test_processes_end_with_their_step(how: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "starter.py"
    seen = tmp_path / "seen"
    seen.mkdir()
    script.write_text(STARTER.replace("SEEN", str(seen)))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    starter = subprocess.Popen([sys.executable, str(script)], env=environment)
    while len(started := list(seen.iterdir())) < 2:
        assert starter.poll() is None
        time.sleep(0.2)
    workers = [psutil.Process(int(path.name)) for path in started]
    starter.send_signal(how)
    assert starter.wait(60) == -how
    assert not psutil.wait_procs(workers, timeout=60)[1]


def test_processes_are_as_many_as_gpus_unless_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert processes_here(Train()) == 1 and processes_here(Train(processes=3)) == 3
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert processes_here(Train()) == 2 and processes_here(Train(processes=1)) == 1
    with pytest.raises(InputError, match=r"train\.processes: 3, but torch sees 2 GPUs"):
        processes_here(Train(processes=3))


def test_processes_share_the_processors_of_their_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(processes, "processors", lambda: 7)
    monkeypatch.setattr(processes, "_launch", lambda config, *job: threads.append(job[-1]))
    for count in (2, 3, 8):
        settings = Config.partial({"train": Train(processes=count)})
        on_processes(print, StepContext(settings, {}, {}, RecordedEvents()))
    assert threads == [3, 2, 1]
