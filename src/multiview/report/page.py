"""The step `report`: gathers the contents of the page, draws its charts, and fills the templates."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files

import jinja2
from markupsafe import Markup

from multiview import metric_names, names
from multiview.errors import counted
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
from multiview.report import charts, curves
from multiview.report.choosing import all_wrong, outcome
from multiview.report.contents import Contents, System
from multiview.report.drawing import Chart, Look
from multiview.report.gather import COSTS, gather
from multiview.report.passages import MOST_BARS, bars, figure, pieces, shortened
from multiview.report.summary import duration, size, summary
from multiview.report.trainings import CURVES
from multiview.steps.context import StepContext

LIMIT = 2_000_000
"""Most bytes of a page."""
QUESTIONS_LIMIT = 1_100_000
"""Most bytes of a page's questions."""
CHARTS_LIMIT = 1_000_000
"""Most bytes of the charts of models."""
SPARE = 20_000

MODELS = 12
"""Most systems with charts of their models."""
SETTINGS = 600
"""Most values of settings to list."""
LONGEST = {"title": 200, "question": 600, "answer": 200, "id": 120, "setting": 80}
"""Most characters to show of texts that users wrote."""
ANSWERS = 8


def report(context: StepContext) -> None:
    """Step: one self-contained HTML page about a comparison, of less than two megabytes.

    Inputs `comparison` and `evaluations`, in the order of `settings.comparison.rows`; output `report`: `report.html`.
    The page also shows data from the records and events behind them, such as training curves and costs.
    """
    contents = gather(
        context.settings.comparison.rows,
        context.input("comparison"),
        context.list_input("evaluations"),
        context.events,
    )
    page = render(contents)
    (context.output("report") / names.REPORT_PAGE_FILE).write_text(page, encoding="utf-8", errors="replace")
    context.events.fact("bytes", len(page.encode(errors="replace")))


