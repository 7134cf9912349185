"""Settings: declared once, overridden by presets and --set, checked with one line."""

import json
from pathlib import Path

import pytest

from multiview.config import Config, Section, canonical_json
from multiview.config.overrides import gather, validate
from multiview.errors import InputError
from multiview.steps.table import STEPS
from tests.fixtures.settings import settings_of

FIXTURE = Path(__file__).parent / "defaults.json"


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


if __name__ == "__main__":
    FIXTURE.write_text(json.dumps(defaults(), indent=1, sort_keys=True) + "\n")


@pytest.mark.parametrize(
    "address", ["http://[::1]:8080/v1", "https://ann@host_1.example:443?a=[b]", "http://10.0.0.1"]
)
def test_an_address_may_be_of_any_host(address: str) -> None:
    assert validate(gather(None, [f"notify.url={address}"])).notify.url == address


def test_the_address_of_a_language_model_has_no_query() -> None:
    """The client appends a path, and settings are recorded: an API key is no part of them."""
    with pytest.raises(InputError, match=r"base_url: expected an address without \? and #") as refused:
        validate(gather(None, ["make_questions.llm.base_url=https://host/v1?api-key=planted"]))
    assert "planted" not in str(refused.value)


def test_a_setting_that_holds_half_a_character_is_refused() -> None:
    with pytest.raises(InputError, match="model.base: expected a text in UTF-8"):
        validate({"model": {"base": "\udcff"}})
