"""YAML files that a person writes, as checked settings; errors are one line that names the place."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from multiview.config import Section
from multiview.errors import InputError, nearest

Checked = TypeVar("Checked", bound=Section)


def read_mapping(path: Path, what: str) -> dict[str, Any]:
    """The content of a YAML file. Raises InputError if it cannot be read, or is no mapping."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{what} {path}: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        raise InputError(f"{what} {path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise InputError(f"{what} {path}: expected names with values")
    return content


def checked(section: type[Checked], content: Any, where: str) -> Checked:
    """`content` as a `section`. Raises InputError that begins with `where` and names the first wrong value."""
    try:
        return section.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            near = nearest(name, section.model_fields) if len(first["loc"]) == 1 else ""
            raise InputError(f"{where}: there is no {name}{near}") from error
        if first["type"] == "missing":
            raise InputError(f"{where}: {name} is missing") from error
        message = first["msg"].removeprefix("Value error, ")
        given = "" if first["type"] == "value_error" else f", not {first['input']!r}"
        place = f"{where}: {name}: " if name else f"{where}: "
        raise InputError(f"{place}{message[:1].lower()}{message[1:]}{given}") from error
