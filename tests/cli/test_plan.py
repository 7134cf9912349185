"""`multiview plan`: tables before a run, and mistakes."""

import pytest

from multiview.cli.plan import check, plan_lines
from multiview.errors import InputError
from multiview.estimates.estimate import base_config, most_views
from multiview.estimates.workload import Hardware, Workload
from tests.fixtures.inprocess import multiview_command

LOAD = Workload(21e6, 8, 100, 50_000, 3_000)


def lines(
    overrides: dict[str, object] | None = None, gpu: str = "h100", run: tuple[str, str] | None = None
) -> list[str]:
    hardware = Hardware(8, gpu, 8, 64e9)
    return [*plan_lines("training", LOAD, hardware, "bert-base", overrides or {}, None, run)]


def test_shards_are_chosen_unless_they_are_given() -> None:
    assert lines()[-1] == "8 shards: corpus.shards=8"
    assert lines({"corpus": {"shards": 20}})[-1] == "20 shards: corpus.shards=20"
    assert any("| 20, 8 at once |" in line for line in lines({"corpus": {"shards": 20}}))


def test_what_does_not_fit_is_marked() -> None:
    kinds = {line.split(" | ")[0].strip("| "): line for line in lines() if line.startswith("| ")}
    assert "too much" in kinds["hnsw"] and "too much" not in kinds["exact"]


def test_settings_decide_the_steps(monkeypatch, capsys) -> None:
    words = ["plan", "--passages", "1e6", "--model", "minilm-l6", "--set", "train.rounds=1"]
    printed = multiview_command(monkeypatch, capsys, *words)
    assert "1,000,000 passages, 8 views each" in printed and "No GPU" in printed
    assert "round-1/train" in printed and "round-2" not in printed and "GPU memory" in printed


def test_views_are_those_of_the_systems_and_sentences_have_no_limit() -> None:
    four = {"model": {"views": 4}}
    compared: dict[str, object] = {"comparison": {"systems": {"a": four, "b": {"model": {"views": 2}}}}}
    assert most_views("comparison", compared) == 4 and most_views("training", compared) == 8
    check(LOAD, [base_config({"model": {"architecture": "sentence", "views": 2}})])
    with pytest.raises(InputError, match="--views 8: the settings index 4 per passage at most"):
        check(LOAD, [base_config(four)])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"gpu": "h1000"}, "no GPU 'h1000'.*h100"),
        ({"overrides": {"train": {"epoch": 3}}}, "epoch"),
        ({"run": ("store", "gone")}, "no run gone"),
    ],
)
def test_mistakes_are_named(change, line: str, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=line):
        lines(**change)
