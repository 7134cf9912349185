"""The page: its numbers, its text, its size, and that it makes sense whatever there is to show."""

import itertools
import json
import math
import re
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview import names
from multiview.artifacts.record import Reference
from multiview.data.passages import Passage
from multiview.data.questions import SCHEMA, Question
from multiview.errors import InputError
from multiview.evaluation.runs import read_qrels, read_run
from multiview.report.contents import Asked, Contents, Hit, View
from multiview.report.page import LIMIT, render
from multiview.runner import execute
from tests.report.reading import Element, read
from tests.report.world import AT, BEST, BM25, CAMVR, MVR, PASSAGES, QUESTIONS, System, World

HOSTILE = (
    '<script>alert("a")</script>',
    "\"'><img src=x onerror=alert(1)>",
    "</script></style></title><h1>&amp;",
    "مرحبا \u202eright to left",
    "🐟 {{ 7 * 7 }} $x_1$ ${y}",
)
PLAIN = (System(MVR.found), System(CAMVR.found))
"""Without models: charts take time."""


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> World:
    return World(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def text(world) -> str:
    return world.page()


@pytest.fixture(scope="module")
def page(text) -> Element:
    return read(text)


def test_the_numbers_are_those_of_the_comparison_and_of_a_recomputation_from_the_run_file(world, page):
    shown: dict[str, dict[str, float]] = {}
    for value in page.all("data"):
        if "data-metric" in value.attributes:
            system = world.rows[int(value.attributes["data-system"])]
            shown.setdefault(system, {})[value.attributes["data-metric"]] = float(value.attributes["value"])
            assert value.text == f"{100 * float(value.attributes['value']):.1f}"
    assert shown == json.loads((world.comparison.path / "metrics.json").read_text())

    texts = {passage.id: passage.text for passage in PASSAGES}
    for system, staged in zip(world.rows, world.evaluations, strict=True):
        run, gold = read_run(staged.path / "run.trec"), read_qrels(staged.path / "qrels.trec")
        expected: dict[str, list[float]] = {}
        for question in QUESTIONS:
            found = [name for name, _ in run.get(question.qid, [])]
            holds = [any(answer in texts[name] for answer in question.answers) for name in found]
            right = [name in gold[question.qid] for name in found]
            for k in AT:
                expected.setdefault(f"accuracy_at_{k}", []).append(float(any(holds[:k])))
                expected.setdefault(f"recall_at_{k}", []).append(sum(right[:k]) / len(gold[question.qid]))
            first = next((rank for rank, hit in enumerate(right, start=1) if hit), None)
            expected.setdefault("mrr_at_10", []).append(1 / first if first else 0.0)
            gains = [1 / math.log2(rank + 1) for rank in range(1, 11)]
            ideal = sum(gains[: len(gold[question.qid])])
            won = sum(gain for gain, hit in zip(gains, right, strict=False) if hit)
            expected.setdefault("ndcg_at_10", []).append(won / ideal)
        assert {name: pytest.approx(np.mean(of)) for name, of in expected.items()} == shown[system]


def test_marks_intervals_and_costs_are_the_comparisons(world, page):
    significance = json.loads((world.comparison.path / "significance.json").read_text())
    (table,) = page.all("table", class_="metrics")
    for row, system in zip(table.all("tr")[1:], world.rows, strict=True):
        for cell in row.all("td"):
            (data,) = cell.all("data")
            told = significance["systems"][system][data.attributes["data-metric"]]
            low, high = (f"{100 * told[end]:.1f}" for end in ("low", "high"))
            assert cell.one("span", class_="interval").text == f"{low}–{high}"
            marked = told["corrected_p"] is not None and told["corrected_p"] < 0.05
            assert bool(cell.all("span", class_="mark")) == marked
    cost = page.one("section", id="cost")
    assert [cell.text for cell in cost.all("tr")[1].all("td")] == ["2 min 5 s", "1 min 1 s", "16.4 kB", "812"]


def test_every_chart_has_a_name_a_description_and_its_numbers(page):
    charts = page.all("figure")
    titles = [chart.one("title").text for chart in charts]
    for kind in ("Which views win", "acc@2 of each view alone", "Attention divergence", "Cosine between views",
                 "Views a passage", "Views that win in training", "Training loss", "Temperature", "Share of fallbacks"):  # fmt: skip
        assert [title for title in titles if title.startswith(kind)] == [f"{kind}, mvr", f"{kind}, camvr"]
    ids = [element.attributes["id"] for element in page.walk() if "id" in element.attributes]
    assert len(set(ids)) == len(ids)
    for chart in charts:
        svg = chart.one("svg")
        assert svg.attributes["role"] == "img" and svg.one("desc").text.endswith(".")
        assert svg.attributes["aria-labelledby"].split() == [e.attributes["id"] for e in svg.children[:2]]  # type: ignore[union-attr]
        assert chart.one("details").all("td")
        assert "#0" not in "".join(e.attributes.get("style", "") for e in svg.walk()), "a colour of its own"
    loss = next(chart for chart in charts if chart.one("title").text == "Training loss, mvr")
    rows = [[cell.text for cell in row.walk() if cell.tag in ("th", "td")] for row in loss.all("tr")[1:]]
    assert rows == [
        *(["round 1", str(step), value] for step, value in ((10, "3"), (20, "2"), (30, "1"))),
        *(["round 2", str(step), value] for step, value in ((10, "1.5"), (20, "1"), (30, "0.5"))),
    ]


def test_a_question_shows_what_matched_with_every_views_score(page):
    questions = {question.one("code").text: question for question in page.all("details", class_="question")}
    assert set(questions) == {question.qid for question in QUESTIONS}
    shown = questions["q0"]
    assert shown.one("span", class_="asked").text == "What made Marohaven wealthy?"
    assert [definition.text for definition in shown.all("dd")] == ["glass", "Marohaven", "q0"]
    assert [rank.one("b").text for rank in shown.all("span", class_="rank")] == ["2", "1", "1"]
    mvr, camvr, bm25 = shown.all("section", class_="found")
    assert [title.text for title in mvr.all("p", class_="title")] == [
        "Pirenburg 20.00",
        "Marohaven 19.00 answer gold",
    ]
    (text,) = camvr.all("p", class_="text")
    assert text.one("mark").text == "It is old."
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


def hostile_world(folder) -> World:
    """Users' text that is none in every place where there can be some."""
    passages = [
        Passage(
            f"id {text}", f"title {text}", f"Before. text {text} After.", (8, 14 + len(text), 20 + len(text))
        )
        for text in HOSTILE
    ]
    questions = [
        Question(f"qid {text}", f"question {text}", (f"answer {text}",), None, (f"id {text}",))
        for text in HOSTILE
    ]
    found = {
        f"qid {text}": [f"id {text}", f"id {HOSTILE[0]}"][: 1 + (text != HOSTILE[0])] for text in HOSTILE
    }
    systems = {
        f"system {text}": System(found, views=3 * (text == HOSTILE[1]), rounds=1) for text in HOSTILE[:4]
    }
    return World(folder, systems, passages, questions)


def test_what_users_wrote_is_text(tmp_path):
    world = hostile_world(tmp_path)
    for name in ("settings.json", "won.json"):
        values = {row: {"won": 1, "lost": 1, "tied": 1} for row in world.rows}
        settings = {row: {f"setting {HOSTILE[0]}": f"value {row}"} for row in world.rows}
        (world.comparison.path / name).write_text(json.dumps(settings if name == "settings.json" else values))
    page = read(world.page())
    text = page.text
    for hostile in HOSTILE:
        for place in ("title", "text", "question", "answer", "qid"):
            assert f"{place} {hostile}" in text, place
    for row in world.rows:
        assert (
            row in page.one("ul", class_="key").text
            and f"value {row}" in page.one("section", id="settings").text
        )
    assert len(page.all("script")) == 1 and not page.all("img") and len(page.all("h1")) == 1
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


# --- bounds ------------------------------------------------------------------------------------


def test_a_page_is_small_whatever_the_corpus(tmp_path):
    """20,000 questions of eleven systems, with long texts that HTML makes five times as long."""
    number, long = 20_000, "&" * 3000
    passages = [Passage(f"p{i}", long, f"{long}. " * 3, (9006,)) for i in range(40)]
    systems = {f"system-{place}": System({}) for place in range(11)}
    world = World(tmp_path, systems, passages)
    qids = [f"q{i}" for i in range(number)]
    rows = [
        {"qid": q, "question": "&" * 900, "answers": ["&" * 400] * 9, "positive_ids": ["p1"]} for q in qids
    ]
    questions = world.publish(
        "dev_questions", "split", "many",
        lambda path: pq.write_table(pa.Table.from_pylist(rows, SCHEMA), path / "questions.parquet"),
    )  # fmt: skip
    ranks = pa.array(np.random.default_rng(0).integers(1, 5, number), pa.int32())
    about = {"qid": qids, "rank_of_first_answer": ranks, "rank_of_first_gold": ranks}
    views = {"view": 3, "view_scores": [1.0] * 12}
    views |= {"view_starts": [None, *range(0, 8800, 800)], "view_stops": [None, *range(800, 9600, 800)]}
    hits = [
        {
            "qid": q,
            "rank": rank,
            "passage_id": f"p{(i + rank) % 40}",
            "score": 1.0,
            "answer": True,
            "gold": True,
            **views,
        }
        for i, q in enumerate(qids[:2000])
        for rank in (1, 2)
    ]
    pq.write_table(pa.table(about), tmp_path / "questions.parquet")
    pq.write_table(pa.Table.from_pylist(hits, BEST), tmp_path / "best.parquet")
    for staged in world.evaluations:
        for name in ("questions.parquet", "best.parquet"):
            (staged.path / name).write_bytes((tmp_path / name).read_bytes())
    record = world.made["system-0-evaluation"]
    reference = Reference(address=world.address("many"), digest=questions.digest)
    inputs = {"passages": record.inputs["passages"], "questions": [reference]}
    world.store.replace(
        f"{record.folder}/artifact.json", record.model_copy(update={"inputs": inputs}).to_json()
    )
    text = world.page()
    assert LIMIT // 2 < len(text.encode()) < LIMIT
    shown = read(text).all("details", class_="question")
    assert 0 < len(shown) < 240 and f"{len(shown)} of 20,000 questions" in text


@pytest.mark.parametrize(
    ("systems", "says"),
    [
        ({"bm25": BM25}, "bm25 answered 5 questions over 4 passages."),
        ({"one-round": System(CAMVR.found, 4, 1)}, "one-round answered 5 questions"),
        ({"one-view": System(CAMVR.found, 1, 1, architecture="dpr"), "bm25": BM25}, "2 systems answered"),
        ({"no-analyses": System(CAMVR.found, 4, 2, analyses=False), "bm25": BM25}, "2 systems answered"),
        ({"no-hits": System({}), "nor-here": System({}, 4, 1)}, "All systems reach the same, 0.0 %."),
        ({"untrained": System(CAMVR.found, 4, 0)}, "untrained answered"),
        ({f"system {n}": PLAIN[n % 2] for n in range(11)}, "11 systems answered the same 5 questions"),
    ],
    ids=lambda value: "-".join(value)[:20] if isinstance(value, dict) else "",
)
def test_the_page_makes_sense_whatever_there_is(tmp_path, systems, says):
    world = World(tmp_path, systems)
    page = read(world.page())
    assert not world.tell.warnings
    assert says in page.one("section", id="summary").text
    assert len(page.all("details", class_="question")) == len(QUESTIONS)
    assert len(page.one("ul", class_="key").all("li")) == len(systems)
    links = [link.attributes["href"][1:] for link in page.one("nav").all("a")]
    assert links == [s.attributes["id"] for s in page.one("main").all("section") if s.attributes.get("id")]
    drawn = {name for name, system in systems.items() if system.rounds}
    losses = [c for c in page.all("figure") if c.one("title").text.startswith("Training loss")]
    assert len(losses) == len(drawn)
    looks = {
        (*sorted(e.attributes["class"].split()), e.text)
        for e in page.one("ul", class_="key").all("span", class_="symbol")
    }
    assert len(looks) == len(systems), "no two systems look the same"


def test_one_question(tmp_path):
    world = World(tmp_path, {"mvr": PLAIN[0], "camvr": PLAIN[1]}, questions=QUESTIONS[:1])
    page = read(world.page())
    assert "2 systems answered 1 question over 4 passages. So few questions" in page.text
    assert "All 1 question." in page.one("section", id="questions").text
    assert not page.all("span", class_="interval"), "one question has no interval"


def test_a_question_without_an_answer_goes_by_its_gold_passage(tmp_path):
    questions = [Question("q0", "What made it wealthy?", (), None, ("p0",))]
    page = read(World(tmp_path, {"mvr": PLAIN[0], "camvr": PLAIN[1]}, questions=questions).page())
    assert [rank.one("b").text for rank in page.all("span", class_="rank")] == ["2", "1"]
    assert page.all("dd")[-3].text == "none is known"


def test_what_is_gone_from_the_store_is_left_out(tmp_path):
    world = World(
        tmp_path, {"mvr": System(MVR.found, 4, 2, False), "camvr": System(CAMVR.found, 4, 1, False)}
    )
    world.store.remove("model/mvr-1")
    page = read(world.page())
    assert len(world.tell.warnings) == 1 and "leaves out mvr's training" in world.tell.warnings[0]
    titles = [chart.one("title").text for chart in page.all("figure")]
    assert "Training loss, mvr" not in titles and "Training loss, camvr" in titles


def test_an_evaluation_of_an_earlier_version_shows_its_first_passages(tmp_path):
    world = World(tmp_path, {"mvr": PLAIN[0], "camvr": PLAIN[1]})
    for staged in world.evaluations:
        (staged.path / "best.parquet").unlink()
    page = read(_without(world, "best.parquet").page())
    for question in page.all("details", class_="question"):
        assert all(
            len(found.all("p", class_="title")) <= 1 for found in question.all("section", class_="found")
        )
    assert page.all("p", class_="text")


def _without(world: World, name: str) -> World:
    for key, record in world.made.items():
        if record.kind == "evaluation":
            files = [file for file in record.files if file.path != name]
            world.store.replace(
                f"{record.folder}/artifact.json", record.model_copy(update={"files": files}).to_json()
            )
            world.made[key] = record.model_copy(update={"files": files})
    return world


def test_a_text_that_is_no_text_is_still_written():
    """A lone surrogate, as JSON can hold, has no bytes in UTF-8."""
    hit = Hit(1, "p", 1.0, True, True, 1, (View(1, 1.0, 0, 1), View(2, 0.5, 1, 2)))
    asked = Asked("q", "\ud800?", ("a",), ("p",), (1,), ((hit,),))
    from multiview.report.contents import System as Row

    significance = {"baseline": "a", "systems": {}}
    page = render(
        Contents([Row("a", 0, {})], "a", significance, 1, 1, [asked], {"p": ("\ud800", "ab\ud800")}, "digest")
    )
    assert "No metric could be computed" in page


# --- the step ----------------------------------------------------------------------------------


def test_kubeflow_shows_the_page_itself(world, text, tmp_path):
    """An HTML artifact's file is the page; its metadata lead to the store, as every artifact's."""
    output = SimpleNamespace(metadata={}, path=str(tmp_path / "report"))
    context = json.dumps({"store": world.store.url, "run": "run"})
    config = json.dumps({"comparison": {"rows": list(world.rows)}})
    inputs = {
        "comparison": SimpleNamespace(metadata=_metadata(world, "comparison")),
        "evaluations": [world.address(f"{row}-evaluation") for row in world.rows],
    }
    address = execute("report", context, "report", config, inputs, {"report": output})
    shown = (tmp_path / "report").read_text(encoding="utf-8")
    assert shown.startswith("<!doctype html>") and shown == text
    (stored,) = (world.store.root / names.REPORT).glob("*/attempts/*/report.html")
    assert stored.read_text(encoding="utf-8") == shown
    assert output.metadata["address"] == address and len(output.metadata["digest"]) == 64

    stored.unlink()
    with pytest.raises(InputError, match=r"report\.html is missing: remove the folder"):
        execute("report", context, "report", config, inputs, {"report": output})


def _metadata(world: World, key: str) -> dict[str, str]:
    return {"address": world.address(key), "digest": world.made[key].digest, "path": key}
