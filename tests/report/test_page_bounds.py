"""The page makes sense, and is small, whatever there is to show."""

import pytest

from multiview.data.passages import Passage
from multiview.data.questions import Question
from multiview.evaluation.tables import Significance
from multiview.report.contents import Contents, QuestionResults
from multiview.report.contents import System as Row
from multiview.report.page import render
from multiview.report.shown_questions import SHOWN_RANKINGS
from tests.fixtures.compared_systems import BM25, CAMVR, MVR, QUESTIONS, ComparedSystems, System
from tests.fixtures.page_tree import read

PLAIN = (System(MVR.found), System(CAMVR.found))
"""Without models: charts take time."""


def test_a_page_is_small_whatever_the_corpus(tmp_path):
    """Sixty questions of eleven systems, with long texts that HTML makes five times as long."""
    long, number = "&" * 3000, 60
    passages = [Passage(f"p{i}", long, 3 * long, (*range(800, 9000, 800), 9000)) for i in range(10)]
    questions = [Question(f"q{i}", "&" * 900, ("&" * 400 + "x",) * 9, None, ("p1",)) for i in range(number)]
    found = {each.qid: [f"p{row % 10}", f"p{(row + 7) % 10}"] for row, each in enumerate(questions)}
    systems = {f"system-{n}": System(found, views=12, analyses=False) for n in range(11)}
    text = ComparedSystems(tmp_path, systems, passages, questions).page()
    assert len(text.encode()) < 10_000_000
    shown = text.count('<details class="question"')
    assert shown == SHOWN_RANKINGS // 11 and f"{shown} of {number} questions" in text


@pytest.mark.parametrize(
    ("systems", "says"),
    [
        ({"bm25": BM25}, "bm25 answered 5 questions over 4 passages."),
        ({"one-view": System(CAMVR.found, 1, 1, architecture="dpr"), "bm25": BM25}, "2 systems answered"),
        (
            {
                "no-analyses": System(CAMVR.found, 4, 2, analyses=False),
                "untrained": System(CAMVR.found, 4, 0),
            },
            "2 systems answered",
        ),
        ({"no-hits": System({}), "nor-here": System({}, 4, 1)}, "All systems reach the same, 0.0 %."),
        ({f"system {n}": PLAIN[n % 2] for n in range(11)}, "11 systems answered the same 5 questions"),
    ],
    ids=lambda value: "-".join(value)[:20] if isinstance(value, dict) else "",
)
def test_the_page_makes_sense_whatever_there_is(tmp_path, systems, says):
    compared = ComparedSystems(tmp_path, systems)
    page = read(compared.page())
    assert not compared.events.warnings
    assert says in page.one("section", id="summary").text
    assert len(page.all("details", class_="question")) == len(QUESTIONS)
    assert len(page.one("ul", class_="key").all("li")) == len(systems)
    links = [link.attributes["href"][1:] for link in page.one("nav").all("a")]
    assert links == [s.attributes["id"] for s in page.one("main").all("section") if s.attributes.get("id")]
    drawn = {name for name, system in systems.items() if system.rounds}
    losses = [i for i in page.all("img") if i.attributes["alt"].startswith("Training loss")]
    assert len(losses) == len(drawn)
    looks = {
        (e.attributes["style"], e.text) for e in page.one("ul", class_="key").all("span", class_="symbol")
    }
    assert len(looks) == len(systems), "no two systems look the same"


def test_a_study_of_several_seeds(tmp_path):
    """Its systems are means over rows, and no row is tested."""
    seeds = {f"{name}/seed-{seed}": name for name in ("mvr", "camvr") for seed in (0, 1)}
    systems = {row: PLAIN[name == "camvr"] for row, name in seeds.items()}
    systems["mvr/seed-1"] = PLAIN[1]
    page = read(ComparedSystems(tmp_path, systems, seeds_of=seeds).page())
    (heading,) = [h for h in page.all("h3") if h.text == "Means over seeds"]
    table = page.all("table")[1]
    assert heading.text and [row.one("bdi").text for row in table.all("tr")[1:]] == ["mvr", "camvr"]
    assert table.all("tr")[1].all("td")[0].text == "40.0± 28.3"
    assert "baseline" not in page.one("ul", class_="key").text
    summary = page.one("section", id="summary").text
    assert "camvr is best with 60.0 %, 20.0 points above mvr (not significant, p = 0.50)." in summary
    assert "No system differs significantly from mvr" in summary and "seed-1 is best" not in summary


