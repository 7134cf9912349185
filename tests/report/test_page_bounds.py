"""The page makes sense, and is small, whatever there is to show."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.artifacts.record import Reference
from multiview.data.passages import Passage
from multiview.data.questions import SCHEMA, Question
from multiview.evaluation.tables import Significance
from multiview.evaluation.top_hits import SCHEMA as BEST
from multiview.report.contents import Contents, QuestionResults
from multiview.report.contents import System as Row
from multiview.report.page import render
from multiview.report.shown_questions import SHOWN_RANKINGS
from tests.fixtures import compared_systems
from tests.fixtures.compared_systems import BM25, CAMVR, MVR, QUESTIONS, ComparedSystems, System
from tests.fixtures.page_tree import read

PLAIN = (System(MVR.found), System(CAMVR.found))
"""Without models: charts take time."""


def test_a_page_is_small_whatever_the_corpus(tmp_path):
    """20,000 questions of eleven systems, with long texts that HTML makes five times as long."""
    number, long = 20_000, "&" * 3000
    passages = [Passage(f"p{i}", long, f"{long}. " * 3, (9006,)) for i in range(40)]
    systems = {f"system-{number}": System({}) for number in range(11)}
    compared = ComparedSystems(tmp_path, systems, passages)
    qids = [f"q{i}" for i in range(number)]
    rows = [
        {"qid": q, "question": "&" * 900, "answers": ["&" * 400] * 9, "positive_ids": ["p1"]} for q in qids
    ]
    questions = compared.publish(
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
    for staged in compared.evaluations:
        for name in ("questions.parquet", "best.parquet"):
            (staged.path / name).write_bytes((tmp_path / name).read_bytes())
    record = compared.made["system-0-evaluation"]
    reference = Reference(address=compared.address("many"), digest=questions.digest)
    inputs = {"passages": record.inputs["passages"], "questions": [reference]}
    compared.store.replace(
        f"{record.folder}/artifact.json", record.model_copy(update={"inputs": inputs}).to_json()
    )
    text = compared.page()
    assert len(text.encode()) < 10_000_000
    shown = read(text).all("details", class_="question")
    assert len(shown) == SHOWN_RANKINGS // 11 and f"{len(shown)} of 20,000 questions" in text


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
    assert "camvr/seed-0" in page.one("section", id="summary").text


def test_a_study_without_a_metric_has_no_means(tmp_path, monkeypatch):
    """Nothing is measured at a rank that was not retrieved."""
    monkeypatch.setattr(compared_systems, "AT", (50,))
    monkeypatch.setattr(compared_systems, "DEPTH", 5)
    seeds = {f"mvr/seed-{seed}": "mvr" for seed in (0, 1)}
    text = ComparedSystems(tmp_path, dict(zip(seeds, PLAIN, strict=True)), seeds_of=seeds).page()
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
