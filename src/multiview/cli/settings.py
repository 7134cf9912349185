"""Every setting as its class documents it: `multiview config`, and docs/configuration.md."""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

import yaml
from pydantic.fields import FieldInfo
from rich.console import Console
from rich.text import Text

from multiview.config import Config, Section
from multiview.config.overrides import preset_names, read_preset
from multiview.config.section import plain
from multiview.errors import InputError, nearest
from multiview.model.layouts import LAYOUTS
from multiview.steps.table import STEPS

BOUNDS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}


@dataclass(frozen=True)
class Setting:
    """One setting under its dotted name."""

    name: str
    type: str
    default: str
    """As it would be written after `=`."""
    value: str
    """What a configuration has there, written alike."""
    about: str
    """The attribute's docstring."""
    keyed: bool
    """Whether it is part of artifact keys, by its value."""


@dataclass(frozen=True)
class Group:
    """A section: its class's docstring, its settings, and the steps that read it."""

    name: str
    about: str
    settings: tuple[Setting, ...]
    steps: tuple[str, ...]


def groups(config: Config | None = None) -> list[Group]:
    """All sections, in the order of `Config`, with the values of `config` (none: the defaults)."""
    defaults = Config()
    config = config or defaults
    found = []
    for name, field in Config.model_fields.items():
        section: type[Section] = field.annotation  # type: ignore[assignment]
        readers = (s.name for s in STEPS.values() if any(part.split(".")[0] == name for part in s.settings))
        settings = tuple(_settings(getattr(defaults, name), getattr(config, name), name))
        found.append(Group(name, _paragraph(section.__doc__), settings, tuple(readers)))
    return found


def markdown() -> str:
    """docs/configuration.md."""
    parts = [
        "# Configuration\n\n"
        "*Written by `make docs` from `src/multiview/config/`; `multiview config` shows the same.*\n\n"
        "Settings are changed by a preset (`--preset`, a name or a YAML file) and then by "
        "`--set SECTION.NAME=VALUE`, whose value is YAML: `--set train.warmup_steps=null`, "
        "`--set 'corpus.columns={id: pid}'`. A default is the papers' unless it says *ours*. A setting "
        "marked ° is not in artifact keys: it changes how a step runs and not what it writes, names what "
        "the key holds by content, or shapes the pipeline.\n"
    ]
    for group in groups():
        readers = f" Read by: {', '.join(group.steps)}." if group.steps else ""
        parts.append(f"## {group.name}\n\n{group.about}{readers}\n")
        rows = [
            (f"`{s.name}`{'' if s.keyed else ' °'}", _code(s.type), _code(s.default), s.about)
            for s in group.settings
        ]
        parts.append(_table(("setting", "type", "default", "meaning"), rows))
    parts.append("## Architectures\n\nEach brings defaults of its own, under whatever is set.\n")
    rows = [(f"`{name}`", _listed(kind.defaults)) for name, kind in LAYOUTS.items()]
    parts.append(_table(("`model.architecture`", "defaults"), rows))
    parts.append("## Presets\n")
    for name in preset_names():
        preset = read_preset(name)
        parts.append(f"### {name}\n")
        parts.append(_table(("setting", "value"), [(f"`{n}`", _code(v)) for n, v in flattened(preset)]))
    return "\n".join(parts)


def print_settings(console: Console, name: str | None, config: Config | None = None) -> None:
    """All settings, those of a section, or one, with their values in `config` (none: the defaults).

    Raises InputError for a name that is neither.
    """
    every = groups(config)
    names = [g.name for g in every] + [s.name for g in every for s in g.settings]
    if name is not None and name not in names and not any(known.startswith(f"{name}.") for known in names):
        raise InputError(f"there is no setting {name}{nearest(name, names)}")
    for group in every:
        chosen = [
            s for s in group.settings if name is None or s.name == name or s.name.startswith(f"{name}.")
        ]
        if not chosen:
            continue
        if len(chosen) > 1:
            console.print(Text(f"{group.name}: {group.about}", style="bold"))
        for setting in chosen:
            line = Text(f"{setting.name}={setting.value}", style="cyan")
            default = f", default {setting.default}" if setting.value != setting.default else ""
            console.print(line.append(f"  {setting.type}{default}", style="dim"))
            for about in Text(setting.about).wrap(console, console.width - 4):
                console.print(Text("    ").append_text(about))
        if name is None:
            console.print()


def flattened(overrides: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Nested overrides as (dotted name, value); a comparison's systems stay whole."""
    for name, value in overrides.items():
        if isinstance(value, Mapping) and value and prefix != "comparison.systems.":
            yield from flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", written(value)


def written(value: Any) -> str:
    """A value as YAML on one line."""
    value = json.loads(json.dumps(value, default=plain))
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def _settings(defaults: Section, values: Section, prefix: str) -> Iterator[Setting]:
    for name, field in type(defaults).model_fields.items():
        default, value = getattr(defaults, name), getattr(values, name)
        if isinstance(default, Section):
            yield from _settings(default, value, f"{prefix}.{name}")
            continue
        extra = field.json_schema_extra
        yield Setting(
            f"{prefix}.{name}",
            _type(field.annotation, field),
            written(default),
            written(value),
            _paragraph(field.description),
            keyed=not (isinstance(extra, dict) and extra.get("how")),
        )


def _type(kind: Any, field: FieldInfo | None = None) -> str:
    """A type in words: `int ≥ 1 or null`, `max | answer`, `list of str`."""
    origin, inner = get_origin(kind), get_args(kind)
    bounds = ",".join(
        f" {sign} {getattr(known, name):g}"
        for known in (field.metadata if field else ())
        for name, sign in BOUNDS.items()
        if hasattr(known, name)
    )
    if origin in (Union, types.UnionType):
        return " or ".join("null" if one is type(None) else _type(one, field) for one in inner)
    if origin is Literal:
        return " | ".join(map(str, inner))
    if origin is tuple:
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return f"mapping of {_type(inner[0])} to {_type(inner[1])}"
    if hasattr(kind, "__metadata__"):
        return _type(inner[0], FieldInfo.from_annotation(kind))
    return {Any: "anything"}.get(kind, getattr(kind, "__name__", str(kind))) + bounds


def _listed(overrides: Mapping[str, Any]) -> str:
    return ", ".join(f"`{name}={value}`" for name, value in flattened(overrides)) or "none of its own"


def _paragraph(text: str | None) -> str:
    return " ".join((text or "").split())


def _code(text: str) -> str:
    return f"`{text}`" if text else "` `"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table; a bar in a cell would end it."""
    lines = [head, tuple("---" for _ in head), *rows]
    return (
        "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines) + "\n"
    )
