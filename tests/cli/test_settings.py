"""Settings as `multiview config` and the page of settings show them."""

import sys

import pytest

from multiview.cli import settings as settings_text
from multiview.cli.app import main
from multiview.cli.settings import sections
from multiview.config import Config
from multiview.config.overrides import DERIVED_SETTINGS, parse_setting, read_preset, validate
from multiview.errors import InputError
from multiview.model.systems import resolve
from tests.fixtures.settings import settings_of

LISTED = {
    "kubeflow.gpu" if name.startswith("kubeflow.gpu.") else name for name in settings_of(Config())
} - set(DERIVED_SETTINGS)


def test_a_default_is_written_as_it_would_be_set():
    settings = [setting for section in sections().values() for setting in section]
    assert {setting.name for setting in settings} == LISTED
    for setting in settings:
        assert validate(parse_setting(f"{setting.name}={setting.default}")) == Config(), setting.name


def test_settings_are_shown_by_their_names(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")

    def shown(name: str | None) -> str:
        settings_text.show_settings(name, None, [])
        return capsys.readouterr().out

    assert shown("mining.depth").splitlines() == [
        "mining.depth=200  int ≥ 1",
        "    Retrieved passages per training question.",
    ]
    assert [line.split("=")[0] for line in shown("train.temperature").splitlines() if "=" in line] == [
        f"train.temperature.{name}" for name in ("schedule", "value", "floor", "alpha", "clock")
    ]
    everything = shown(None)
    assert all(f"\n{name}=" in everything for name in LISTED)
    with pytest.raises(InputError, match="there is no setting train.epoch; did you mean train.epochs"):
        shown("train.epoch")


def test_a_preset_s_numbers_are_shown(monkeypatch, capsys):
    words = ["multiview", "config", "train.batch_size", "--preset", "paper-camvr"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().out.splitlines()[0] == "train.batch_size=112  int ≥ 1, default 128"


def test_a_setting_shows_its_value_and_its_default():
    camvr = {s.name: s for each in sections(resolve(read_preset("paper-camvr"))).values() for s in each}
    assert (camvr["train.learning_rate"].value, camvr["train.learning_rate"].default) == (
        "1.0e-05",
        "2.0e-05",
    )
    assert camvr["train.temperature.schedule"].value == "annealed"  # the architecture's
    unchanged = {s.name: s for each in sections().values() for s in each}
    assert all(setting.value == setting.default for setting in unchanged.values())
