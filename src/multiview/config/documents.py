"""YAML documents: presets, studies, profiles, schedules, and the compiled pipelines that KFP writes. Error
messages begin with the document and name the setting."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from multiview.config.section import UNKNOWN, JsonObject, Section
from multiview.errors import InputError, nearest, without_secrets

NAMED = re.compile(r"'(?!<|.')[^']*'|\"[^\"]{2,}\"")
"""Quotations from the file in YAML's errors, but not tokens ('<scalar>') and single characters."""
FOLDERS = {"preset": "presets", "study": "studies"}
"""The folders of the documents shipped with this package, by kind."""

MESSAGES = {
    "string_type": "expected a text, in quotes where YAML reads it as something else",
    "tuple_type": "expected a list",
    "dict_type": "expected names with values",
    "model_type": "expected names with values",
    "invalid_key": "expected a name",
}
"""Our messages for wrong values that pydantic describes in programmers' terms."""

PASSWORD = re.compile(r"([a-zA-Z][\w+.-]{0,20}://)[^\s/?#@:]*:(?!\d*[,;.)]*\s)[^/?#\r\n]+@")
"""An address with a name and a password, but no port or colon in a sentence."""

Checked = TypeVar("Checked", bound=Section)

LARGEST_COUNT = 300_000
"""Most names, values and brackets that a document may hold; an alias counts each time it is used."""


class DocumentError(yaml.MarkedYAMLError):
    """Well-formed YAML that cannot be settings."""


class UniqueKeys(yaml.SafeLoader):
    """A safe loader that refuses repeated keys, and numbers in base 8 or 60. PyYAML's own takes the last of two equal
    keys, 010 as eight and 1:30 as ninety."""

    def construct_number(self, node: yaml.ScalarNode) -> int | float:
        whole = node.tag.endswith(":int")
        if ":" in node.value or (whole and re.match(r"[-+]?0[0-7_]", node.value)):
            raise DocumentError(
                problem=f"{node.value} is a number in base 8 or 60; quote it if it is a text",
                problem_mark=node.start_mark,
            )
        return self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise DocumentError(problem=f"{key.value!r} is given twice", problem_mark=key.start_mark)
                seen.add(key.value)
        return node

    merged = 0
    """Values of mappings, counted again with each merge (<<), since merges of merges double them with each line."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        self.merged += len(node.value)
        if self.merged > LARGEST_COUNT:
            raise DocumentError(
                problem=f"there are more than {LARGEST_COUNT:,} values", problem_mark=node.start_mark
            )


UniqueKeys.add_constructor("tag:yaml.org,2002:int", UniqueKeys.construct_number)
UniqueKeys.add_constructor("tag:yaml.org,2002:float", UniqueKeys.construct_number)


@dataclass(frozen=True)
class Document:
    """A YAML document whose top level is a mapping."""

    where: str
    """Its kind and name, as in `preset tiny.yaml`."""
    content: JsonObject

    def checked(self, section: type[Checked], **defaults: object) -> Checked:
        """Returns the content as a section, over `defaults`. Raises InputError with the first wrong value."""
        return checked(section, defaults | self.content, self.where)


def document_names(kind: str) -> list[str]:
    """Returns the names of this package's documents of a kind."""
    return sorted(file.name.removesuffix(".yaml") for file in _folder(kind).iterdir() if _is_yaml(file.name))


def read_document(file: Path | Traversable, kind: str, name: str | None = None) -> Document:
    """Reads a YAML file. Raises InputError if the file cannot be read or holds no mapping."""
    where = f"{kind} {name or file}"
    try:
        content = _load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{where}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{where}: not UTF-8 ({error.reason}); convert the file") from None
    except yaml.YAMLError as error:
        raise InputError(f"{where} is not YAML: {_problem(error)}") from error
    if not isinstance(content, dict | None):
        raise InputError(f"{where}: expected names with values")
    return Document(where, content or {})


def _problem(error: yaml.YAMLError) -> str:
    """Returns the problem and its place, without quoting the file, because a file of profiles holds secrets."""
    if not isinstance(error, yaml.MarkedYAMLError) or not error.problem:
        return " ".join(str(error).split())
    mark = error.problem_mark
    said = error.problem if isinstance(error, DocumentError) else NAMED.sub("'…'", error.problem)
    return f"{said} (line {mark.line + 1}, column {mark.column + 1})" if mark else said


