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
