"""The page: its numbers, its text, and where it is shown."""

import base64
import itertools
import json
import re
from typing import Any
from xml.etree import ElementTree

import pytest
from kfp.dsl import HTML, Artifact

from multiview import names
from multiview.evaluation.tables import Significance
from multiview.kubeflow.component import execute
from multiview.report import charts
from multiview.report.charts import model_charts
from multiview.report.contents import Contents, Training
from multiview.report.contents import System as Row
from multiview.report.gather import gather
from multiview.report.page import render
from tests.fixtures.compared_systems import BM25, MVR, PASSAGES, QUESTIONS, ComparedSystems, System
from tests.fixtures.hostile_texts import HOSTILE, hostile_systems
from tests.fixtures.page_tree import Element, read


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> ComparedSystems:
    return ComparedSystems(tmp_path_factory.mktemp("compared"))


@pytest.fixture(scope="module")
def text(compared) -> str:
    return compared.page()


@pytest.fixture(scope="module")
def page(text) -> Element:
    return read(text)


def test_the_numbers_are_those_of_the_comparison(compared, page):
    shown: dict[str, dict[str, float]] = {}
    for value in page.all("data"):
        if "data-metric" in value.attributes:
            system = compared.rows[int(value.attributes["data-system"])]
            shown.setdefault(system, {})[value.attributes["data-metric"]] = float(value.attributes["value"])
            assert value.text == f"{100 * float(value.attributes['value']):.1f}"
    assert shown == json.loads((compared.comparison.path / "metrics.json").read_text())


def test_marks_intervals_and_costs_are_the_comparisons(compared, page):
    significance = json.loads((compared.comparison.path / "significance.json").read_text())
    (table,) = page.all("table", class_="metrics")
    for row, system in zip(table.all("tr")[1:], compared.rows, strict=True):
        for cell in row.all("td"):
            (data,) = cell.all("data")
            figures = significance["systems"][system][data.attributes["data-metric"]]
            low, high = (f"{100 * figures[end]:.1f}" for end in ("low", "high"))
            assert cell.one("span", class_="interval").text == f"{low}–{high}"
            marked = figures["corrected_p"] is not None and figures["corrected_p"] < 0.05
            assert bool(cell.all("span", class_="mark")) == marked
    cost = page.one("section", id="cost")
    shown = [cell.text for cell in cost.all("tr")[1].all("td")]
    assert shown == ["0:02:05", "0:01:01", "16.4 kB", "812", "14"]


def test_every_chart_has_a_name_and_a_description(page):
    charts = {chart.one("img").attributes["alt"]: chart for chart in page.all("figure")}
    for kind in ("Which views win", "acc@2 of each view alone", "Attention divergence", "Cosine between views",
                 "Training loss", "Temperature", "Share of fallbacks"):  # fmt: skip
        assert [alt.partition(". ")[0] for alt in charts if alt.startswith(kind)] == [
            f"{kind}, mvr",
            f"{kind}, camvr",
        ]
    ids = [element.attributes["id"] for element in page.walk() if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    for alt, chart in charts.items():
        assert alt.endswith(".")
        encoded = chart.one("img").attributes["src"].removeprefix("data:image/svg+xml;base64,")
        assert ElementTree.fromstring(base64.b64decode(encoded)).tag.endswith("svg")

    assert any(alt.startswith("Validation: MRR@10. One line per system") for alt in charts)
    assert "Training loss, mvr. A line over the steps. It ends at 0.5." in charts


def _svg(chart: Element) -> str:
    return base64.b64decode(chart.one("img").attributes["src"].partition(",")[2]).decode()


def test_a_cosine_is_no_per_cent_and_the_metric_of_one_view_is_seen(page):
    charts = {
        chart.one("img").attributes["alt"].partition(". ")[0]: _svg(chart) for chart in page.all("figure")
    }
    assert "0.8" in charts["Validation: cosine between views"]
    assert " %" not in charts["Validation: cosine between views"] and " %" in charts["Validation: MRR@10"]
    assert ">acc@2</text>" in charts["acc@2 of each view alone, mvr"]


def test_a_line_over_k_goes_through_every_k_that_its_system_has(monkeypatch):
    monkeypatch.setattr(charts, "_drawn", lambda axes, *described: axes)
    cuts = {"a": (1, 5, 20, 100), "b": (1, 3, 7)}
    systems = [
        Row(name, number, {f"accuracy_at_{k}": 0.5 for k in ks})
        for number, (name, ks) in enumerate(cuts.items())
    ]
    significance = Significance(baseline="a", test="", systems={})
    axes: Any
    (axes,) = charts.metric_charts(Contents(systems, "a", significance, 0, 0, [], {}, ""))
    assert [[*line.get_xdata()] for line in axes.lines] == [[0, 2, 4, 5], [0, 1, 3]]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "3", "5", "7", "20", "100"]


def test_no_chart_is_drawn_of_fallbacks_where_there_are_none():
    none = {"loss": {0: 1.0, 10: 0.5}, "fallback_share": {0: 0.0, 10: 0.0}}
    systems = [Row("mvr", 0, {}, trainings=[Training("round 1", none)])]
    significance = Significance(baseline="mvr", test="", systems={})
    groups = model_charts(Contents(systems, "mvr", significance, 0, 0, [], {}, ""))
    assert [group.title for group in groups] == ["Training loss"]