@pytest.mark.parametrize("runs", [1, 2])
def test_means_over_seeds_that_nothing_tells_apart_are_not_called_alike(tmp_path, runs):
    """Welch's t-test needs two seeds, and a deviation."""
    seeds = {f"{name}/seed-{seed}": name for name in ("mvr", "camvr") for seed in range(runs)}
    compared = ComparedSystems(
        tmp_path, {row: PLAIN[name == "camvr"] for row, name in seeds.items()}, seeds_of=seeds
    )
    page, table = compared.page(), (compared.comparison.path / "table.md").read_text()
    for text in (page, table):
        assert "nothing is tested against mvr, which takes several seeds that differ" in text
        assert "Welch" not in text
    assert "Tests" not in [term.text for term in read(page).all("dt")]


def test_a_study_without_a_metric_has_no_means(tmp_path):
    seeds = {f"mvr/seed-{seed}": "mvr" for seed in (0, 1)}
    unjudged = [Question("q0", "What made it wealthy?", (), None, ())]
    systems = dict(zip(seeds, PLAIN, strict=True))
    text = ComparedSystems(tmp_path, systems, seeds_of=seeds, questions=unjudged).page()
    assert "No metric could be computed" in text and "Means over seeds" not in text


def test_one_question(tmp_path):
    compared = ComparedSystems(tmp_path, {"mvr": PLAIN[0], "camvr": PLAIN[1]}, questions=QUESTIONS[:1])
    page = read(compared.page())
    assert "2 systems answered 1 question over 4 passages. So few questions" in page.text
    assert "The one question." in page.one("section", id="questions").text
    assert not page.all("span", class_="interval"), "one question has no interval"


def test_a_question_without_an_answer_goes_by_its_gold_passage(tmp_path):
    questions = [Question("q0", "What made it wealthy?", (), None, ("p0",))]
    page = read(ComparedSystems(tmp_path, {"mvr": PLAIN[0], "camvr": PLAIN[1]}, questions=questions).page())
    assert [rank.one("b").text for rank in page.all("span", class_="rank")] == ["2", "1"]
    assert page.all("dd")[-3].text == "none is known"


def test_what_is_gone_from_the_store_is_left_out(tmp_path):
    compared = ComparedSystems(
        tmp_path, {"mvr": System(MVR.found, 4, 2, False), "camvr": System(CAMVR.found, 4, 1, False)}
    )
    compared.store.remove("model/mvr-1")
    page = read(compared.page())
    assert len(compared.events.warnings) == 1 and "leaves out mvr's training" in compared.events.warnings[0]
    titles = [image.attributes["alt"].partition(". ")[0] for image in page.all("img")]
    assert "Training loss, mvr" not in titles and "Training loss, camvr" in titles


def test_a_text_that_is_no_text_is_still_written():
    """A lone surrogate, as JSON can hold, has no bytes in UTF-8."""
    hit = {"rank": 1, "passage_id": "p", "score": 1.0, "answer": True, "gold": True, "view": 0}
    hit |= {"view_scores": [1.0, 0.5], "view_starts": [0, 1], "view_stops": [1, 2]}
    asked = QuestionResults("q", "\ud800?", ("a",), ("p",), (1,), ((hit,),))
    significance: Significance = {"baseline": "a", "test": "", "systems": {}}
    page = render(
        Contents([Row("a", 0, {})], "a", significance, 1, 1, [asked], {"p": ("\ud800", "ab\ud800")}, "digest")
    )
    assert "No metric could be computed" in page
