"""YAML documents that a person writes, or that come with this package: presets, studies, profiles, schedules.

Every error is one line that begins with the document and names the place in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from multiview.config.section import Section
from multiview.errors import InputError, nearest

FOLDERS = {"preset": "presets", "study": "studies"}
"""The folders of the documents that come with this package, by kind."""

Checked = TypeVar("Checked", bound=Section)


@dataclass(frozen=True)
class Document:
    """The content of a YAML document whose top level is a mapping."""

    where: str
    """The kind and the name of the document, as in `preset tiny.yaml`."""
    content: dict[str, Any]

    def checked(self, section: type[Checked], **defaults: Any) -> Checked:
        """Returns the content as a section, over `defaults`. Raises InputError with the first wrong value."""
        return checked(section, defaults | self.content, self.where)


def document_names(kind: str) -> list[str]:
    """Returns the names of the documents of a kind that come with this package."""
    return sorted(file.name.removesuffix(".yaml") for file in _folder(kind).iterdir() if _is_yaml(file.name))


def read_document(file: Path | Traversable, kind: str, name: str | None = None) -> Document:
    """Reads a YAML file. Raises InputError for a file that cannot be read, or holds no mapping."""
    where = f"{kind} {name or file}"
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{where}: {getattr(error, 'strerror', None) or error}") from error
    except yaml.YAMLError as error:
        raise InputError(f"{where} is not YAML: {' '.join(str(error).split())}") from error
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise InputError(f"{where}: expected names with values")
    return Document(where, content)


def find_document(name: str, kind: str) -> Document:
    """Reads a YAML file, or a document of this package by its name. Raises InputError with the nearest names."""
    if _is_yaml(name):
        return read_document(Path(name), kind)
    if name not in document_names(kind):
        raise InputError(f"there is no {kind} {name!r}{nearest(name, document_names(kind))}")
    return read_document(_folder(kind) / f"{name}.yaml", kind, name)


def checked(section: type[Checked], content: Mapping[str, Any], where: str = "") -> Checked:
    """Returns settings as a section. Raises InputError that begins with `where` and names the first wrong setting."""
    try:
        return section.model_validate(content)
    except ValidationError as error:
        line = _explain(error.errors()[0], section)
        raise InputError(f"{where}: {line}" if where else line) from error


def _explain(error: ErrorDetails, section: type[BaseModel]) -> str:
    """The line for one wrong setting: its dotted name, what is wrong with it, and its value."""
    place = [str(part) for part in error["loc"]]
    name, value = ".".join(place), error["input"]
    if error["type"] == "extra_forbidden":
        siblings = _settings_beside(place, section)
        return f"there is no setting {name}{nearest(place[-1], siblings) if siblings else ''}"
    if error["type"] == "missing":
        return f"{name} is missing"
    message = error["msg"].removeprefix("Value error, ")
    message = f"{name}: {message[:1].lower()}{message[1:]}" if name else message
    # Our own validators may have said the value already, or be about a whole table of values.
    ours = error["type"] == "value_error"
    said = ours and (_names(message, value) or isinstance(value, (Mapping, list, tuple)))
    return message if said else f"{message}, not {value!r}"


def _names(message: str, value: object) -> bool:
    """Whether a message has a value as a word of its own, and not only behind another setting's `=`."""
    return re.search(rf"(?<![\w=.]){re.escape(repr(value))}(?!\w)", message) is not None


def _settings_beside(place: list[str], section: type[BaseModel]) -> list[str]:
    """The settings of the section in which a place lies; empty where it lies in no section."""
    inner: type[BaseModel] | None = section
    for part in place[:-1]:
        if inner is None:
            return []
        if part in inner.model_fields:
            inner = _section_in(inner.model_fields[part].annotation)
        elif not part.isdigit():  # of a list
            return []
    return list(inner.model_fields) if inner else []


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """The section that a setting is, or is a list of."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _section_in(part))), None)


def _folder(kind: str) -> Traversable:
    return files("multiview.config") / FOLDERS[kind]


def _is_yaml(name: str) -> bool:
    return name.endswith((".yaml", ".yml"))
