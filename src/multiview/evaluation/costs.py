"""What systems were made from, by the records behind their evaluations: on what, with which settings, at what cost.

Of artifacts that are gone nothing is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from graphlib import TopologicalSorter
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from multiview import names
from multiview.artifacts.record import Record, load_record
from multiview.config import Config, Section, canonical_json
from multiview.errors import InputError
from multiview.lineage.trace import Node, reference_of, trace
from multiview.steps.table import STEPS

MEASURED_ON = {"passages": "corpus", "questions": "questions"}
"""Inputs of an evaluation that must be the same for all systems, and what to call them."""


@dataclass(frozen=True)
class Cost:
    """What a system costs. What several systems share, such as the split, is counted for each."""

    compute_seconds: float
    """Of all steps behind its evaluation, that included, one after another."""
    wall_seconds: float
    """Of the longest chain of them: as if whatever can run side by side did."""
    index_bytes: int | None
    """Size of its index; none for a system without one."""
    questions_per_second: float | None
    """Searched one batch after another, the questions' encoding not counted."""


def check_alike(evaluations: Mapping[str, str]) -> None:
    """Raise InputError unless all evaluations, system to address, are of the same questions over the same corpus."""
    first, *others = [(system, load_record(address)[1]) for system, address in evaluations.items()]
    for system, record in others:
        digests = {
            called: (_digest(record, name), _digest(first[1], name)) for name, called in MEASURED_ON.items()
        }
        differ = {called: of for called, of in digests.items() if of[0] != of[1]}
        if differ:
            told = "; ".join(
                f"{called} {mine[:12]}… and {theirs[:12]}…" for called, (mine, theirs) in differ.items()
            )
            raise InputError(
                f"{system} was not evaluated on the {' and the '.join(differ)} of {first[0]} (digests: {told}): "
                "evaluate both on the same, with `rerun` or in one comparison"
            )


def _digest(record: Record, name: str) -> str:
    (reference,) = record.inputs[name]
    return reference.digest


def differing_settings(evaluations: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """System to setting to value, of the settings that are not the same for all systems that have them.

    A setting that several rounds read differently is a list of its values, as they came.
    """
    settings = {system: _settings(address) for system, address in evaluations.items()}
    values: dict[str, set[str]] = {}
    for of in settings.values():
        for name, value in of.items():
            values.setdefault(name, set()).add(canonical_json({"value": value}))
    differ = sorted(name for name, known in values.items() if len(known) > 1)
    return {system: {n: of[n] for n in differ if n in of} for system, of in settings.items()}


def _settings(address: str) -> dict[str, Any]:
    """Every setting that the steps behind an evaluation read and that decides their output, by its dotted name."""
    found: dict[str, list[Any]] = {}
    for record in (node.record for node in _behind(address)):
        read = STEPS[record.step].settings
        for name, value in _leaves(Config, record.config):
            if any(name == setting or name.startswith(f"{setting}.") for setting in read):
                values = found.setdefault(name, [])
                values += [value] if value not in values else []
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _leaves(
    section: type[BaseModel], given: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Name and value of each setting of a section; records leave out those that are as they are by default."""
    for name, field in section.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, Section):
            yield from _leaves(type(default), given.get(name, {}), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", given.get(name, to_jsonable_python(default))


def cost_of(address: str) -> Cost:
    """What the system behind an evaluation cost, by the seconds that its artifacts' records tell."""
    nodes = _behind(address)
    steps: dict[tuple[str, str], float] = {}  # a step's outputs are published one after another
    for record in (node.record for node in nodes):
        steps[record.step, record.key] = max(record.seconds, steps.get((record.step, record.key), 0.0))
    ended: dict[Node, float] = {}
    for node in nodes:
        begun = max((ended[one] for one in _inputs(node)), default=0.0)
        ended[node] = begun + steps[node.record.step, node.record.key]
    evaluation = nodes[-1]
    seconds = evaluation.record.facts.get("search_seconds_per_question")
    sizes = [one.node.bytes for one in evaluation.inputs.get(names.INDEX, []) if one.node]
    return Cost(sum(steps.values()), ended[evaluation], sum(sizes) or None, 1 / seconds if seconds else None)


def _behind(address: str) -> list[Node]:
    """An artifact and all that it was made from, each after its inputs. Raises InputError if it is gone."""
    nodes = trace([reference_of(address)]).nodes
    return list(TopologicalSorter({node: _inputs(node) for node in nodes}).static_order())


def _inputs(node: Node) -> list[Node]:
    return [one.node for inputs in node.inputs.values() for one in inputs if one.node]


def figures_of(cost: Cost) -> dict[str, float]:
    """The figures of a cost that are known, by name."""
    return {name: value for name, value in asdict(cost).items() if value is not None}
