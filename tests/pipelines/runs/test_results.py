"""What a run's results say besides its table."""

import io
import shlex

import pytest

from multiview import names
from multiview.artifacts.record import Reference
from multiview.steps.runs import StepState
from multiview.terminal import Console
from pipelines.runs import results
from pipelines.runs.results import show_results


@pytest.mark.parametrize(
    ("store", "champion", "options"),
    [
        ("/a/store", True, "--store /a/store"),
        ("/a/store", False, "--index /a/store/index/k"),
        ("/my $store", True, "--store '/my $store'"),
        ("/my $store", False, "--index '/my $store/index/k'"),
    ],
)
def test_what_a_refresh_promoted_is_served_with_the_next_champions(store, champion, options, monkeypatch):
    index = Reference(address=f"{store}/index/k", digest="0" * 64)
    promotion = {
        "decision": "promote",
        "says": "all checks passed",
        "champion": {"number": 2, "why": "refresh", "index": {"address": index.address}},
    }
    monkeypatch.setattr(results, "_promotion", lambda states: promotion if champion else None)
    console = Console(file=io.StringIO(), color_system=None, width=200)
    state = StepState(path="index", step="index", status="done", outputs={names.INDEX: index})
    show_results(console, [state], None)
    assert isinstance(console.file, io.StringIO)
    lines = {line.partition(":")[0]: line for line in console.file.getvalue().splitlines()}
    assert lines["Serve it"].endswith(f"multiview serve {options}")
    assert shlex.split(lines["Ask it"])[-2:] == ["--index", index.address]


@pytest.mark.parametrize(
    ("decision", "why", "rows"),
    [
        ("promote", "first", ["challenger"]),
        ("refuse", "first", ["champion", "challenger"]),
        ("keep", "first", ["champion", "challenger"]),
        ("promote", "refresh", ["champion", "challenger"]),
    ],
)
def test_a_champion_s_figures_are_shown_unless_it_was_measured_against_nothing(
    decision, why, rows, monkeypatch
):
    promotion = {"decision": decision, "champion": {"number": 1, "why": why}}
    monkeypatch.setattr(results, "_promotion", lambda states: promotion)
    monkeypatch.setattr(results, "_read", lambda state, kind, file: {"mrr_at_10": 0.5})
    evaluation = Reference(address="/store/evaluation/k", digest="0" * 64)
    states = [
        StepState(
            path=f"{side}/evaluate", step="evaluate", status="done", outputs={names.EVALUATION: evaluation}
        )
        for side in ("champion", "challenger")
    ]
    assert list(results._metrics(states) or {}) == rows
