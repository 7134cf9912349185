"""The steps `report` and `refresh-report`: the pages about a comparison and about a refresh."""

import base64
import hashlib
import json
from collections.abc import Sequence
from datetime import timedelta
from importlib.resources import files

import jinja2
from jinja2.filters import do_filesizeformat
from markupsafe import Markup

from multiview import metric_names, names
from multiview.artifacts.record import Record, load_record
from multiview.config import JsonObject
from multiview.errors import counted, shortened
from multiview.evaluation import tables
from multiview.evaluation.costs import COSTS, SINGLE_QUESTION
from multiview.evaluation.significance import CONFIDENCE
from multiview.refresh.freshness import TITLES
from multiview.refresh.gate import read_verdict
from multiview.refresh.gate_rules import Verdict
from multiview.report.charts import metric_charts, model_charts, validation_charts
from multiview.report.contents import Contents, System, Training
from multiview.report.gather import gather
from multiview.report.shown_questions import pieces, widths
from multiview.steps.context import StepContext

COUNTS = {
    "kept": "kept",
    "added": "new",
    "changed": "changed",
    "removed": "removed",
    "to_encode": "encoded",
    "passages": "passages now",
}
"""Facts about the changes to a corpus, with their names on the page about a refresh."""
HEADLINES = ("accuracy_at_1", "accuracy_at_5", "accuracy_at_20", "mrr_at_10", "ndcg_at_10", "recall_at_5")
"""Metrics that the summary may name, in this order; it names at most `SHOWN_HEADLINES`."""
SHOWN_HEADLINES = 4
COST_HEADS = dict(
    zip(COSTS, ("computing", "at least", "index", "questions per second", "one alone, ms"), strict=True)
)
ALIKE = 0.99
"""Mean cosine between views above which they have collapsed into one."""
ALL_WINS = 0.9
"""Share of questions won by one view above which a system's views have collapsed."""


def report(context: StepContext) -> None:
    """Step: write one self-contained HTML page about a comparison, with what the records and events behind it tell.

    Inputs `comparison` and `evaluations`, in the order of `settings.comparison.rows`; output `report`: `report.html`.
    """
    rows, evaluations = context.settings.comparison.rows, context.list_input("evaluations")
    _write(context, render(gather(rows, context.input("comparison"), evaluations, context.events)))


def refresh_report(context: StepContext) -> None:
    """Step: write one self-contained HTML page about a refresh: the changes, how the index was made, and the verdict.

    Inputs: `promotion`, `verdict`, `changes`, `index`, and `evaluation`, the challenger's; output `report`: `report.html`.
    """
    promotion = json.loads((context.input("promotion").path / names.PROMOTION_FILE).read_bytes())
    changes, index = (load_record(context.recorded_input(name).address)[1] for name in ("changes", "index"))
    verdict = read_verdict(context.input("verdict").path)
    asked = tables.asked_legend(*tables.count_generated(context.input("evaluation").path))
    _write(context, render_refresh(promotion, verdict, changes, index, asked))


def _write(context: StepContext, page: str) -> None:
    (context.output("report") / names.REPORT_PAGE_FILE).write_text(page, encoding="utf-8", errors="replace")
    context.events.fact(bytes=len(page.encode(errors="replace")))


def render(contents: Contents) -> str:
    """Returns the page about a comparison as HTML."""
    script = _text_of("report.js")
    values = {system.name: system.metrics for system in contents.systems}
    return _rendered(
        "report.html",
        **summary(contents),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        metrics=tables.metric_columns(values),
        bold=tables.best_values(values),
        marked=tables.marked_of(contents.significance),
        legend=tables.legend(contents.significance),
        seeds_legend=tables.seeds_legend(bool(_tested(contents)), contents.baseline),
        unit=tables.UNIT,
        paper=tables.paper_columns(values, contents.paper),
        paper_of_seeds=tables.paper_columns(contents.seeds, contents.paper),
        paper_legend=tables.PAPER_LEGEND,
        costs=_cost_columns(contents),
        settings=sorted({name for values in contents.settings.values() for name in values}),
        curves=metric_charts(contents),
        validation=validation_charts(contents),
        groups=model_charts(contents),
    )


def render_refresh(
    promotion: JsonObject, verdict: Verdict, changes: Record, index: Record, generated_legend: str
) -> str:
    """Returns the page about a refresh as HTML. Facts that a record lacks are left out."""
    challenger = {"challenger": {name: metric.challenger for name, metric in verdict.metrics.items()}}
    made = f"{counted(index.facts['passages'], 'passage')}, {counted(index.facts['views'], 'view')}"
    return _rendered(
        "refresh.html",
        outcome=TITLES[verdict.decision],
        verdict=verdict,
        promotion=promotion,
        metrics={name: verdict.metrics[name] for name in tables.metric_columns(challenger)},
        confidence=CONFIDENCE,
        generated_legend=generated_legend,
        counts={called: changes.facts[name] for name, called in COUNTS.items() if name in changes.facts},
        whole=changes.facts.get("full"),
        rebuilt=index.facts.get("rebuilt"),
        drift=index.facts,
        index=f"{made}, {do_filesizeformat(sum(file.bytes for file in index.files))}",
    )


# --- the summary: the best systems, significant differences, and collapsed views ----------------------


