"""`multiview gc --delete` beside running steps, which take turns at every request to the store: no step stops, and nothing
that a run refers to is lost, whoever is first at which request."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multiview import names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Reference, read_record, read_whole
from multiview.artifacts.scratch import remove_scratch
from multiview.artifacts.staging import verify
from multiview.config import Config
from multiview.errors import InputError
from multiview.lineage import garbage
from multiview.steps.context import StepContext
from multiview.steps.execution import run_step
from multiview.steps.runs import Run, write_run
from multiview.steps.step import FORWARDED_FILE, Step
from multiview.steps.work import StepReporter
from tests.fixtures.paused_stores import PausedBucket, PausedFolder
from tests.fixtures.tally import POINTS, Tally
from tests.fixtures.tortured import SEED, WHOLE, Share, each_share
from tests.fixtures.turns import Turns

DAYS = 1.0
SAMPLE, OTHERS = 25, 200
"""Interleavings that `make test` tries of each kind, and `make torture` of those in which nobody is likely to meet."""
EXAMPLES = 300 if settings.get_current_profile_name() == "torture" else 15
FILES = ("first", "second")
PausedStore = PausedFolder | PausedBucket
turns = Turns()


def build(context: StepContext) -> None:
    _fill(context.output(names.INDEX))


def forward(context: StepContext) -> None:
    """As the first refresh does: it publishes an index of its own key and forwards it."""
    if (record := read_record(context.store, names.INDEX, "empty")) is None:
        attempt = Attempt(context.store, names.INDEX, "empty")
        _fill(attempt.path)
        record, _ = attempt.publish(step="forward", step_version=1, config={}, inputs={})
    reference = Reference.to(context.store, record).model_dump()
    (context.output(names.CHAMPION) / FORWARDED_FILE).write_text(json.dumps({names.INDEX: reference}))


def read(context: StepContext) -> None:
    """Others are at work while it reads."""
    texts = []
    for file in FILES:
        texts.append((context.input(names.INDEX).path / file).read_text())
        turns.pause()
    (context.output(names.EVALUATION) / "read").write_text(" ".join(texts))


def _fill(folder: Path) -> None:
    for file in FILES:
        (folder / file).write_text(file)


BUILD = Step("build", "An index.", 1, f"{__name__}:build", settings=(), inputs=(), outputs=(names.INDEX,))
READ = replace(
    BUILD, name="read", function_path=f"{__name__}:read", inputs=(names.INDEX,), outputs=(names.EVALUATION,)
)
FIRST = {
    "found": BUILD,
    "forwarded": replace(
        BUILD,
        name="forward",
        function_path=f"{__name__}:forward",
        outputs=(names.CHAMPION,),
        forwards=(names.INDEX,),
        reads_store=True,
    ),
}
"""The step whose output, of an earlier run, the next step of the run reads, by how the run comes to it."""


@pytest.fixture(params=["folder", "bucket"])
def new_store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], PausedStore]:
    """Makes stores, and lets addresses be opened as the one that was made last."""
    made: list[PausedStore] = []

    def make() -> PausedStore:
        remove_scratch()
        folder = tmp_path / str(len(made))
        made.append(
            PausedFolder(folder, turns.pause) if request.param == "folder" else PausedBucket(turns.pause)
        )
        return made[-1]

    monkeypatch.setattr("multiview.artifacts.record.open_store", lambda _: made[-1])
    return make


def run(store: PausedStore, first: Step, name: str = "run") -> None:
    """A run of two steps, of which the second reads what the first found."""
    write_run(store, Run(id=name, pipeline="two steps", config={}, steps=[first.name, READ.name]))
    outputs = {}
    for step in (first, READ):
        reporter = StepReporter(store, name, step.name, step.name)
        with reporter.failures():
            inputs = {input_: outputs[input_] for input_ in step.inputs}
            run_step(step, reporter, step.configure(Config()), inputs)
        outputs |= reporter.state.outputs


def collect(store: PausedStore) -> None:
    """A collection, which may be refused beside another one."""
    try:
        _collect(store)
    except InputError as refused:
        assert "a multiview gc --delete or a rollback is at work" in str(refused)


def _collect(store: PausedStore) -> None:
    list(garbage.remove_all(store, listed(store), partial(garbage.referenced, store, DAYS, 1)))


def listed(store: PausedStore) -> list[garbage.Garbage]:
    return list(garbage.collectable(store, garbage.referenced(store, DAYS, 1), DAYS))


def old(new_store: Callable[[], PausedStore], first: Step) -> PausedStore:
    """A store in which the first step ran long ago, so that nothing refers to its output any more."""
    store = new_store()
    reporter = StepReporter(store, "earlier", first.name, first.name)
    run_step(first, reporter, first.configure(Config()), {})
    store.age(time.time() - 30 * garbage.DAY)
    store.remove(names.RUNS)
    return store


def check(store: PausedStore) -> None:
    """Every artifact is whole, and the index is there, to which the runs refer."""
    indexes = [read_record(store, names.INDEX, key) for key in store.folders(names.INDEX)]
    assert all(indexes) and indexes
    for kind in (names.INDEX, names.EVALUATION):
        for key in store.folders(kind):
            record = read_whole(store, kind, key)
            assert record is not None
            remove_scratch()
            verify(store, record)
            if kind == names.EVALUATION:
                assert store.read(f"{record.data}/read") == b"first second"


def beside(new_store: Callable[[], PausedStore], first: Step, case: Case) -> list[int]:
    """A run beside a collection; the numbers of their points."""
    store = old(new_store, first)
    works = {"run": partial(run, store, first), "collection": partial(_collect, store)}
    points = turns.take(
        [works[name] for name in case.ends], [case.ends.index(name) for name in case.schedule]
    )
    check(store)
    return points


@dataclass(frozen=True)
class Case:
    """Whose turn it is at first, and in which order run and collection come to their ends after that."""

    schedule: tuple[str, ...]
    ends: tuple[str, str]


def cases(new_store: Callable[[], PausedStore], first: Step) -> tuple[list[Case], list[Case]]:
    """All cases in which the run begins when the collection has listed what is to go, goes on to one of its points, lets the
    collection go on to one of its points, and then ends; and all in which either begins and each is interrupted once."""
    run_first, collection_first = ("run", "collection"), ("collection", "run")
    collecting, running = beside(new_store, first, Case((), collection_first))
    (listing,) = turns.take([partial(listed, old(new_store, first))])
    meeting = [
        Case((*["collection"] * listing, *["run"] * before, *["collection"] * after), run_first)
        for before, after in product(range(1, running + 1), range(1, collecting - listing + 1))
    ]
    others = []
    for ends in (run_first, collection_first):
        one, other = (running, collecting) if ends == run_first else (collecting, running)
        for before, between in product(range(1, one + 1), range(1, other + 1)):
            others.append(Case((*[ends[0]] * before, *[ends[1]] * between), ends))
    return meeting, others


@pytest.mark.parametrize("kind", FIRST)
@each_share
def test_a_run_ends_well_wherever_it_and_the_collection_are_interrupted(
    new_store: Callable[[], PausedStore], kind: str, share: Share, tally: Tally
) -> None:
    first, draw = FIRST[kind], random.Random(SEED)
    meeting, others = cases(new_store, first)
    rest = others if WHOLE else draw.sample(others, OTHERS)
    chosen = [*meeting, *rest] if share == "all" else draw.sample(meeting, SAMPLE)
    for case in chosen:
        try:
            beside(new_store, first, case)
        except BaseException as error:
            error.add_note(str(case))
            raise
    tally.add(POINTS, len(meeting) + len(others), of="gc --delete beside a step")
    tally.survived(len(chosen), of="gc --delete beside a step")


def in_any_order(test: Callable[..., None]) -> Callable[..., None]:
    """Gives a test the turns of three workers, each with its number of points, as `parts`."""
    drawn = given(parts=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 12)), max_size=20))(test)
    unlike = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=EXAMPLES, deadline=None, database=None, suppress_health_check=unlike)(drawn)


@pytest.mark.parametrize("kind", FIRST)
@pytest.mark.parametrize("works", ["gc --delete beside two runs", "two gc --delete beside a run"])
@in_any_order
def test_all_of_three_end_well_in_any_order(
    new_store: Callable[[], PausedStore], kind: str, works: str, tally: Tally, parts: list[tuple[int, int]]
) -> None:
    first = FIRST[kind]
    store = old(new_store, first)
    workers = [partial(collect, store), partial(run, store, first), partial(collect, store)]
    if works.endswith("two runs"):  # no other collection is in the way of this one
        workers = [partial(_collect, store), *(partial(run, store, first, name) for name in ("one", "two"))]
    turns.take(workers, [worker for worker, points in parts for _ in range(points)])
    check(store)
    tally.survived(of=works)


class Killed(BaseException):
    """A process that is gone."""


def _ending_at(number: int) -> Callable[[], None]:
    """Ends the work at one of its points, numbered from 0."""
    numbers = iter(range(number))

    def pause() -> None:
        if next(numbers, None) is None:
            raise Killed

    return pause


@pytest.mark.parametrize("kind", FIRST)
def test_a_collection_that_is_killed_leaves_what_runs_and_the_next_collection_put_right(
    new_store: Callable[[], PausedStore], kind: str, tally: Tally
) -> None:
    first, over = FIRST[kind], False
    for number in count():
        store = old(new_store, first)
        store.pause = _ending_at(number)
        try:
            _collect(store)
            over = True
        except Killed:
            pass
        store.pause = turns.pause
        run(store, first)
        check(store)
        store.age(time.time() - 30 * garbage.DAY)
        _collect(store)
        check(store)
        tally.survived(of="gc --delete, killed")
        if over:
            break
