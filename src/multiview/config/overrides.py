"""Presets and `--set`: nested overrides of the config classes, checked with one clear line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ValidationError

from multiview.config import Config
from multiview.errors import InputError, nearest
from multiview.model.layouts import architecture, check

Overrides = dict[str, Any]

SHARED = {"corpus", "questions", "bm25", "generation", "evaluation", "comparison"}
"""Sections that the systems of a comparison cannot differ in."""


def gather(preset: str | None, settings: Iterable[str]) -> Overrides:
    """The overrides of a preset (a name, or a YAML file) and of `section.name=value` settings, in
    that order; values are YAML. Raises InputError."""
    overrides = read_preset(preset) if preset else {}
    for setting in settings:
        overrides = merge(overrides, parse_setting(setting))
    return overrides


def parse_setting(setting: str) -> Overrides:
    """`encode.compute=float32` as a nested dict. Raises InputError."""
    name, equals, text = setting.partition("=")
    if not equals or not name:
        raise InputError(f"--set {setting}: expected SECTION.NAME=VALUE, as in encode.compute=float32")
    try:
        value: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"--set {setting}: the value is not YAML; quote it") from error
    for part in reversed(name.split(".")):
        value = {part: value}
    return value


def preset_names() -> list[str]:
    folder = files("multiview.config") / "presets"
    return sorted(
        entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")
    )


def read_preset(name: str) -> Overrides:
    """Raises InputError if there is no such preset, or if it is no mapping."""
    if name.endswith((".yaml", ".yml")):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"preset {name}: {getattr(error, 'strerror', None) or error}") from error
    elif name in preset_names():
        text = (files("multiview.config") / "presets" / f"{name}.yaml").read_text(encoding="utf-8")
    else:
        raise InputError(f"there is no preset {name!r}{nearest(name, preset_names())}")
    try:
        overrides = yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise InputError(f"preset {name} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(overrides, dict):
        raise InputError(f"preset {name}: expected sections with settings")
    return overrides


def merge(*layers: Mapping[str, Any], depth: int = 0) -> Overrides:
    """Nested dicts merged; later layers win. Below a section an empty dict empties what is below it, as in
    `train.warm_up={}`."""
    merged: Overrides = {}
    for layer in layers:
        for name, value in layer.items():
            below = merged.get(name)
            if isinstance(below, Mapping) and isinstance(value, Mapping) and (value or not depth):
                value = merge(below, value, depth=depth + 1)
            merged[name] = value
    return merged


def resolve(overrides: Overrides) -> Config:
    """The config of one system: its architecture's defaults under the overrides.

    Raises InputError naming the setting.
    """
    name = validate(overrides).model.architecture
    config = validate(merge(architecture(name).defaults, overrides))
    check(config.model, config.train)
    return config


def resolve_systems(overrides: Overrides) -> dict[str, Config]:
    """The config of each of a comparison's systems. Raises InputError."""
    shared = {name: value for name, value in overrides.items() if name != "comparison"}
    config = validate(overrides)
    architecture(config.model.architecture)
    systems = config.comparison.systems
    if not systems:
        raise InputError("comparison.systems is empty: name at least one system")
    resolved = {}
    for name, system in systems.items():
        if not name.replace("-", "").replace("_", "").isalnum() or name == "bm25":
            raise InputError(f"comparison.systems.{name}: use letters, digits, - and _, and not bm25")
        if shared_by_all := (SHARED | PLACES) & set(system):
            raise InputError(
                f"comparison.systems.{name}: {', '.join(sorted(shared_by_all))} is the same for all systems; "
                "set it outside comparison.systems"
            )
        try:
            resolved[name] = resolve(merge(shared, system))
        except InputError as error:
            raise InputError(f"comparison.systems.{name}: {error}") from error
    return resolved


PLACES = {"kubeflow", "notify"}
"""Sections that say where steps run and whom to tell, and nothing of what they do."""


def outcome(overrides: Overrides) -> Overrides:
    """The overrides that decide what a run does: the same wherever it runs."""
    return {name: value for name, value in overrides.items() if name not in PLACES}


STAGES = ("warm_up", "round_two")
"""Settings of section train that hold the differences of a stage of training."""


SHAPE = {"rounds", "model", "start_from", *STAGES}
"""Settings of section train that are one for all stages."""


def stage_settings(config: Config, stage: Literal["warm_up", "round_two"] | None) -> Config:
    """The config of one stage of training, its differences (`train.warm_up`, `train.round_two`) applied.

    None is round one, which has none. Raises InputError.
    """
    overrides = config.model_dump(exclude_unset=True)
    for name in STAGES:
        overrides.get("train", {}).pop(name, None)
    changes = getattr(config.train, stage) if stage else {}
    if of_all := SHAPE & set(changes):
        raise InputError(
            f"train.{stage}: {', '.join(sorted(of_all))} cannot differ in a stage; set train.{min(of_all)}"
        )
    try:
        config = validate(merge(overrides, {"train": changes}))
        check(config.model, config.train)
    except InputError as error:
        raise InputError(f"train.{stage}: {error}") from error
    return config


def validate(overrides: Overrides) -> Config:
    """Raises InputError with the first wrong setting, and the nearest name for an unknown one."""
    try:
        return Config.model_validate(overrides)
    except ValidationError as error:
        first = error.errors()[0]
        place = [str(part) for part in first["loc"]]
        name = ".".join(place)
        if first["type"] == "extra_forbidden":
            raise InputError(f"there is no setting {name}{nearest(place[-1], _siblings(place))}") from error
        message = first["msg"].removeprefix("Value error, ")
        raise InputError(f"{name}: {message[0].lower()}{message[1:]}, not {first['input']!r}") from error


def _siblings(place: list[str]) -> list[str]:
    section: type[BaseModel] = Config
    for part in place[:-1]:
        inner = section.model_fields[part].annotation
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        section = inner
    return list(section.model_fields)


def leaves(overrides: Overrides, prefix: str = "") -> list[str]:
    """Dotted names of all settings in nested overrides; those of a comparison's system by their own
    names, as in train.epochs."""
    found = []
    for name, value in overrides.items():
        if isinstance(value, Mapping) and value:
            found += leaves(dict(value), f"{prefix}{name}.")
        else:
            found.append(f"{prefix}{name}")
    systems = "comparison.systems."
    return [
        leaf.removeprefix(systems).partition(".")[2] if leaf.startswith(systems) else leaf for leaf in found
    ]
