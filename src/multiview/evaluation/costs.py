"""The data, the settings and the cost of systems, from the records of all artifacts behind their evaluations.

Artifacts that are gone are left out.
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
"""Inputs of an evaluation that must be the same for all systems, and their names in messages."""


@dataclass(frozen=True)
class Cost:
    """The cost of a system. Steps that several systems share, such as the split, are counted for each of them."""

    compute_seconds: float
    """Seconds of all steps behind its evaluation, the evaluation included, one after another."""
    wall_seconds: float
    """Seconds of the longest chain of these steps: as if all that can run in parallel did."""
    index_bytes: int | None
    """Size of its index; none for a system without an index."""
    questions_per_second: float | None
    """Questions searched per second, one batch after another, without the encoding of the questions."""


def check_alike(evaluations: Mapping[str, str]) -> None:
    """Raises InputError unless all `evaluations`, system to address, used the same questions and the same corpus."""
    first, *others = [(system, load_record(address)[1]) for system, address in evaluations.items()]
    for system, record in others:
        digests = {
            called: (_digest(record, name), _digest(first[1], name)) for name, called in MEASURED_ON.items()
        }
        differ = {called: pair for called, pair in digests.items() if pair[0] != pair[1]}
        if differ:
            pairs = "; ".join(
                f"{called} {digest[:12]}… and {first_digest[:12]}…"
                for called, (digest, first_digest) in differ.items()
            )
            raise InputError(
                f"{system} was not evaluated on the {' and the '.join(differ)} of {first[0]} (digests: {pairs}): "
                "evaluate both on the same data, with `rerun` or in one comparison"
            )


def _digest(record: Record, name: str) -> str:
    (reference,) = record.inputs[name]
    return reference.digest


def differing_settings(evaluations: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """Settings that are not the same for all systems that have them: system to setting to value.

    A setting that several rounds read with different values is given as the list of its values, in their order.
    """
    settings = {system: _settings(address) for system, address in evaluations.items()}
    values: dict[str, set[str]] = {}
    for by_name in settings.values():
        for name, value in by_name.items():
            values.setdefault(name, set()).add(canonical_json({"value": value}))
    differ = sorted(name for name, known in values.items() if len(known) > 1)
    return {
        system: {name: by_name[name] for name in differ if name in by_name}
        for system, by_name in settings.items()
    }


def _settings(address: str) -> dict[str, object]:
    """All settings that the steps behind an evaluation read and that decide their outputs, by dotted name."""
    values_by_name: dict[str, list[object]] = {}
    for record in (node.record for node in _behind(address)):
        read = STEPS[record.step].settings
        for name, value in _leaves(Config, record.config):
            if any(name == setting or name.startswith(f"{setting}.") for setting in read):
                values = values_by_name.setdefault(name, [])
                values += [value] if value not in values else []
    return {name: values[0] if len(values) == 1 else values for name, values in values_by_name.items()}


def _leaves(
    section: type[BaseModel], recorded: Mapping[str, Any], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Dotted name and value of each setting of a section; a record leaves out settings that have their default."""
    for name, field in section.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, Section):
            yield from _leaves(type(default), recorded.get(name, {}), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", recorded.get(name, to_jsonable_python(default))


def cost_of(address: str) -> Cost:
    """The cost of the system behind an evaluation, from the seconds in the records of its artifacts."""
    nodes = _behind(address)
    steps: dict[tuple[str, str], float] = {}  # a step's outputs are published one after another
    for record in (node.record for node in nodes):
        steps[record.step, record.key] = max(record.seconds, steps.get((record.step, record.key), 0.0))
    ended: dict[Node, float] = {}
    for node in nodes:
        begun = max((ended[source] for source in _inputs(node)), default=0.0)
        ended[node] = begun + steps[node.record.step, node.record.key]
    evaluation = nodes[-1]
    seconds = evaluation.record.facts.get("search_seconds_per_question")
    sizes = [source.node.bytes for source in evaluation.inputs.get(names.INDEX, []) if source.node]
    return Cost(sum(steps.values()), ended[evaluation], sum(sizes) or None, 1 / seconds if seconds else None)


def _behind(address: str) -> list[Node]:
    """An artifact and all artifacts behind it, each after its inputs. Raises InputError if the artifact is gone."""
    nodes = trace([reference_of(address)]).nodes
    return list(TopologicalSorter({node: _inputs(node) for node in nodes}).static_order())


def _inputs(node: Node) -> list[Node]:
    return [source.node for sources in node.inputs.values() for source in sources if source.node]


def figures_of(cost: Cost) -> dict[str, float]:
    """The figures of a cost, by name; unknown ones are left out."""
    return {name: value for name, value in asdict(cost).items() if value is not None}
