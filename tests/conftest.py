"""Fixtures for tests of several packages."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from rich.console import Console

from tests.fixtures.beir_server import beir_server
from tests.fixtures.documented import beginning_with
from tests.fixtures.refreshed_corpora import first_champion, promoted_corpus, second_champion
from tests.fixtures.tally import print_counts, skips, summed, tally
from tests.fixtures.website import website

if TYPE_CHECKING:
    from tests.fixtures.evaluated_run import EvaluatedRun
    from tests.fixtures.system_indexes import SystemIndexes

__all__ = ["beir_server", "first_champion", "promoted_corpus", "second_champion", "tally", "website"]

LONGEST = [
    "tests/torture/test_churn.py",
    "tests/torture/test_corruption.py",
    "tests/torture/test_refresh_faults.py",
    "tests/torture/test_bucket_faults.py",
    "tests/torture/test_determinism.py",
    "tests/bad_input/test_guided_fuzzing.py",
    "tests/bad_input/test_fuzz.py",
    "tests/torture/test_other_faults.py",
    "tests/torture/test_comparison_faults.py",
    "tests/torture/test_training_faults.py",
    "tests/torture/test_mlflow_faults.py",
    "tests/torture/test_power_loss.py",
    "tests/export/test_onnx.py",
    "tests/training/test_processes.py",
    "tests/benchmarks/test_camvr_or_mvr.py",
    "tests/pipelines/test_outputs.py",
    "tests/demo/test_demo.py",
    "tests/bad_input/test_table.py",
    "tests/artifacts/test_bucket_store.py",
    "tests/components/test_components_elsewhere.py",
    "tests/test_wheel.py",
    "tests/security/test_watched_store.py",
    "tests/docs/test_commands.py",
    "tests/pipelines/runs/test_crashes.py",
    "tests/torture/test_concurrency.py",
    "tests/torture/test_mlflow_pipelines.py",
    "tests/torture/test_mlflow_database.py",
    "tests/export/test_sentence_transformers.py",
    "tests/model/test_encoder_kinds.py",
    "tests/model/base_model/test_sentence_transformers.py",
    "tests/pipelines/kubeflow/test_compile.py",
    "tests/generation/test_ask_questions.py",
]
"""The files that take longest, in order of their processor time: they begin first, so that no process ends alone."""


settings.register_profile("unhurried", deadline=None)
settings.load_profile("unhurried")
settings.register_profile("quick", max_examples=60, deadline=None, database=None)
settings.register_profile("torture", max_examples=1000, deadline=None, database=None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests of the longest files first, all others in their order after them."""
    order = {file: number for number, file in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.location[0], len(LONGEST)))


def pytest_collection_finish() -> None:
    """Leave what was imported out of all later collections of garbage, which are most of the time of a small run: its
    steps end with one each, over the objects of torch, MLflow, KFP and pytest."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
    """After the last test of a file, do the same for what it was the first to import."""
    yield
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests of documented commands with the commands."""
    if mark := metafunc.definition.get_closest_marker("documented"):
        lines = beginning_with(*mark.args, **mark.kwargs)
        if "documented_lines" in metafunc.fixturenames:
            metafunc.parametrize("documented_lines", [lines], ids=[""])
        else:
            metafunc.parametrize("documented", lines, ids=str)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what was broken on purpose, and what came of it, after a session that counted any."""
    counts = summed(report for reports in terminalreporter.stats.values() for report in reports)
    if counts:
        failed = any(terminalreporter.stats.get(outcome) for outcome in ("failed", "error"))
        terminalreporter.section("broken on purpose")
        print_counts(Console(width=100), counts, failed, skips(terminalreporter.stats.get("skipped", [])))


# These are made once for all rooms: a fixture that several modules import is made again for each of them. Only a test
# that asks for one waits for its imports.


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny BERT."""
    from tests.fixtures.tiny import tiny_bert

    return tiny_bert(tmp_path_factory.mktemp("base") / "bert")


@pytest.fixture(scope="session")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> SystemIndexes:
    """A store with the indexes of several systems, to be read."""
    from tests.fixtures.system_indexes import make

    return make(tmp_path_factory.mktemp("indexes"))


@pytest.fixture(scope="session")
def evaluated_run(tmp_path_factory: pytest.TempPathFactory) -> EvaluatedRun:
    """A store with a run that was evaluated, to be read."""
    from tests.fixtures.evaluated_run import make

    return make(tmp_path_factory.mktemp("evaluated"))


@pytest.fixture(autouse=True, scope="session")
def names_of_callers() -> Iterator[None]:
    """A faster `inspect.stack`, without source lines.

    KFP asks for the stack whenever an attribute of a task is set, to find the name of the caller. Under pytest, with
    all that is imported, that takes a fifth of a second each time: minutes in all.
    """

    def stack(context: int = 1) -> list[inspect.FrameInfo]:
        found, frame = [], sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            found.append(inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None))
            frame = frame.f_back
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "stack", stack)
        yield
