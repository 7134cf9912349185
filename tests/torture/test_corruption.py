"""Every file of every artifact of a training, of a refresh with its exports and of a comparison with generated queries and
its report, damaged in every way: found before it is used, named, and repaired by the command that the line names."""

from __future__ import annotations

import math
import random
import re
import shlex
import time
from functools import partial

import pytest
from typer.testing import CliRunner

from multiview import names
from multiview.artifacts.record import Record, Reference
from multiview.artifacts.staging import stage
from multiview.artifacts.store import LocalStore
from multiview.cli.app import app
from multiview.errors import InputError
from multiview.lineage.trace import flaws, trace
from multiview.steps.table import STEPS
from tests.fixtures import injection
from tests.fixtures.damages import Damage, damages
from tests.fixtures.inprocess import run_plan
from tests.fixtures.tally import POINTS, SURVIVED, TRIED, Tally
from tests.fixtures.tortured import SEED, SHARES, WHOLE, Share, Tortured, needs_seccomp
from tests.fixtures.tortured_plans import (
    FORMATS,
    QUICK_FORMATS,
    REFUSING,
    generated_comparison,
    queried_refresh,
    refused_refresh,
    taught_training,
    tiny_training,
    unlabelled_training,
    warmed_up_training,
)

pytestmark = needs_seccomp
SECONDS = {"training": 60, "refresh": 60, "comparison": 30}
"""Seconds for the damages of a pipeline, beyond which only one of each kind is tried; of others none."""
MAKE = {
    "training": partial(tiny_training, by_step=False),
    "comparison": partial(generated_comparison, by_step=False),
}
OTHERS = {
    "a teacher, given negatives": taught_training,
    "crops": partial(unlabelled_training, origin="crop"),
    "a generator": partial(unlabelled_training, origin="generator"),
    "warm-up": warmed_up_training,
    "refresh with queries": partial(queried_refresh, gate=REFUSING),
}
"""Pipelines with artifacts that the others lack, which alone are damaged."""
SAMPLE = {"training": 5, "refresh": 3, "comparison": 3}
"""Ways to damage of which `make test` tries one each."""
OF_TRAINING = {
    *(names.PASSAGES, names.TRAIN_QUESTIONS, names.DEV_QUESTIONS, names.NEGATIVES, names.MODEL),
    *(names.EMBEDDINGS, names.INDEX, names.EVALUATION),
}
"""Kinds of artifacts that a training makes."""
COMMAND = re.compile(r"multiview repair \S+(?=\))")


@pytest.fixture(scope="module", params=SHARES)
def share(request: pytest.FixtureRequest) -> Share:
    return request.param


@pytest.fixture(
    scope="module",
    params=[
        *("training", "refresh"),
        *(pytest.param(name, marks=pytest.mark.torture) for name in ("comparison", *OTHERS)),
    ],
)
def tortured(
    request: pytest.FixtureRequest, share: Share, tmp_path_factory: pytest.TempPathFactory
) -> Tortured:
    folder = tmp_path_factory.mktemp("corruption")
    if request.param != "refresh":
        return {**MAKE, **OTHERS}[request.param](folder)
    formats = QUICK_FORMATS if share == "sample" else FORMATS
    return refused_refresh(request.getfixturevalue("second_champion"), folder, formats)


def test_damage_is_found_before_use_named_and_repaired(
    tortured: Tortured, share: Share, tally: Tally
) -> None:
    tortured.reset(len(tortured.parts))
    name = tortured.name
    damaged = [
        record for record in tortured.made_all() if not tortured.steps or record.step in tortured.steps
    ]
    possible = list(damages(tortured.store, damaged, [*tortured.expected[-1].values()]))
    random.Random(SEED).shuffle(possible)
    kinds = {(damage.record.kind, damage.how): damage for damage in possible}
    if name in ("refresh", "comparison"):  # a training's artifacts have been damaged there
        kinds = {(kind, how): damage for (kind, how), damage in kinds.items() if kind not in OF_TRAINING}
    possible = [*kinds.values(), *(damage for damage in possible if damage not in kinds.values())]
    sample = [*{damage.how: damage for damage in possible}.values()][: SAMPLE.get(name, 1)]
    chosen = possible if share == "all" else sample
    ends, wrong = math.inf if WHOLE else time.monotonic() + SECONDS.get(name, 0), []
    for number, damage in enumerate(chosen):
        if share == "all" and time.monotonic() > ends and number >= len(kinds):
            break
        found = _flaw(tortured, damage)
        wrong += [f"{damage}: {found}"] if found else []
        tally.add(TRIED, of=f"{name}, {damage.how}")
        tally.add(SURVIVED, 0 if found else 1, of=f"{name}, {damage.how}")
    if share == "all":
        tally.add(POINTS, len(possible), of=f"damages of a finished {name}")
    assert not wrong, f"{len(wrong)} of {len(chosen)}:\n" + "\n".join(wrong[:10])


def _flaw(tortured: Tortured, damage: Damage) -> str | None:
    """Does the damage and mends it as the error line says; returns what is wrong with that, if anything."""
    tortured.reset(len(tortured.parts))
    store = tortured.store
    file = store.root / damage.file
    damage.harm(file)
    verified = list(flaws(trace([Reference.to(store, record) for record in tortured.made_all()])))
    if not any(str(file) in line and COMMAND.search(line) for line in verified):
        return f"lineage --verify says {verified}"
    said = _use(tortured, damage)
    command = COMMAND.search(said)
    if str(file) not in said or command is None:
        return f"its reader says {said}"
    others = {path for path in store.files("") if not path.startswith(f"{damage.record.folder}/")}
    repaired = CliRunner().invoke(app, shlex.split(command[0])[1:])
    if repaired.exit_code or "removed" not in repaired.output:
        return f"{command[0]} says {repaired.output} {repaired.exception}"
    if others != {path for path in store.files("") if not path.startswith(f"{damage.record.folder}/")}:
        return f"{command[0]} changed other artifacts"
    again = injection.run(run_plan, tortured.plan, store, watched=store.root)
    if again.status != 0:
        return f"the same command again ended with {again.status}: {again.error}"
    return tortured.difference(len(tortured.parts) - 1, str(damage))


def _use(tortured: Tortured, damage: Damage) -> str:
    """Makes the steps that read the damaged file run again; returns what the run says."""
    store = tortured.store
    readers = [record for record in tortured.made_all() if _reads(store, record, damage)]
    for reader in readers:
        store.remove(f"{reader.folder}/{names.RECORD_FILE}")
    if not readers and damage.file.endswith(names.RECORD_FILE) is False:  # only people look at figures
        try:
            stage(store, damage.record)
        except InputError as error:
            return str(error)
    return injection.run(run_plan, tortured.plan, store, watched=store.root).error


def _reads(store: LocalStore, reader: Record, damage: Damage) -> bool:
    """Whether a step stages the damaged file."""
    step, path = STEPS[reader.step], damage.file.removeprefix(f"{damage.record.data}/")
    return any(
        reference.address == f"{store.url}/{damage.record.folder}" and reference.file in (None, path)
        for name, references in reader.inputs.items()
        if name not in step.recorded_inputs
        for reference in references
    )
