"""Presets and `--set`: nested overrides of the config classes, and their validation."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce

from multiview.config import Config, JsonObject
from multiview.config.documents import checked, find_document, read_value
from multiview.config.section import DERIVED
from multiview.errors import InputError

Overrides = JsonObject
Presets = str | Sequence[str] | None
"""The names or YAML files of presets, of which later ones win."""

DERIVED_SETTINGS = [
    f"{name}.{setting}"
    for name, section in Config()
    for setting, field in type(section).model_fields.items()
    if DERIVED in field.metadata
]
_BETWEEN = re.compile(r"\n|;(?=\s*[\w-]+(?:\.[\w-]+)+\s*=)")
"""What separates two settings in a text: the end of a line, or a semicolon before a setting's name."""


def gather(presets: Presets, settings: Iterable[str]) -> Overrides:
    """Returns the presets' overrides, with `section.name=value` settings (in YAML) over them. Raises InputError."""
    overrides = merge(*map(read_preset, _listed(presets)), *map(parse_setting, settings))
    for given in leaves(overrides):
        for name in DERIVED_SETTINGS:
            if f"{given}.".startswith(f"{name}."):
                raise InputError(f"there is no setting {name}: multiview fills it in")
    return overrides


def _listed(presets: Presets) -> Sequence[str]:
    return [presets] if isinstance(presets, str) else presets or ()


def preset_label(presets: Presets) -> str | None:
    """Returns the presets as a run's description names them; None without any."""
    return ", ".join(_listed(presets)) or None


def parse_setting(setting: str) -> Overrides:
    """Returns a setting such as `encode.compute=float32` as a nested dict. Raises InputError."""
    name, equals, text = setting.partition("=")
    if not equals or not all(name.split(".")):
        raise InputError(f"--set {setting}: expected SECTION.NAME=VALUE, as in encode.compute=float32")
    if not text.strip():
        raise InputError(
            f"--set {setting}: there is no value; write {name}=null, or \"{name}=''\" for an empty text"
        )
    return nested(name, read_value(text, f"--set {setting}"))


def nested(name: str, value: object) -> Overrides:
    """Returns a value under a dotted name as nested overrides."""
    *sections, last = name.split(".")
    return reduce(lambda inner, section: {section: inner}, reversed(sections), {last: value})


def parse_settings(text: str) -> Overrides:
    """Returns settings from a text with one `section.name=value` per line, or several separated by semicolons."""
    return gather(None, [part for part in (part.strip(" \t\r;") for part in _BETWEEN.split(text)) if part])


def read_preset(name: str, *above: str) -> Overrides:
    """Reads a preset, by its name or from a YAML file, over the presets that it `extends`; later ones win. `above` are
    those that led to it. Raises InputError for an unknown preset, and for presets in a circle."""
    document = find_document(name, "preset")
    content = dict(document.content)
    extended = content.pop("extends", [])
    names = [extended] if isinstance(extended, str) else extended
    if not isinstance(names, list) or not all(isinstance(below, str) for below in names):
        raise InputError(
            f"{document.where}: extends: expected the name of a preset or a YAML file, or a list of them"
        )
    for below in names:
        if below in (chain := (*above, name)):
            raise InputError(f"{document.where}: extends: presets in a circle: {' → '.join((*chain, below))}")
    return merge(*(read_preset(below, *above, name) for below in names), content)


def merge(*layers: Mapping[str, object], depth: int = 0) -> Overrides:
    """Merges nested dicts; later layers win. Within a section, an empty dict replaces the value: `train.warm_up={}`."""
    merged: Overrides = {}
    for layer in layers:
        for name, value in layer.items():
            below = merged.get(name)
            if isinstance(below, Mapping) and isinstance(value, Mapping) and (value or not depth):
                value = merge(below, value, depth=depth + 1)
            merged[name] = value
    return merged


def value_at(overrides: Mapping[str, object], name: str) -> object:
    """Returns the value of a dotted name in nested overrides, None if there is none."""
    value: object = overrides
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def flatten(
    overrides: Mapping[str, object], whole: str = "", prefix: str = ""
) -> Iterator[tuple[str, object]]:
    """Yields each setting's dotted name (`train.warm_up.seed`) and value; what is directly below `whole` stays whole."""
    for name, value in overrides.items():
        if isinstance(value, Mapping) and value and (not whole or prefix != f"{whole}."):
            yield from flatten(value, whole, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


SYSTEMS = "comparison.systems"
"""Setting with the settings of each system of a comparison, by its name."""

PLATFORM_SECTIONS = {"kubeflow", "notify"}
"""Sections that say where steps run and whom to notify; they change no step's output."""


def outcome(overrides: Overrides) -> Overrides:
    """Returns the overrides that decide a run's results, which do not depend on where it runs."""
    return {name: value for name, value in overrides.items() if name not in PLATFORM_SECTIONS}


def validate(overrides: Overrides) -> Config:
    """Returns the validated Config. Raises InputError with the first wrong setting, and the nearest name for an unknown one."""
    return checked(Config, overrides)


def leaves(overrides: Overrides) -> list[str]:
    """Returns the dotted names of all settings in nested overrides, without the names of a comparison's systems."""
    of_systems = f"{SYSTEMS}."
    return [
        name.removeprefix(of_systems).partition(".")[2] if name.startswith(of_systems) else name
        for name, _ in flatten(overrides)
    ]
