"""Killed, raced and failing runs of pipelines on a small corpus."""

import itertools
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from multiview import tracking
from multiview.artifacts.champions import champion_of
from multiview.artifacts.record import load_record
from multiview.artifacts.store import open_store
from multiview.steps.events import read_metrics
from multiview.steps.runs import read_state
from multiview.training.trainer import LOG_STEPS
from tests.fixtures.project import Project
from tests.fixtures.tally import SURVIVED, TRIED
from tests.fixtures.tortured import DATED

ROUND_ONE = [
    "bm25-negatives",
    "camvr/initial-model",
    "camvr/round-1/encode/shard-00",
    "camvr/round-1/encode/shard-01",
    "camvr/round-1/evaluate",
    "camvr/round-1/index",
    "camvr/round-1/train",
    "split",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project.make(tmp_path_factory.mktemp("project"))


@pytest.mark.parametrize("kills", [1, pytest.param(2, marks=pytest.mark.torture)])
def test_killed_trainings_are_continued(project, tally, kills):
    """kill -9 while it trains: the same command goes on, redoing at most a checkpoint interval."""
    settings = ("rounds=1", "epochs=15", "checkpoint_steps=15", f"seed={kills}")
    command = ("run", "training", *(word for s in settings for word in ("--set", f"train.{s}")))
    known, checkpoints = project.runs(), []
    for _ in range(kills):
        _kill(project.start(*command), lambda: _checkpoints(project) > checkpoints)  # noqa: B023
        checkpoints = _checkpoints(project)
    project(*command)
    (run,) = set(project.runs()) - {*known}
    assert list(project.states(run)) == ROUND_ONE
    trainings = _logged_steps(project, project.states(run)["camvr/round-1/train"].outputs["model"].address)
    assert len(trainings) == kills + 1
    logged = sorted({*range(LOG_STEPS, 91, LOG_STEPS), *range(15, 91, 15)})
    assert [step for _, step in trainings[-1]] == logged, (
        "the last log covers the whole training, at checkpoints too"
    )
    for before, after in itertools.pairwise(trainings):
        resumed = len(set(before) & set(after))
        assert resumed >= 15 // LOG_STEPS, "it went on from a checkpoint, with the events before it"
        assert len(before) - resumed <= 2 + 15 // LOG_STEPS, "at most one checkpoint interval is done again"
    assert _checkpoints(project) == [], "checkpoints of a finished model are dropped"
    tally.add(TRIED, kills, of="training, its run killed")
    tally.add(SURVIVED, kills, of="training, its run killed")


@pytest.mark.torture
def test_an_encoding_that_was_killed_costs_its_shard_alone(project, tmp_path, tally):
    again = ("run", "training", "--set", "train.rounds=0", "--set", "encode.batch_tokens=1024")
    _kill(project.start(*again), lambda: _running(project, "camvr/round-0/encode/shard-01"))
    output = project(*again)
    found = [line for line in output.splitlines() if "/encode/" in line and line.endswith("found")]
    assert len(found) == 1, output
    undisturbed = replace(project, store=str(tmp_path / "store"))
    undisturbed(*again)
    assert _digests(project, "camvr/round-0/evaluate") == _digests(undisturbed, "camvr/round-0/evaluate")
    tally.add(TRIED, of="training, killed in a shard")
    tally.add(SURVIVED, of="training, killed in a shard")


@pytest.mark.torture
def test_a_refresh_that_is_killed_twice_is_continued(project, tmp_path, tally):
    """Over a model of its own; the same command ends with the artifacts of an undisturbed refresh."""
    project("run", "training", "--set", "train.rounds=0")
    (run,) = [run for run in project.runs() if "camvr/initial-model" in project.states(run)][:1]
    model = project.states(run)["camvr/initial-model"].outputs["model"].address
    fresh, command = (
        replace(project, store=str(tmp_path)),
        ("run", "refresh", "--set", f"refresh.model={model}"),
    )
    fresh(*command)
    expected = _digests(fresh, "promote")
    shutil.rmtree(tmp_path)  # artifacts on champions name the store, so it is the same one again
    _kill(fresh.start(*command), lambda: _running(fresh, "challenger/encode/shard-00"))
    _kill(fresh.start(*command), lambda: _running(fresh, "challenger/evaluate"))
    fresh(*command)
    assert _digests(fresh, "promote") == expected
    assert champion_of(open_store(fresh.store)).number == 1
    tally.add(TRIED, 2, of="refresh, its run killed")
    tally.add(SURVIVED, 2, of="refresh, its run killed")


@pytest.mark.torture
def test_two_runs_over_one_store_both_end_well(project):
    settings = ("--set", "train.rounds=0", "--set", "model.architecture=dpr")
    drivers = [project.start("run", "training", *settings) for _ in range(2)]
    outputs = [driver.communicate(timeout=300)[0] for driver in drivers]
    assert [driver.returncode for driver in drivers] == [0, 0], outputs
    (run,) = [r for r in project.runs() if "dpr/round-0/evaluate" in project.states(r)]
    for state in project.states(run).values():
        for reference in state.outputs.values():
            assert load_record(reference.address)[1].digest == reference.digest
    assert len(tracking.find_run(project.tracking, run).steps) == len(project.states(run))


def _digests(project: Project, path: str) -> dict[str, str]:
    """Of all outputs of the run with a step, by path and kind, but for those that say when they were made."""
    (run,) = [run for run in project.runs() if path in project.states(run)]
    return {
        f"{path}: {kind}": output.digest
        for path, state in project.states(run).items()
        for kind, output in state.outputs.items()
        if kind not in DATED
    }


def _logged_steps(project: Project, address: str) -> list[list[tuple[int, int | None]]]:
    """Time and step of each loss that an attempt at a model logged; earlier attempts are shorter."""
    store, folder = open_store(project.store), address.removeprefix(f"{project.store}/")
    attempts = {path.split(".events")[0] for path in store.files(folder) if path.endswith(".events.jsonl")}
    losses = [
        [(m.time, m.step) for m in read_metrics(store, attempt) if m.name == "loss"] for attempt in attempts
    ]
    return sorted(losses, key=len)


def _checkpoints(project: Project) -> list[int]:
    """Steps of the complete checkpoints."""
    store = open_store(project.store)
    return [
        int(name.rsplit("-", 1)[1])
        for name in store.folders("checkpoint")
        if store.read(f"checkpoint/{name}/artifact.json")
    ]


def _wait(condition: Callable, seconds: float = 120):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return value


def _running(project: Project, path: str) -> bool:
    return any(
        state.attempt and not state.ended
        for run in project.runs()
        for state in [read_state(open_store(project.store), run, path)]
        if state
    )


def _kill(run: subprocess.Popen, when: Callable[[], object]) -> None:
    """Kills a run at the moment that `when` tells."""
    try:
        _wait(when)
    finally:
        run.kill()
        run.communicate()
