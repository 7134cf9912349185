"""The steps `report` and `refresh-report`: the pages about a comparison and about a refresh."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files

import jinja2
from jinja2.filters import do_filesizeformat
from markupsafe import Markup

from multiview import metric_names, names
from multiview.artifacts.record import Record, load_record
from multiview.config import JsonObject
from multiview.errors import counted
from multiview.evaluation.significance import CONFIDENCE
from multiview.evaluation.tables import (
    LEVEL,
    MARK,
    SEEDS_MARK,
    best_values,
    legend,
    marked_of,
    metric_columns,
    paper_columns,
    paper_legend,
)
from multiview.refresh.gate import TITLES, read_verdict
from multiview.refresh.gate_rules import Verdict
from multiview.report.charts import MODELS, metric_charts, model_charts, validation_charts
from multiview.report.contents import Contents
from multiview.report.drawing import Look
from multiview.report.gather import COSTS, gather
from multiview.report.passages import MOST_BARS, bars, figure, pieces, shortened
from multiview.report.summary import duration, listed, p_value, summary
from multiview.steps.context import StepContext

SETTINGS = 600
"""Most values of settings to list."""
LONGEST_SETTING = 80
"""Most characters to show of a setting's name or value."""


def report(context: StepContext) -> None:
    """Step: one self-contained HTML page about a comparison.

    Inputs `comparison` and `evaluations`, in the order of `settings.comparison.rows`; output `report`: `report.html`.
    The page also shows data from the records and events behind them, such as training curves and costs.
    """
    rows, evaluations = context.settings.comparison.rows, context.list_input("evaluations")
    write_page(context, render(gather(rows, context.input("comparison"), evaluations, context.events)))


def write_page(context: StepContext, page: str) -> None:
    (context.output("report") / names.REPORT_PAGE_FILE).write_text(page, encoding="utf-8", errors="replace")
    context.events.fact("bytes", len(page.encode(errors="replace")))


def render(contents: Contents) -> str:
    """Returns the page as HTML."""
    script = _text_of("report.js")
    values = {system.name: system.metrics for system in contents.systems}
    differ = {
        name: best
        for name, best in best_values(values).items()
        if any(metrics.get(name, best) != best for metrics in values.values())
    }
    settings, most_settings = _settings(contents.settings), max(10, SETTINGS // len(contents.systems))
    return _rendered(
        "report.html",
        **summary(contents),
        title=title(contents),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        looks=[Look.of(system.position, contents.base) for system in contents.systems],
        metrics=metric_columns(values),
        bold=differ,
        marked=marked_of(contents.significance),
        legend=legend(contents.significance),
        paper=paper_columns(values, contents.paper),
        paper_of_seeds=paper_columns(contents.seeds, contents.paper),
        paper_legend=paper_legend(contents.paper),
        settings=settings[:most_settings],
        more_settings=len(settings[most_settings:]),
        curves=metric_charts(contents),
        validation=validation_charts(contents),
        groups=model_charts(contents),
    )


def title(contents: Contents) -> str:
    rows = [system.name for system in contents.systems]
    if len(rows) == 1:
        return rows[0]
    return f"{rows[0]} against {rows[1]}" if len(rows) == 2 else f"{counted(len(rows), 'system')} compared"


def _settings(settings: Mapping[str, Mapping[str, object]]) -> list[tuple[str, dict[str, str]]]:
    """Names of settings, each with its value per system as text."""

    def shown(value: object) -> str:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return shortened(text, LONGEST_SETTING)

    return [
        (name, {system: shown(values[name]) for system, values in settings.items() if name in values})
        for name in sorted({name for values in settings.values() for name in values})
    ]


def cost_text(value: float, name: str) -> str:
    if name.endswith("_seconds"):
        return duration(value)
    return (
        do_filesizeformat(value)
        if name.endswith("_bytes")
        else f"{value:,.0f}"
        if value >= 10
        else f"{value:.2g}"
    )


def environment_of_pages() -> jinja2.Environment:
    """Returns the environment of the templates: all values are escaped, and an undefined name is an error."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("multiview.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "short": metric_names.short, "shortened": shortened, "figure": figure, "listed": listed, "duration": duration,
        "p_value": p_value,
    }  # fmt: skip
    environment.globals |= {
        "style": Markup(_text_of("report.css")), "pieces": pieces, "bars": bars, "counted": counted, "cost": cost_text,
        "MODELS": MODELS, "COSTS": COSTS, "MARK": MARK, "SEEDS_MARK": SEEDS_MARK, "LEVEL": LEVEL, "MOST_BARS": MOST_BARS,
        "LONGEST_SETTING": LONGEST_SETTING,
    }  # fmt: skip
    return environment


def _rendered(template: str, **values: object) -> str:
    return environment_of_pages().get_template(template).render(**values)


def _text_of(name: str) -> str:
    """The text of a file beside the templates."""
    return (files("multiview.report") / "templates" / name).read_text(encoding="utf-8")


# --- the page about a refresh --------------------------------------------------------------------

COUNTS = {
    "kept": "kept",
    "added": "new",
    "changed": "changed",
    "removed": "removed",
    "to_encode": "encoded",
    "passages": "passages now",
}
"""Facts about the changes of a corpus, and their names on the page."""


def refresh_report(context: StepContext) -> None:
    """Step: one self-contained HTML page about a refresh: the changes, the making of the index, and the verdict.

    Inputs: `promotion`, `verdict`, `changes` and `index`; output `report`: `report.html`.
    """
    promotion = json.loads((context.input("promotion").path / names.PROMOTION_FILE).read_text())
    changes, index = (load_record(context.recorded_input(name).address)[1] for name in ("changes", "index"))
    verdict = read_verdict(context.input("verdict").path)
    write_page(context, render_refresh(promotion, verdict, changes, index))


def render_refresh(promotion: JsonObject, verdict: Verdict, changes: Record, index: Record) -> str:
    """Returns the page as HTML. Facts that a record lacks are left out."""
    challenger = {"challenger": {name: metric.challenger for name, metric in verdict.metrics.items()}}
    made = f"{counted(index.facts['passages'], 'passage')}, {counted(index.facts['views'], 'view')}"
    return _rendered(
        "refresh.html",
        outcome=TITLES[verdict.decision],
        verdict=verdict,
        promotion=promotion,
        metrics={name: verdict.metrics[name] for name in metric_columns(challenger)},
        confidence=CONFIDENCE,
        counts={called: changes.facts[name] for name, called in COUNTS.items() if name in changes.facts},
        whole=changes.facts.get("full"),
        rebuilt=index.facts.get("rebuilt"),
        drift=index.facts,
        index=f"{made}, {do_filesizeformat(sum(file.bytes for file in index.files))}",
    )
