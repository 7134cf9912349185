"""The data, the settings and the cost of systems, from the records of all artifacts behind their evaluations.

Artifacts that are gone are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from graphlib import TopologicalSorter

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from multiview import names
from multiview.artifacts.record import Record, load_record
from multiview.config import Config, JsonObject, Section, canonical_json
from multiview.errors import InputError
from multiview.evaluation.latency import SEARCH_SECONDS, SINGLE_QUESTION
from multiview.lineage.trace import LineageNode, reference_of, trace
from multiview.steps.table import STEPS

MEASURED_ON = {"passages": "corpus", "questions": "questions"}
"""Inputs of an evaluation that must be the same for all systems, and their names in messages."""


@dataclass(frozen=True)
class Cost:
    """The cost of a system. Steps that several systems share, such as the split, count for each of them."""

    compute_seconds: float
    """Seconds of all steps behind the evaluation and of the evaluation itself, one after another."""
    wall_seconds: float
    """Seconds of the longest chain of these steps: as if all that can run side by side did."""
    index_bytes: int | None
    """Size of the index; none for a system without one."""
    questions_per_second: float | None
    """Speed of the search, all questions at once and their encoding not counted; none where it was not measured."""
    single_question_milliseconds: float | None
    """Median time of one question asked alone, its encoding and its search; none where it was not measured."""


def check_alike(evaluations: Mapping[str, str]) -> None:
    """Raises InputError unless all evaluations, system to address, are of the same questions over the same corpus."""
    (first, expected), *others = [
        (system, load_record(address)[1]) for system, address in evaluations.items()
    ]
    for system, record in others:
        digests = {
            word: (_digest(record, name), _digest(expected, name)) for name, word in MEASURED_ON.items()
        }
        differing = {word: pair for word, pair in digests.items() if pair[0] != pair[1]}
        if differing:
            listed = "; ".join(
                f"{word} {found[:12]}… and {wanted[:12]}…" for word, (found, wanted) in differing.items()
            )
            raise InputError(
                f"{system} was not evaluated on the {' and the '.join(differing)} of {first} (digests: {listed}): "
                "evaluate both on the same, with `rerun` or in one comparison"
            )


def _digest(record: Record, name: str) -> str:
    (reference,) = record.inputs[name]
    return reference.digest


def differing_settings(evaluations: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """System to setting to value, for the settings in which systems that have them differ.

    A setting that several rounds read differently is the list of its values, in the order of the rounds.
    """
    by_system = {system: _settings(address) for system, address in evaluations.items()}
    values: dict[str, set[str]] = {}
    for settings in by_system.values():
        for name, value in settings.items():
            values.setdefault(name, set()).add(canonical_json({"value": value}))
    differing = sorted(name for name, known in values.items() if len(known) > 1)
    return {
        system: {name: settings[name] for name in differing if name in settings}
        for system, settings in by_system.items()
    }


def _settings(address: str) -> dict[str, object]:
    """Every setting that the steps behind an evaluation read and that decides their output, by its dotted name."""
    found: dict[str, list[object]] = {}
    for record in (node.record for node in _nodes_behind(address)):
        for name, value in _leaves(Config, record.config):
            if STEPS[record.step].reads(name):
                values = found.setdefault(name, [])
                values += [value] if value not in values else []
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _leaves(section: type[BaseModel], recorded: JsonObject, prefix: str = "") -> Iterator[tuple[str, object]]:
    """Dotted name and value of each setting of a section; a record leaves out settings that have their default."""
    for name, field in section.model_fields.items():
        default = field.get_default(call_default_factory=True)
        if isinstance(default, Section):
            yield from _leaves(type(default), recorded.get(name, {}), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", recorded.get(name, to_jsonable_python(default))


def cost_of(address: str) -> Cost:
    """The cost of the system behind an evaluation, by the seconds in its artifacts' records."""
    nodes = _nodes_behind(address)
    steps: dict[tuple[str, str], float] = {}  # a step's outputs are published one after another
    for record in (node.record for node in nodes):
        steps[record.step, record.key] = max(record.seconds, steps.get((record.step, record.key), 0.0))
    ended: dict[LineageNode, float] = {}
    for node in nodes:
        begun = max((ended[input_] for input_ in _inputs(node)), default=0.0)
        ended[node] = begun + steps[node.record.step, node.record.key]
    evaluation = nodes[-1]
    seconds = evaluation.record.facts.get(SEARCH_SECONDS)
    indexes = [source.node for source in evaluation.inputs.get(names.INDEX, []) if source.node]
    index_bytes = sum(index.bytes for index in indexes) or None
    return Cost(
        compute_seconds=sum(steps.values()),
        wall_seconds=ended[evaluation],
        index_bytes=index_bytes,
        questions_per_second=1 / seconds if seconds else None,
        single_question_milliseconds=evaluation.record.facts.get(SINGLE_QUESTION),
    )


def _nodes_behind(address: str) -> list[LineageNode]:
    """Returns an artifact and everything behind it, each after its inputs. Raises InputError if it is gone."""
    nodes = trace([reference_of(address)]).nodes
    return list(TopologicalSorter({node: _inputs(node) for node in nodes}).static_order())


def _inputs(node: LineageNode) -> list[LineageNode]:
    return [source.node for sources in node.inputs.values() for source in sources if source.node]


def figures_of(cost: Cost) -> dict[str, float]:
    """The figures of a cost, by name; unknown ones are left out."""
    return {name: value for name, value in asdict(cost).items() if value is not None}