def summary(contents: Contents) -> JsonObject:
    """Returns what the template `summary.html` fills in."""
    columns = tables.metric_columns({system.name: system.metrics for system in contents.systems})
    headlines = ([name for name in HEADLINES if name in columns] or columns)[:SHOWN_HEADLINES]
    trained: dict[str, list[str]] = {}
    for system in contents.systems:
        if system.generated_by and system.trainings:
            trained.setdefault(system.generated_by, []).append(system.name)
    return {
        "contents": contents,
        "generated_legend": tables.asked_legend(contents.generated, contents.questions),
        "trained": trained,
        "headlines": headlines,
        "best": [best for metric in headlines if (best := _best(contents, metric))],
        "tested": _tested(contents),
        "declined": [
            {"system": system.name, "training": training.name, "best": best, "before": before}
            for system in contents.systems
            for training in system.trainings
            for best, before in _decline(training)
        ],
        "collapsed": {system.name: how for system in contents.systems if (how := _collapse(system))},
    }


def _best(contents: Contents, metric: str) -> JsonObject | None:
    """The best systems by a metric, and their lead over the baseline, or over the next best where the baseline is the
    best. None where fewer than two systems have the metric."""
    means = {name: of[metric]["value"] for name, of in contents.seeds.items() if metric in of}
    values = means or {s.name: s.metrics[metric] for s in contents.systems if metric in s.metrics}
    if len(values) < 2:
        return None
    value = max(values.values())
    first = [name for name in values if values[name] == value]
    others = [name for name in sorted(values, key=lambda name: -values[name]) if name not in first]
    against_baseline = contents.baseline not in first
    other = next((name for name in others if not against_baseline or name == contents.baseline), None)
    p_values = {
        contents.figures.get(name, {}).get(metric, {}).get("corrected_p")
        for name in (first if against_baseline else others[:1])
    }
    return {
        "metric": metric,
        "value": value,
        "systems": first,
        "tied": not others,
        "other": other,
        "ahead": value - values[other] if other else 0.0,
        "p": p_values.pop() if other and len(p_values) == 1 else None,
    }


def _tested(contents: Contents) -> list[JsonObject]:
    """For each tested system, the metrics on which it was tested, is significantly better, and is significantly worse."""
    found = []
    for system, figures in contents.figures.items():
        tested = [figure for figure in figures.values() if figure["corrected_p"] is not None]
        differences = [figure["difference"] for figure in tested if figure["corrected_p"] < tables.LEVEL]
        better, worse = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
        if tested:
            found.append({"name": system, "better": better, "worse": worse, "metrics": len(tested)})
    return found


def _decline(training: Training) -> list[tuple[float, float]]:
    """The best validation of a training, and that before it, where it is the higher one; else nothing."""
    later = dict(training.curves.get(metric_names.of_validation(metric_names.MRR), {}))
    before = later.pop(training.start, None)
    best = max(later.values(), default=None)
    return [(best, before)] if best is not None and before is not None and best < before else []


def _collapse(system: System) -> str:
    """How a system's views have collapsed; empty for views that have not."""
    cosine, shares = system.view_cosine, system.usage.get(metric_names.SHARE_OF_TOP_1, [])
    if cosine is not None and cosine > ALIKE:
        return f"the mean cosine between two of them is {cosine:.3f}, so they are one view in all but name"
    if len(shares) > 1 and max(shares) > ALL_WINS:
        return f"view {shares.index(max(shares)) + 1} wins {100 * max(shares):.0f} % of the questions"
    return ""


# --- templates, and figures as text ---------------------------------------------------------------


def page_templates() -> jinja2.Environment:
    """Returns the environment of the templates: all values are escaped, and an undefined name is an error."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("multiview.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": lambda share: f"{100 * share:.1f}",
        "short": metric_names.short,
        "shortened": shortened,
        "score": _score,
        "listed": _listed,
        "p_value": _p_value,
        "cost": _cost,
    }
    environment.globals |= {
        "style": Markup(_text_of("report.css")), "pieces": pieces, "widths": widths, "counted": counted,
        "MARK": tables.MARK, "SEEDS_MARK": tables.SEEDS_MARK, "LEVEL": tables.LEVEL,
    }  # fmt: skip
    return environment


def _cost_columns(contents: Contents) -> dict[str, str]:
    """The costs with their heads; without the time of one question where only rows without a model have it."""
    timed = {s.name for s in contents.systems if SINGLE_QUESTION in contents.cost.get(s.name, {})}
    models = {s.name for s in contents.systems if s.architecture}
    return {name: COST_HEADS[name] for name in COSTS if name != SINGLE_QUESTION or timed & (models or timed)}


def _rendered(template: str, **values: object) -> str:
    return page_templates().get_template(template).render(**values)


def _text_of(name: str) -> str:
    """The text of a file beside the templates."""
    return (files("multiview.report") / "templates" / name).read_text(encoding="utf-8")


def _cost(value: float, name: str) -> str:
    if name.endswith("_seconds"):
        return f"{value:.1f} s" if value < 60 else str(timedelta(seconds=round(value)))
    if name.endswith("_bytes"):
        return do_filesizeformat(value)
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _score(score: float) -> str:
    """A score with two decimals; with four if below 1, as scores of fused rankings are."""
    return f"{score:.2f}" if abs(score) >= 1 or score == 0 else f"{score:.4f}"


def _p_value(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def _listed(words: Sequence[str]) -> Markup:
    *first, last = (Markup("<bdi>{}</bdi>").format(word) for word in words)
    return Markup(" and ").join([Markup(", ").join(first), last] if first else [last])
