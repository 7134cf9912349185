"""Comparisons of several systems over the same split, BM25 negatives and questions, or of existing evaluations."""

from collections.abc import Mapping, Sequence

from multiview.artifacts.record import Reference
from multiview.config import Comparison, Config
from multiview.config.overrides import Overrides, validate
from multiview.errors import InputError
from multiview.evaluation.tables import baseline_of
from multiview.model.systems import WITHOUT_MODEL, fused_config, fused_row, resolve, resolve_systems
from multiview.plans.data import add_data
from multiview.plans.plan import Input, Node, Output, Plan
from multiview.plans.system import SystemSteps
from multiview.steps.path import StepPath

BM25, DOCT5QUERY = WITHOUT_MODEL
"""The names of the rows of BM25, and of BM25 over passages with their generated queries (Nogueira and Lin, 2019)."""


def comparison(overrides: Overrides) -> Plan:
    """Trains and evaluates several systems beside BM25, and compares them.

    If a system needs generated queries, DocT5Query is another row beside BM25.
    """
    systems = resolve_systems(overrides)
    config = validate(overrides)
    plan = Plan("comparison")
    data = add_data(plan, config, systems.values())
    evaluations = {name: SystemSteps(plan, name, system, data).add() for name, system in systems.items()}
    if config.comparison.bm25:
        corpus = {"passages": data.passages, "questions": data.dev_questions}
        evaluations[BM25] = plan.add(StepPath("evaluate", BM25), "evaluate-bm25", config, **corpus)
        if data.queries:
            path, corpus["queries"] = StepPath("evaluate", DOCT5QUERY), data.queries
            evaluations[DOCT5QUERY] = plan.add(path, "evaluate-bm25-with-queries", config, **corpus)
    add_fusions(plan, systems, config.comparison.fusion, evaluations)
    rows = tuple(evaluations)
    baseline_of(config.comparison.baseline, rows)
    config = config.model_copy(update={"comparison": config.comparison.model_copy(update={"rows": rows})})
    add_comparison(plan, config, [evaluations[row] for row in rows])
    return plan


def comparison_of_evaluations(
    name: str,
    evaluations: Mapping[str, Reference],
    settings: Comparison,
    architectures: Mapping[str, str] | None = None,
) -> Plan:
    """Returns a plan called `name`: the comparison of existing evaluations, given by row, and its report."""
    plan = Plan(name, architectures=dict(architectures or {}))
    config = resolve({}).model_copy(update={"comparison": settings})
    add_comparison(plan, config, list(evaluations.values()))
    return plan


def add_fusions(
    plan: Plan, systems: Mapping[str, Config], fusion: Sequence[str], evaluations: dict[str, Node]
) -> None:
    """Adds a row per system to fuse with BM25: a hybrid index of its views. Raises InputError for an unknown system."""
    for system in fusion:
        row = fused_row(system)
        if system not in systems or row in evaluations:
            raise InputError(
                f"comparison.fusion: {system} must be a system, and {row} must not be a row; there are {', '.join(evaluations)}"
            )
        config, inputs = fused_config(systems[system]), evaluations[system].inputs
        plan.architectures[row] = plan.architectures[system]
        (by_views,) = inputs["index"]
        assert isinstance(by_views, Output)
        built = plan.nodes[by_views.path].inputs
        index = plan.add(StepPath("index", row), "index-with-search", config, **built)
        asked = {**inputs, "index": index}
        evaluations[row] = plan.add(StepPath("evaluate", row), "evaluate", config, **asked)


def add_comparison(plan: Plan, config: Config, evaluations: Sequence[Input]) -> None:
    """Adds the comparison of the evaluations of `comparison.rows`, and its report."""
    compare = plan.add(StepPath("compare"), "compare", config, evaluations=evaluations)
    plan.add(StepPath("report"), "report", config, comparison=compare, evaluations=evaluations)
