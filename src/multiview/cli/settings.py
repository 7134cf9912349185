"""`multiview config`: every setting as its class documents it."""

import json
import types
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo
from rich.text import Text

from multiview.cli.console import Console
from multiview.config import Config, Section
from multiview.config.kubeflow import GpuPod, Pod
from multiview.config.overrides import SYSTEMS, Presets, flatten, gather
from multiview.config.section import DERIVED, UNKEYED, plain
from multiview.errors import InputError, nearest
from multiview.model.systems import resolve

BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


@dataclass(frozen=True)
class Setting:
    """One setting: dotted name, type in words, default and value (as written after `=`), and docstring."""

    name: str
    type: str
    default: str
    value: str
    about: str
    keyed: bool
    """Whether artifact keys hold the setting's value."""


def sections(config: Config | None = None) -> dict[str, list[Setting]]:
    """Returns the settings of each section, in the order of `Config`, with the values of `config` (None: the defaults)."""
    defaults = Config()
    return {
        name: list(_settings(section, getattr(config or defaults, name), name)) for name, section in defaults
    }


def about(section: str) -> str:
    """Returns the docstring of a section's class."""
    return paragraph(type(getattr(Config(), section)).__doc__)


def show_settings(name: str | None, presets: Presets, settings: Sequence[str]) -> None:
    """Print all settings, a section or one setting, with the values of presets and of settings over them. Raises
    InputError for a name that is neither, and for a mistake in a preset or setting."""
    console, overrides = Console(), gather(presets, settings)
    listed = sections(resolve(overrides) if overrides else None)
    names = [*listed, *(setting.name for section in listed.values() for setting in section)]
    if name is not None and not any(_within(known, name) for known in names):
        raise InputError(f"there is no setting {name}{nearest(name, names, listed)}")
    for section, of_section in listed.items():
        shown = [setting for setting in of_section if name is None or _within(setting.name, name)]
        if len(shown) > 1:
            console.print(Text(f"{section}: {about(section)}", style="bold"))
        for setting in shown:
            _print_setting(console, setting)
        if shown and name is None:
            console.print()


def _within(setting: str, name: str) -> bool:
    """Whether a setting is the named one or in the named section; those of GPU pods are listed as `kubeflow.cpu`'s."""
    name = name.replace("kubeflow.gpu.", "kubeflow.cpu.")
    return setting == name or setting.startswith(f"{name}.")


def _print_setting(console: Console, setting: Setting) -> None:
    line = Text(f"{setting.name}={setting.value}", style="cyan")
    default = f", default {setting.default}" if setting.value != setting.default else ""
    console.print(line.append(f"  {setting.type}{default}", style="dim"))
    for about in Text(setting.about).wrap(console, console.width - 4):
        console.print(Text("    ").append_text(about))


def flattened(overrides: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yields the dotted name and the written value of each setting; each system of a comparison stays whole."""
    for name, value in flatten(overrides, whole=SYSTEMS):
        yield name, written(value)


def written(value: object) -> str:
    """Returns a value as YAML on one line; for a GPU pod, only the settings that differ from other pods'."""
    if isinstance(value, GpuPod):
        others = Pod()
        value = {name: own for name, own in value if own != getattr(others, name)}
    value = json.loads(json.dumps(value, default=plain))
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _settings(defaults: Section, values: Section, prefix: str) -> Iterator[Setting]:
    for name, field in type(defaults).model_fields.items():
        default, value = getattr(defaults, name), getattr(values, name)
        if DERIVED in field.metadata:
            continue
        if isinstance(default, Section) and not isinstance(default, GpuPod):
            yield from _settings(default, value, f"{prefix}.{name}")
        else:
            type_, meaning = _type(field.annotation, field), paragraph(field.description)
            keyed = UNKEYED not in field.metadata
            yield Setting(f"{prefix}.{name}", type_, written(default), written(value), meaning, keyed)


def _type(annotation: Any, field: FieldInfo | None = None) -> str:
    """A type in words, with the limits of a number: `int ≥ 1 or null`, `max | answer`, `list of str`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " or ".join("null" if part is type(None) else _type(part, field) for part in arguments)
    if origin is Literal:
        return " | ".join(map(str, arguments))
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is dict:
        return f"mapping of {_type(arguments[0])} to {_type(arguments[1])}"
    if hasattr(annotation, "__metadata__"):
        return _type(arguments[0], FieldInfo.from_annotation(annotation))
    bounds = [
        f" {sign} {getattr(limit, name):,.10g}"
        for limit in (field.metadata if field else ())
        for name, sign in BOUNDS.items()
        if hasattr(limit, name)
    ]
    return ("anything" if annotation is Any else annotation.__name__) + ",".join(bounds)


def paragraph(text: str | None) -> str:
    """Returns a docstring on one line."""
    return " ".join((text or "").split())
