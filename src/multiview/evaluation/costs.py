"""What systems were measured on, their settings and costs, from the records behind evaluations; timing of questions."""

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from graphlib import TopologicalSorter

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from multiview import names
from multiview.artifacts.record import load_record
from multiview.config import Config, JsonObject, Section, canonical_json
from multiview.errors import InputError
from multiview.lineage.trace import LineageNode, trace
from multiview.steps.table import STEPS

MEASURED_ON = {"passages": "corpus", "questions": "questions"}
"""Inputs of an evaluation that must be the same for all systems, and their names in messages."""

SEARCH_SECONDS = "search_seconds_per_question"
"""Fact of an evaluation: the time of a search by many questions together, without their encoding, per question."""
TIMED = 256
"""Number of questions, from the first, whose search is timed separately, after the search for all questions."""
SINGLE_QUESTION = "single_question_milliseconds"
"""Fact of an evaluation: the median time of one question asked alone, its encoding and its search."""
TIMED_ALONE = 30
"""Most questions to ask one at a time."""
ASKING_SECONDS = 10.0
"""Seconds after which no further question is asked: a large exact index takes as long for one question as for many."""

COSTS = ("compute_seconds", "wall_seconds", "index_bytes", "questions_per_second", SINGLE_QUESTION)
"""The figures of `cost_of`, which a comparison reports as metrics."""


def median_milliseconds(
    ask: Callable[[str], object], questions: Sequence[str], clock: Callable[[], float] = time.perf_counter
) -> float:
    """Returns the median time of `ask` over the first `questions`, one at a time, after the first was asked once: work
    that is done only once is not counted."""
    ask(questions[0])
    begun, seconds = clock(), []
    for question in questions[:TIMED_ALONE]:
        started = clock()
        ask(question)
        seconds.append(clock() - started)
        if clock() - begun > ASKING_SECONDS:
            break
    return 1000 * statistics.median(seconds)


def check_alike(evaluations: Mapping[str, str]) -> None:
    """Raises InputError unless all evaluations (system to address) are of the same questions over the same corpus."""
    digests = {
        system: {word: record.inputs[name][0].digest for name, word in MEASURED_ON.items()}
        for system, record in ((system, load_record(address)[1]) for system, address in evaluations.items())
    }
    first, wanted = next(iter(digests.items()))
    for system, found in digests.items():
        if differing := [word for word in found if found[word] != wanted[word]]:
            listed = "; ".join(f"{word} {found[word][:12]}… and {wanted[word][:12]}…" for word in differing)
            raise InputError(
                f"{system} was not evaluated on the {' and the '.join(differing)} of {first} (digests: {listed}): "
                "evaluate both on the same, in the same order and corpus.shards, with `rerun` or in one comparison"
            )


def differing_settings(evaluations: Mapping[str, str]) -> dict[str, dict[str, object]]:
    """System to setting to value, for settings on which the systems that have them differ. If rounds read different
    values of a setting, its value is the list of these, in the order of the rounds. A system with a model whose steps
    read no setting of the search has their defaults. Left out is `evaluation.analyses`, which changes no ranking."""
    by_system = {system: _settings(address) for system, address in evaluations.items()}
    searches = {name: value for name, value in _leaves(Config, {}) if name.startswith("search.")}
    for system, settings in by_system.items():
        if "model.architecture" in settings:
            by_system[system] = searches | settings
    values: dict[str, set[str]] = {}
    for settings in by_system.values():
        for name, value in settings.items():
            values.setdefault(name, set()).add(canonical_json(value))
    values.pop("evaluation.analyses", None)
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
            if (made_by := STEPS.get(record.step)) and made_by.reads(name):
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


def cost_of(address: str) -> dict[str, float]:
    """The figures `COSTS` of the system behind an evaluation; unknown ones are left out.

    `compute_seconds` is the sum over all steps up to the evaluation; steps that several systems share count for each of
    them. `wall_seconds` is the time of the longest chain of these steps. `questions_per_second` is the inverse of
    `SEARCH_SECONDS`.
    """
    nodes = _nodes_behind(address)
    steps: dict[tuple[str, str], float] = {}  # a step's outputs are published one after another
    for record in (node.record for node in nodes):
        steps[record.step, record.key] = max(record.seconds, steps.get((record.step, record.key), 0.0))
    ended: dict[LineageNode, float] = {}
    for node in nodes:
        begun = max((ended[input_] for input_ in _inputs(node)), default=0.0)
        ended[node] = begun + steps[node.record.step, node.record.key]
    evaluation = nodes[-1]
    cost = {"compute_seconds": sum(steps.values()), "wall_seconds": ended[evaluation]}
    if indexes := [source.node for source in evaluation.inputs.get(names.INDEX, []) if source.node]:
        cost["index_bytes"] = sum(index.bytes for index in indexes)
    facts = evaluation.record.facts
    if seconds := facts.get(SEARCH_SECONDS):
        cost["questions_per_second"] = 1 / seconds
    if SINGLE_QUESTION in facts:
        cost[SINGLE_QUESTION] = facts[SINGLE_QUESTION]
    return cost


def _nodes_behind(address: str) -> list[LineageNode]:
    """Returns an artifact and everything behind it, each after its inputs. Raises InputError if it is gone."""
    nodes = trace([load_record(address).reference]).nodes
    return list(TopologicalSorter({node: _inputs(node) for node in nodes}).static_order())


def _inputs(node: LineageNode) -> list[LineageNode]:
    return [source.node for sources in node.inputs.values() for source in sources if source.node]
