"""Values that no setting takes: of each setting of each section one of the wrong kind, one out of range, one misspelt."""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo

from multiview.config import Config, Section
from multiview.config.overrides import DERIVED_SETTINGS


def fields(section: type[Section] = Config, prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every setting with its dotted name."""
    for name, field in section.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            yield from fields(inner, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field


def members(annotation: Any) -> list[Any]:
    """The types of a union without None and without what annotates them."""
    if hasattr(annotation, "__metadata__"):
        return members(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        return [each for part in get_args(annotation) if part is not type(None) for each in members(part)]
    return [annotation]


def of_wrong_kind(annotation: Any) -> str:
    """A YAML value of another kind than a setting has."""
    (kind,) = members(annotation)
    if get_origin(kind) is Literal:
        return "nothing-of-that"
    if kind is str:
        return "[1, 2]"
    return "{a: {b: 1}}" if get_origin(kind) is tuple else "5.5.5"


def limits(annotation: Any, metadata: tuple[Any, ...] = ()) -> Iterator[Any]:
    yield from metadata
    if hasattr(annotation, "__metadata__"):
        for each in annotation.__metadata__:
            yield from each.metadata if isinstance(each, FieldInfo) else [each]
        yield from limits(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from limits(part)


def out_of_range(field: FieldInfo) -> Iterator[tuple[str, str]]:
    """Numbers beyond a setting's limits, with how the line says so."""
    for limit in limits(field.annotation, tuple(field.metadata)):
        match limit:
            case Ge(ge=int() | float() as least):
                yield str(least - 1), "greater than or equal to"
            case Gt(gt=int() | float() as least):
                yield str(least), "greater than"
            case Le(le=int() | float() as most):
                yield str(most + 1), "less than or equal to"
            case Lt(lt=int() | float() as most):
                yield str(most), "less than"


def refused() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Settings as they are typed, made from the declarations of all, with parts of the line that refuses each."""
    for name, field in fields():
        if name in DERIVED_SETTINGS:
            yield f"{name}=1", (f"no setting {name}",)
            continue
        yield f"{name}={of_wrong_kind(field.annotation)}", (name, "not ")
        for number, says in out_of_range(field):
            yield f"{name}={number}", (name, says, number)
    for section in Config.model_fields:
        first = next(name for name, _ in fields() if name.startswith(f"{section}."))
        misspelt = first + first[-1]
        yield f"{misspelt}=1", (f"no setting {misspelt}", f"did you mean {first.split('.')[1]}")
        yield f"{section}=much", (section, "much")
