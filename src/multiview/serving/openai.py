"""Searches in the shape of OpenAI's vector stores: filters as conditions, hits as pages of results."""

import json
from collections.abc import Sequence

from multiview.data.reading.values import shown_value
from multiview.serving.hits import Hit, finite
from multiview.serving.schemas import Content, Filter, Result, ResultsPage
from multiview.serving.where import ConditionError

OPERATORS = {
    "eq": "==", "ne": "!=", "gt": ">", "gte": ">=", "lt": "<", "lte": "<=", "in": "in", "nin": "not in",
}  # fmt: skip

MOST_CHARACTERS = 20_000
"""Longest condition made from filters: each value of `in` is a pass over its column."""


def condition(filter: Filter) -> str:
    """Returns a filter as the text of a condition (`multiview.serving.where`). Raises ConditionError for a bad one.

    >>> condition(Filter(type="eq", key="source", value="news"))
    "(columns['source'] == 'news')"
    """
    if filter.type in ("and", "or"):
        if filter.key is not None or filter.value is not None:
            raise ConditionError(f"{filter.type} joins filters, and takes neither key nor value", "filters")
        if not filter.filters:
            raise ConditionError(f"{filter.type} joins no filter", "filters")
        return f"({f' {filter.type} '.join(map(condition, filter.filters))})"
    if filter.key is None:
        raise ConditionError(f"{filter.type} has no key", "filters")
    if filter.filters:
        raise ConditionError(f"{filter.type} compares, and takes no filters", "filters")
    if "value" not in filter.model_fields_set:
        raise ConditionError(f"{filter.type} has no value", "filters")
    if isinstance(filter.value, list) != (filter.type in ("in", "nin")):
        raise ConditionError(
            f"{filter.type} takes {'one value' if isinstance(filter.value, list) else 'a list'}", "filters"
        )
    return f"(columns[{filter.key!r}] {OPERATORS[filter.type]} {filter.value!r})"


def page(
    questions: Sequence[str], found: Sequence[Sequence[Hit]], most: int, least: float | None
) -> ResultsPage:
    """Returns the `most` best hits of all questions with a score of `least` or more, each passage once, best first."""
    best: dict[str, Hit] = {}
    for hit in (hit for hits in found for hit in hits):
        if (least is None or hit.score >= least) and (hit.id not in best or hit.score > best[hit.id].score):
            best[hit.id] = hit
    ranked = sorted(best.values(), key=lambda hit: (-hit.score, hit.id))[:most]
    return ResultsPage(search_query=list(questions), data=[_result(hit) for hit in ranked])


def _result(hit: Hit) -> Result:
    columns = {name: finite(value) for name, value in hit.columns.items()}
    attributes = {name: _attribute(value) for name, value in columns.items() if value is not None}
    content = [Content(text=hit.text)]
    return Result(
        file_id=hit.id, filename=hit.title or hit.id, score=hit.score, attributes=attributes, content=content
    )


def _attribute(value: object) -> str | bool | int | float:
    """A column's value as OpenAI allows it, as text, number or flag: lists and structs as JSON, dates as ISO text."""
    if isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=shown_value)
    return shown_value(value)
