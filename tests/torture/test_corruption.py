"""Every file of every artifact of a training, damaged in every way: found before it is used, named, and repaired by the
command that the line names."""

from __future__ import annotations

import random
import re
import shlex
import time

import pytest
from typer.testing import CliRunner

from multiview import names
from multiview.artifacts.record import Record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import LocalStore
from multiview.cli.app import app
from multiview.errors import InputError
from multiview.lineage.trace import flaws, reference_of, trace
from multiview.steps.table import STEPS
from tests.fixtures import injection
from tests.fixtures.damages import Damage, damages
from tests.fixtures.inprocess import run_plan
from tests.fixtures.tally import POINTS, SURVIVED, TRIED, Tally
from tests.fixtures.tortured import SEED, Share, Tortured, tiny_training

pytestmark = pytest.mark.skipif(not injection.possible, reason="needs Linux's seccomp on x86-64")
SECONDS = 420
COMMAND = re.compile(r"multiview repair \S+(?=\))")


@pytest.fixture(scope="module")
def tortured(tmp_path_factory: pytest.TempPathFactory) -> Tortured:
    return tiny_training(tmp_path_factory.mktemp("corruption"))


@pytest.mark.parametrize("share", ["sample", pytest.param("all", marks=pytest.mark.torture)])
def test_damage_is_found_before_use_named_and_repaired(
    tortured: Tortured, share: Share, tally: Tally
) -> None:
    tortured.reset(len(tortured.parts))
    possible = list(damages(tortured.store, [*tortured.expected[-1].values()]))
    random.Random(SEED).shuffle(possible)
    chosen = possible if share == "all" else list({damage.how: damage for damage in possible}.values())
    ends, wrong = time.monotonic() + SECONDS, []
    for damage in chosen:
        if share == "all" and time.monotonic() > ends:
            break
        found = _flaw(tortured, damage)
        wrong += [f"{damage}: {found}"] if found else []
        tally.add(TRIED, of=f"training, {damage.how}")
        tally.add(SURVIVED, 0 if found else 1, of=f"training, {damage.how}")
    if share == "all":
        tally.add(POINTS, len(possible), of="damages of a finished training")
    assert not wrong, f"{len(wrong)} of {len(chosen)}:\n" + "\n".join(wrong[:10])


def _flaw(tortured: Tortured, damage: Damage) -> str | None:
    """Does the damage and mends it as the error line says; returns what is wrong with that, if anything."""
    tortured.reset(len(tortured.parts))
    store = tortured.store
    file = store.root / damage.file
    damage.harm(file)
    (evaluation,) = tortured.made(names.EVALUATION)
    verified = (
        list(flaws(trace([reference_of(f"{store.url}/{evaluation.folder}")])))
        if evaluation is not damage.record
        else []
    )
    if evaluation is not damage.record and not any(
        str(file) in line and COMMAND.search(line) for line in verified
    ):
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
    readers = [record for record in tortured.expected[-1].values() if _reads(store, record, damage)]
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
