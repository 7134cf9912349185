"""What a run ends with: its table, and the commands that continue from it."""

import io
import shlex
from pathlib import Path

import pytest

from multiview import names
from multiview.artifacts.record import Reference
from multiview.artifacts.store import LocalStore
from multiview.cli.console import Console
from multiview.evaluation.tables import Significance, legend, markdown_table, marked_of
from multiview.steps.runs import StepState
from pipelines.runs import results
from pipelines.runs.results import show_results, show_table


def results_of(*states: StepState) -> list[str]:
    """The lines that a run with these steps ends with."""
    console = Console(file=(shown := io.StringIO()), color_system=None, width=200)
    show_results(console, [*states], None)
    return shown.getvalue().splitlines()


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
        "challenger": f"{store}/index/other",
        "now": 4,
    }
    monkeypatch.setattr(results, "_promotion", lambda states: promotion if champion else None)
    state = StepState(path="index", step="index", status="done", outputs={names.INDEX: index})
    lines = {line.partition(":")[0]: line for line in results_of(state)}
    assert lines["Serve it"].endswith(f"multiview serve {options}")
    if champion:  # a rerun finds what an earlier start promoted
        assert lines["Verdict"].endswith("the champion was 2 and is 4 now")
    assert shlex.split(lines["Ask it"])[-2:] == ["--index", index.address]


def test_a_promotion_names_the_store_where_it_is_today(promoted_corpus, tmp_path):
    corpus = promoted_corpus
    corpus.add("new-2")
    promoted = corpus.refresh()["promote"][names.PROMOTION]
    moved = LocalStore(Path(corpus.store.url).rename(tmp_path / "moved"))
    address = f"{moved.url}/{promoted.folder}"
    output = Reference(address=address, digest=promoted.digest)
    state = StepState(path="promote", step="promote", status="found", outputs={names.PROMOTION: output})
    lines = results_of(state)
    named = [line for line in lines if line.startswith(("Ask it", "Serve it"))]
    assert len(named) == 2 and all(moved.url in line for line in named)
    assert corpus.store.url not in "".join(lines)


def test_a_first_challenger_that_was_refused_is_the_index_to_ask(monkeypatch):
    """Not the index of nothing that it was compared with, which a step after it may hand on."""
    promotion = {"decision": "refuse", "says": "too few", "champion": None, "challenger": "/a/store/index/k"}
    monkeypatch.setattr(results, "_promotion", lambda states: promotion)
    empty = Reference(address="/a/store/index/empty", digest="0" * 64)
    state = StepState(path="champion-now", step="champion-now", status="done", outputs={names.INDEX: empty})
    asked = [line for line in results_of(state) if "--index" in line]
    assert asked and all(line.endswith("--index /a/store/index/k") for line in asked if "search" in line)


@pytest.mark.parametrize("champion", ["old", "new"])
def test_the_question_that_is_shown_is_of_the_index_to_ask(champion, monkeypatch):
    indexes = {name: Reference(address=f"/a/store/index/{name}", digest="0" * 64) for name in ("new", "old")}
    promotion = {
        "decision": "promote" if champion == "new" else "refuse",
        "says": "so",
        "champion": {"number": 2, "why": "refresh", "index": {"address": indexes[champion].address}},
        "challenger": indexes["new"].address,
    }
    monkeypatch.setattr(results, "_promotion", lambda states: promotion)
    monkeypatch.setattr(results, "_show_example", lambda console, state: state.path)
    states = [
        StepState(path=name, step="evaluate", status="done", inputs={"index": [index]})
        for name, index in indexes.items()
    ]
    (asked,) = (line for line in results_of(*states) if line.startswith("Ask it"))
    assert f"search {champion} --index /a/store/index/{champion}" in asked


def test_the_best_index_of_several_is_the_one_to_ask(monkeypatch):
    values = {"dpr": 0.5, "mvr": 0.75, "untrained": 0.25}
    monkeypatch.setattr(results, "_table", lambda states, metrics: "")
    monkeypatch.setattr(results, "_metrics", lambda states: {n: {"ndcg_at_10": v} for n, v in values.items()})
    monkeypatch.setattr(results, "_show_example", lambda console, state: state.path)
    states = []
    for name in values:
        index = Reference(address=f"/a/store/index/{name}", digest="0" * 64)
        states += [
            StepState(path=f"{name}/index", step="index", status="done", outputs={names.INDEX: index}),
            StepState(
                path=f"{name}/evaluate",
                step="evaluate",
                status="done",
                inputs={"index": [index]},
                outputs={names.EVALUATION: index},
            ),
        ]
    lines = results_of(*states)
    assert "Best index:   mvr, by nDCG@10" in lines
    assert sum(line.endswith("--index /a/store/index/mvr") for line in lines) == 2
    assert "Best index" not in "".join(results_of(*states[:2])), "others of the table may be better"


