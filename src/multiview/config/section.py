"""The base class of groups of settings, and how settings become text and keys."""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, LiteralString, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from multiview.errors import UndeclaredAccess, nearest

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object. Its values have no static type: they are whatever `json.loads` returns."""

UNKEYED = "unkeyed"
"""Marks a setting that is no part of the key: it never changes the output, or the key holds it by content."""

DERIVED = "derived"
"""Marks a field that plans fill in from other settings, so that nobody sets it and `multiview config` does not list it."""

UNKNOWN = "unknown_setting"
"""The type of pydantic's error for a name that no setting has; its context holds the `name` and the `nearest` ones."""

Seed = Annotated[int, Field(ge=0, lt=1 << 31)]
"""Seed of random choices, within the range that every generator takes."""


def _holds_bool(value: object) -> bool:
    """Whether a value is true or false, or may hold either, as a section, which checks its own settings."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return isinstance(value, bool | BaseModel) or any(map(_holds_bool, inner))


def matching(pattern: str, line: LiteralString) -> AfterValidator:
    """Returns a validator that a text matches a pattern; `line` is its error message."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise PydanticCustomError("pattern", line)
        return value

    return AfterValidator(check)


ADDRESS_EXPECTED = "expected an address as in http://HOST:PORT or https://HOST"
Address = Annotated[
    str,
    matching(r"https?://[^\s/?#]+\S*", ADDRESS_EXPECTED),
    # HttpUrl checks the port, and the brackets of an IPv6 host.
    AfterValidator(lambda text: HttpUrl(text) and text),
]
"""Address of an HTTP service."""


class Section(BaseModel):
    """A frozen group of settings; unknown names are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    @classmethod
    def partial(cls, values: Mapping[str, object]) -> Self:
        """Returns a section with only the settings in `values`; reading any other raises UndeclaredAccess."""
        section = cls.model_validate(values)
        for name in cls.model_fields.keys() - values.keys():
            del vars(section)[name]
        return section

    @model_validator(mode="before")
    @classmethod
    def _names_are_known(cls, values: object) -> object:
        for name in values if isinstance(values, dict) else ():
            if isinstance(name, str) and name not in cls.model_fields:
                known = [each for each, field in cls.model_fields.items() if DERIVED not in field.metadata]
                context = {"name": name, "nearest": nearest(name, known)}
                raise PydanticCustomError(UNKNOWN, "there is no setting {name}{nearest}", context)
        return values

    @field_validator("*", mode="before")
    @classmethod
    def _no_half_characters(cls, value: object) -> object:
        try:
            _ = isinstance(value, str) and value.encode()
        except UnicodeEncodeError as error:
            raise PydanticCustomError("kind", "expected a text in UTF-8") from error
        return value

    @field_validator("*", mode="wrap")
    @classmethod
    def _no_truth_value_for_a_number(cls, value: object, validate: ValidatorFunctionWrapHandler) -> object:
        found = validate(value)
        if _holds_bool(value) and not _holds_bool(found):
            raise PydanticCustomError("kind", "expected a value of another kind than true or false")
        return found

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            if name in type(self).model_fields:
                raise UndeclaredAccess(
                    f"{type(self).__name__.lower()}.{name} is read by a step that does not declare it: add it to "
                    "the step's settings in steps/table"
                )
            return super().__getattr__(name)

    def key_settings(self) -> JsonObject:
        """Returns the settings that change an output and differ from their defaults, JSON-ready. So a new setting
        invalidates no artifact; a changed default needs a new step version (a test pins the defaults)."""
        settings: dict[str, object] = {}
        for name, field in type(self).model_fields.items():
            if name not in self.__dict__ or UNKEYED in field.metadata:
                continue
            value = getattr(self, name)
            if isinstance(value, Section):
                if inner := value.key_settings():
                    settings[name] = inner
            elif value != field.get_default(call_default_factory=True):
                settings[name] = value
        return json.loads(canonical_json(settings))


def canonical_json(value: object) -> str:
    """Returns the canonical JSON text of a value: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False, default=plain
    )


def text_sha256(text: str) -> str:
    """Returns the sha256 of a text, in hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


def plain(value: BaseModel) -> JsonObject:
    """Returns a section as JSON-ready values, for sections anywhere in a value."""
    return value.model_dump(mode="json")