def _load(text: str) -> Any:
    """Returns the value of a YAML text: texts, numbers, truth values and null, in lists and mappings. Raises
    yaml.YAMLError, also for types that JSON lacks, for values nested too deeply, and for too many values."""
    try:
        value = yaml.load(text, Loader=UniqueKeys)
        for number, _ in enumerate(json.JSONEncoder(default=_refuse, check_circular=False).iterencode(value)):
            if number > LARGEST_COUNT:
                raise DocumentError(problem=f"there are more than {LARGEST_COUNT:,} values")
    except RecursionError:
        raise DocumentError(problem="values are nested too deeply") from None
    except (TypeError, ValueError) as error:  # a text that YAML's patterns take for a number or a date
        raise DocumentError(problem=f"{error}; quote the value if it is a text") from None
    return value


def _refuse(value: object) -> None:
    raise DocumentError(problem=f"{value!s:.80} is a {type(value).__name__}; quote it if it is a text")


def read_value(text: str, where: str) -> object:
    """Returns a single YAML value. Raises InputError; the message begins with `where`."""
    try:
        return _load(text)
    except yaml.YAMLError as error:
        reason = error.problem if isinstance(error, DocumentError) else "the value is not YAML; quote it"
        raise InputError(f"{where}: {reason}") from error


def read_compiled(text: str) -> tuple[JsonObject, JsonObject]:
    """Returns the documents of a compiled pipeline: its IR, and its pods' settings by executor (may be empty)."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # several times faster, but not built everywhere
    ir, *pods = yaml.load_all(text, Loader=loader)
    return ir, pods[0]["platforms"]["kubernetes"]["deploymentSpec"]["executors"] if pods else {}


def find_document(name: str, kind: str) -> Document:
    """Reads a YAML file, or a document of this package by its name. Raises InputError with the nearest names."""
    if _is_yaml(name):
        return read_document(Path(name), kind)
    if name not in document_names(kind):
        others = nearest(name, document_names(kind))
        raise InputError(f"there is no {kind} {name!r}{others} (a file's name ends in .yaml or .yml)")
    return read_document(_folder(kind) / f"{name}.yaml", kind, name)


def checked(section: type[Checked], content: Mapping[str, object], where: str = "") -> Checked:
    """Returns settings as a section. Raises InputError for the first wrong setting; the message begins with `where`."""
    _refuse_passwords(content, where)
    try:
        return section.model_validate(content)
    except ValidationError as error:
        line = _explain(error.errors()[0], section)
        raise InputError(f"{where}: {line}" if where else line) from error


def _refuse_passwords(value: object, where: str, name: str = "") -> None:
    """Raises InputError for an address with a password, because records, logs and MLflow keep settings."""
    if isinstance(value, str) and PASSWORD.search(value):
        shown = without_secrets(PASSWORD.sub(r"\1…@", value))
        raise InputError(
            f"{where + ': ' if where else ''}{name}: {shown} holds a password, which records and "
            "MLflow would keep; write ${NAME} for the address of a source and set that variable, or leave it out"
        )
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _refuse_passwords(inner, where, f"{name}.{key}" if name else str(key))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _refuse_passwords(inner, where, name)


def _explain(error: ErrorDetails, section: type[Section]) -> str:
    """Returns the line for one wrong setting: its dotted name, the problem and its value."""
    location, known = [str(part) for part in error["loc"]], error.get("ctx", {})
    name = ".".join(location)
    if error["type"] == UNKNOWN:
        return f"there is no setting {'.'.join([*location, known['name']])}{known['nearest']}"
    if error["type"] == "missing":
        return f"{name} is missing"
    message = MESSAGES.get(error["type"]) or error["msg"].removeprefix("Value error, ")
    message = f"{name}: {message[:1].lower()}{message[1:]}" if name else message
    field = section.model_fields.get(location[0]) if location else None
    is_secret = field is not None and not field.repr
    # The messages of our own validators are complete.
    return message if error["type"] == "value_error" or is_secret else f"{message}, not {error['input']!r}"


def _folder(kind: str) -> Traversable:
    return files("multiview.config") / FOLDERS[kind]


def _is_yaml(name: str) -> bool:
    return name.endswith((".yaml", ".yml"))