def test_a_champion_s_figures_are_shown_unless_it_was_measured_against_nothing(monkeypatch):
    monkeypatch.setattr(results, "_promotion", lambda states: {"decision": "promote"})
    evaluation = Reference(address="/store/evaluation/k", digest="0" * 64)
    states = [
        StepState(
            path=f"{side}/evaluate", step="evaluate", status="done", outputs={names.EVALUATION: evaluation}
        )
        for side in ("champion", "challenger")
    ]
    for champion, rows in ({"mrr_at_10": 0.0}, ["champion", "challenger"]), ({}, ["challenger"]):
        measured = {"champion/evaluate": champion, "challenger/evaluate": {"mrr_at_10": 0.5}}
        monkeypatch.setattr(results, "_read", lambda state, kind, file, of=measured: of[state.path])
        assert list(results._metrics(states) or {}) == rows


METRICS = {
    "mvr": {"accuracy_at_5": 0.5, "ndcg_at_10": 0.25, "views": 0.125},
    "camvr": {"accuracy_at_5": 0.75, "ndcg_at_10": 0.25},
}


def figure(p: float | None, corrected_p: float | None) -> dict:
    return {"p": p, "corrected_p": corrected_p}


SIGNIFICANCE: Significance = {
    "baseline": "mvr",
    "test": "paired randomisation",
    "resamples": 10_000,
    "systems": {
        "mvr": {"accuracy_at_5": figure(None, None), "ndcg_at_10": figure(None, None)},
        "camvr": {"accuracy_at_5": figure(0.01, 0.03), "ndcg_at_10": figure(0.04, 0.08)},
    },
}


def test_what_differs_is_marked_on_a_terminal():
    """In Markdown: tests/evaluation/test_compare.py."""
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=200)
    table = markdown_table(METRICS, marked_of(SIGNIFICANCE))
    show_table(console, f"{table}\n{legend(SIGNIFICANCE)}\n")
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    rows = [line.split() for line in lines]
    assert ["system", "acc@5", "nDCG@10", "views"] in rows
    assert ["mvr", "50.0", "25.0", "12.5"] in rows
    assert ["camvr", "75.0†", "25.0"] in rows, "by the corrected p"
    assert any(line.startswith("† differs from mvr, p < 0.05: paired") for line in lines)


def test_on_a_narrow_terminal_the_figures_are_there_too():
    """Rich leaves out what does not fit into its columns."""
    metrics = {name: {f"accuracy_at_{k}": 0.5 + k / 1000 for k in (1, 5, 20, 50, 100)} for name in METRICS}
    for width in (20, 40, 60, 200):
        file = io.StringIO()
        console = Console(file=file, force_terminal=True, width=width, soft_wrap=True)
        show_table(console, markdown_table(metrics))
        written = file.getvalue()
        assert all(f"{50 + k / 10:.1f}" in written for k in (1, 5, 20, 50, 100)), width
        assert "|" not in written and "**" not in written, width


def test_a_table_is_drawn_whole_where_the_drawn_one_fits_and_in_blocks_elsewhere():
    """Its Markdown is wider: it has asterisks and pipes."""
    metrics = {
        name: {f"accuracy_at_{k}": 0.1 * row for k in (1, 5, 20, 100)} for row, name in enumerate("ab")
    }
    blocks = {}
    for width in (39, 38):
        console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=width)
        show_table(console, markdown_table(metrics))
        assert isinstance(console.file, io.StringIO)
        blocks[width] = [line.split() for line in console.file.getvalue().splitlines() if "system" in line]
    assert blocks[39] == [["system", "acc@1", "acc@5", "acc@20", "acc@100"]]
    assert blocks[38] == [["system", "acc@1", "acc@5", "acc@20"], ["system", "acc@100"]]