def render(contents: Contents) -> str:
    """Returns the page as HTML, with as many questions as fit."""
    template = _environment(contents).get_template("report.html")
    script, style = (template_text(f"report.{kind}") for kind in ("js", "css"))
    values = {system.name: system.metrics for system in contents.systems}
    fitting_groups, left_out = fitting(groups(contents), CHARTS_LIMIT)
    settings = _settings(contents.settings)
    listed = max(10, SETTINGS // len(contents.systems))
    parts = {
        "contents": contents,
        "title": title(contents),
        "script": Markup(script),
        "script_hash": base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        "style": Markup(style),
        "summary": summary(contents),
        "metrics": metric_columns(values),
        "best": best_values(values),
        "equal": {
            name: len({metrics[name] for metrics in values.values() if name in metrics}) == 1
            for name in metric_columns(values)
        },
        "marked": marked_of(contents.significance),
        "legend": legend(contents.significance),
        "paper": paper_columns(values, contents.paper),
        "paper_of_seeds": paper_columns(contents.seeds, contents.paper),
        "paper_legend": paper_legend(contents.paper),
        "settings": settings[:listed],
        "more_settings": len(settings[listed:]),
        "curves": metric_charts(contents),
        "validation": curves.validation_charts(contents),
        "groups": fitting_groups,
        "left_out": left_out,
    }
    without = template.render(**parts, questions=Markup(), shown=0)
    room = LIMIT - SPARE - len(without.encode(errors="replace"))
    questions = _shown(contents, min(QUESTIONS_LIMIT, room))
    return template.render(**parts, questions=Markup("\n").join(questions), shown=len(questions))


def title(contents: Contents) -> str:
    rows = [system.name for system in contents.systems]
    if len(rows) == 1:
        return rows[0]
    return f"{rows[0]} against {rows[1]}" if len(rows) == 2 else f"{counted(len(rows), 'system')} compared"


def metric_charts(contents: Contents) -> list[Chart]:
    curves = (
        charts.metric_curves(contents, "accuracy", "An answer among the first k passages"),
        charts.metric_curves(contents, "recall", "Gold passages among the first k"),
    )
    return [chart for chart in curves if chart]


@dataclass(frozen=True)
class Group:
    """One kind of chart for several systems, side by side."""

    title: str
    note: str
    charts: list[tuple[System, Chart]]


def groups(contents: Contents) -> list[Group]:
    """Returns the charts of the models: one per system, on the same scale where they can be compared."""
    systems = contents.systems[:MODELS]
    top = charts.widest(systems)
    painted: list[tuple[str, str, Callable[[System], Chart | None]]] = [
        (
            "Which views win",
            "Share of the questions whose first passage, and whose gold passage, scores by that view; dashed: an even "
            "share.",
            lambda system: charts.view_shares(contents, system, top),
        ),
        (
            "Each view alone",
            "What one view retrieves as the passage's only vector; dashed: all views together.",
            lambda system: charts.alone(contents, system),
        ),
        (
            "Attention divergence",
            "Whether two views look at different tokens; near 0 they look at the same.",
            lambda system: charts.heat_map(contents, system, "attention"),
        ),
        (
            "Cosine between views",
            "Mean over the passages; near 1 two views are one.",
            lambda system: charts.heat_map(contents, system, "cosine"),
        ),
        ("Views per passage", "", lambda system: charts.views_per_passage(contents, system)),
        (
            "Views that win in training",
            "Share of the training questions whose positive passage scores by that view.",
            lambda system: curves.view_wins(contents, system),
        ),
    ]
    painted += [
        (title, "", lambda system, name=name: curves.training_curve(contents, system, name))
        for name, title in CURVES.items()
    ]
    found = [
        Group(title, note, [(system, chart) for system in systems if (chart := paint(system))])
        for title, note, paint in painted
    ]
    return [group for group in found if group.charts]


def fitting(groups: list[Group], room: int) -> tuple[list[Group], list[str]]:
    """Returns the groups that fit into `room` bytes, in order, and the titles of the others."""
    shown, left = [], []
    for group in groups:
        room -= (size := sum(chart.bytes for _, chart in group.charts))
        if room >= 0:
            shown.append(group)
        else:
            room += size
            left.append(group.title)
    return shown, left


def _shown(contents: Contents, room: int) -> list[Markup]:
    """Questions as HTML, as many as fit into `room` bytes; questions on which systems differ come first."""
    template = _environment(contents).get_template("question.html")
    rendered: list[tuple[int, Markup]] = []
    for asked in contents.asked:
        ranks = asked.ranks
        outcomes = [outcome(rank, ranks[contents.base]) for rank in ranks]
        text = template.render(asked=asked, outcomes=outcomes, wrong=all_wrong(ranks), contents=contents)
        room -= len(text.encode(errors="replace")) + 1
        if room < 0:
            break
        kind = 0 if {"won", "lost"} & set(outcomes) else 1 if all_wrong(ranks) else 2
        rendered.append((kind, Markup(text)))
    return [text for _, text in sorted(rendered, key=lambda pair: pair[0])]


def _settings(settings: Mapping[str, Mapping[str, object]]) -> list[tuple[str, dict[str, str]]]:
    """Names of settings, each with its value per system as text."""
    setting_names = sorted({name for values in settings.values() for name in values})
    return [
        (name, {system: _text(values[name]) for system, values in settings.items() if name in values})
        for name in setting_names
    ]


def _text(value: object) -> str:
    return shortened(
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), LONGEST["setting"]
    )


def cost_text(value: float, name: str) -> str:
    if name.endswith("_seconds"):
        return duration(value)
    return size(value) if name.endswith("_bytes") else f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def environment_of_pages() -> jinja2.Environment:
    """Returns the environment of the templates: all values are escaped, and an undefined name is an error."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("multiview.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"short": metric_names.short, "shortened": shortened}
    return environment


def _environment(contents: Contents) -> jinja2.Environment:
    environment = environment_of_pages()
    environment.filters |= {"figure": figure, "cost": cost_text}
    looks = [Look.of(system.position, contents.base) for system in contents.systems]
    environment.globals |= {
        "looks": looks, "pieces": pieces, "bars": bars, "counted": counted, "LONGEST": LONGEST,
        "ANSWERS": ANSWERS, "MODELS": MODELS, "COSTS": COSTS, "MARK": MARK, "SEEDS_MARK": SEEDS_MARK, "LEVEL": LEVEL,
        "MOST_BARS": MOST_BARS,
    }  # fmt: skip
    return environment


def template_text(name: str) -> str:
    """Returns the text of a file beside the templates."""
    return (files("multiview.report") / "templates" / name).read_text(encoding="utf-8")