def test_the_time_of_one_question_is_left_out_where_no_model_was_asked(text, tmp_path):
    assert "one alone, ms" in text and "one alone: with its encoding" in text
    plain = System(MVR.found, views=4, analyses=False)  # charts take time
    compared = ComparedSystems(tmp_path, {"mvr": plain, "bm25": BM25})
    contents = gather(compared.rows, compared.comparison, compared.evaluations, compared.events)
    asked = {name: of for name, of in contents.cost["mvr"].items() if not name.startswith("single")}
    contents.cost = {**contents.cost, "mvr": asked}
    page = render(contents)
    assert "one alone" not in page and "Questions per second: search alone." in page
    for system in contents.systems:
        system.architecture = None
    assert "one alone, ms" in render(contents)


def test_a_question_shows_what_matched_with_every_views_score(page):
    questions = {question.one("code").text: question for question in page.all("details", class_="question")}
    assert set(questions) == {question.qid for question in QUESTIONS}
    shown = questions["q0"]
    assert shown.one("span", class_="asked").text == "What made Marohaven wealthy?"
    assert [definition.text for definition in shown.all("dd")] == ["glass", "Marohaven", "q0"]
    assert [rank.one("b").text for rank in shown.all("span", class_="rank")] == ["2", "1", "1"]
    mvr, camvr, bm25 = shown.all("section", class_="found")
    assert [title.text for title in mvr.all("p", class_="title")] == [
        "1. Pirenburg 20.00",
        "2. Marohaven 19.00 answer gold",
    ]
    (text,) = camvr.all("p", class_="text")
    assert text.one("mark").text.strip() == "It is old."
    assert (
        "".join(c if isinstance(c, str) else c.text for c in text.children if not _is(c, "sup"))
        == PASSAGES[0].text
    )
    scores = [(bar.one("span", class_="number").text, bar.one("span", class_="score").text)
              for bar in camvr.one("ol", class_="views").all("li")]  # fmt: skip
    assert scores == [("1", "19.00"), ("2", "20.00"), ("3", "19.00"), ("4", "18.00")]
    assert not bm25.all("mark") and not bm25.all("ol", class_="views")
    assert "Found nothing." in questions["q4"].all("section", class_="found")[2].text
    assert questions["q4"].attributes["data-outcome"].split() == ["wrong"]
    assert questions["q0"].attributes["data-outcome"].split() == ["won-1", "won-2"]


def _is(child: Element | str, tag: str) -> bool:
    return isinstance(child, Element) and child.tag == tag


def test_what_users_wrote_is_text(tmp_path):
    compared = hostile_systems(tmp_path)
    for name in ("settings.json", "won.json"):
        values = {row: {"won": 1, "lost": 1, "tied": 1} for row in compared.rows}
        settings = {row: {f"setting {HOSTILE[0]}": f"value {row}"} for row in compared.rows}
        (compared.comparison.path / name).write_text(
            json.dumps(settings if name == "settings.json" else values)
        )
    page = read(compared.page())
    text = page.text
    for hostile in HOSTILE:
        for field in ("title", "text", "question", "answer", "qid"):
            assert f"{field} {hostile}" in text, field
    for row in compared.rows:
        assert (
            row in page.one("ul", class_="key").text
            and f"value {row}" in page.one("section", id="settings").text
        )
    assert len(page.all("script")) == 1 and len(page.all("h1")) == 1
    assert all(image.attributes["src"].startswith("data:image/svg+xml;base64,") for image in page.all("img"))
    assert not any(name.startswith("on") for element in page.walk() for name in element.attributes)
    asked = page.all("span", class_="asked")
    assert asked and all(element.attributes["dir"] == "auto" for element in asked)


def test_nothing_is_loaded_from_anywhere(text, page):
    for element in page.walk():
        for name, value in element.attributes.items():
            if name in ("src", "href", "srcset", "data", "action", "poster", "xlink:href"):
                assert value.startswith(("#", "data:")), (element.tag, name, value)
    assert not re.search(r"url\((?!#)|@import|https?://", text)
    policy = next(m for m in page.all("meta") if "http-equiv" in m.attributes).attributes["content"]
    assert "default-src 'none'" in policy and "script-src 'sha256-" in policy


def test_headings_are_in_order_and_the_page_has_a_language(page):
    assert page.one("html").attributes["lang"] == "en"
    levels = [int(element.tag[1]) for element in page.walk() if re.fullmatch("h[1-6]", element.tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


# --- the step ----------------------------------------------------------------------------------


def test_kubeflow_shows_the_page_itself(compared, text, tmp_path):
    """An HTML artifact's file is the page; its metadata lead to the store, as every artifact's."""
    output = HTML(uri=str(tmp_path / "report"))
    context = json.dumps({"store": compared.store.url, "run": "run"})
    config = json.dumps({"comparison": {"rows": list(compared.rows)}})
    artifacts = {
        "comparison": Artifact(metadata=_metadata(compared, "comparison")),
        "evaluations": [compared.address(f"{row}-evaluation") for row in compared.rows],
        "report": output,
    }
    address = execute("report", context, "report", config, **artifacts)
    shown = (tmp_path / "report").read_text(encoding="utf-8")
    assert shown.startswith("<!doctype html>") and shown == text
    (stored,) = (compared.store.root / names.REPORT).glob("*/attempts/*/report.html")
    assert stored.read_text(encoding="utf-8") == shown
    assert output.metadata["address"] == address and len(output.metadata["digest"]) == 64

    stored.unlink()
    with pytest.raises(SystemExit, match=r"report\.html is missing: remove the folder"):
        execute("report", context, "report", config, **artifacts)


def _metadata(compared: ComparedSystems, key: str) -> dict[str, str]:
    return {"address": compared.address(key), "digest": compared.made[key].digest, "path": key}
