"""The page's summary in words."""

from dataclasses import replace
from typing import Any

from multiview.report.contents import Contents, System, Training
from multiview.report.page import page_templates, summary
from tests.fixtures.page_tree import read


def contents(values: dict[str, float], p: float | None = None, **more: Any) -> Contents:
    """Systems with one metric; all differ from the first one with this corrected p."""
    base, *_ = values
    systems = [
        System(name, number, {"accuracy_at_5": value}) for number, (name, value) in enumerate(values.items())
    ]
    figures = {
        name: {
            "accuracy_at_5": {"difference": value - values[base], "corrected_p": None if name == base else p}
        }
        for name, value in values.items()
    }
    given = {"passages": 1000, "questions": 100, "results": [], "texts": {}, "digest": "d", **more}
    return Contents(systems, base, {"baseline": base, "systems": figures, "test": ""}, **given)


def words(of: Contents) -> dict[str, str]:
    page = read(page_templates().get_template("summary.html").render(**summary(of)))
    said: dict[str, str] = {}
    for about, text in zip(page.all("dt"), page.all("dd"), strict=True):
        said[about.text] = f"{said.get(about.text, '')} {text.text.strip()}".strip()
    return said


def test_the_summary_says_who_is_best_by_how_much_and_whether_it_may_be_chance():
    said = words(contents({"mvr": 0.5, "camvr": 0.75}, 0.0004))
    assert said["acc@5"] == "camvr is best with 75.0 %, 25.0 points above mvr (significant, p < 0.001)."
    assert said["Tests"] == "Against mvr: camvr is significantly better on 1 of 1 metric."
    said = words(contents({"mvr": 0.5, "camvr": 0.51}, 0.4))
    assert said["acc@5"] == "camvr is best with 51.0 %, 1.0 points above mvr (not significant, p = 0.40)."
    assert said["Tests"].startswith("No system differs significantly from mvr on any metric")
    said = words(contents({"mvr": 0.5, "camvr": 0.25, "dpr": 0.125}, 0.049))
    assert said["acc@5"] == "mvr is best with 50.0 %, 25.0 points above camvr (significant, p = 0.049)."
    assert said["Tests"] == (
        "Against mvr: camvr is significantly worse on 1 of 1 metric; dpr is significantly worse on 1 of 1 metric."
    )


def test_the_summary_of_ties_of_one_system_and_of_nothing():
    said = words(contents({"mvr": 0.5, "camvr": 0.75, "dpr": 0.75}, 0.01))
    assert said["acc@5"].startswith("camvr and dpr are best with 75.0 %, 25.0 points above mvr (significant")
    assert words(contents({"mvr": 0.5, "camvr": 0.5}, 1.0))["acc@5"] == "All systems reach the same, 50.0 %."
    said = words(contents({"camvr": 0.5}))
    assert said["Asked"] == "camvr answered 100 questions over 1,000 passages."
    assert said["Reached"] == "50.0 % at acc@5."
    systems = [System("a", 0, {}), System("b", 1, {})]
    nothing = replace(contents({"a": 0.0}), systems=systems, passages=0, questions=0)
    assert words(nothing) == {"Asked": "2 systems answered the same 0 questions."}


def test_the_summary_of_collapsed_views():
    systems = [
        System("alike", 0, {}, view_cosine=0.999),
        System("one", 1, {}, usage={"share_of_top_1": [0.04, 0.96]}),
        System("fine", 2, {}, view_cosine=0.7, usage={"share_of_top_1": [0.5, 0.5]}),
        System("single", 3, {}, usage={"share_of_top_1": [1.0]}),
    ]
    said = words(replace(contents({"alike": 0.0}), systems=systems))["Views"]
    assert "alike's views have collapsed" in said and "view 2 wins 96 % of the questions" in said
    assert "fine" not in said and "single" not in said


def test_the_summary_marks_generated_questions_and_who_learned_from_some():
    trainings = [Training("train", {})]
    systems = [
        System("base", 0, {"accuracy_at_5": 0.5}, generated_by="crop"),
        System("crops", 1, {"accuracy_at_5": 0.5}, generated_by="crop", trainings=trainings),
        System("labelled", 2, {"accuracy_at_5": 0.5}, trainings=trainings),
    ]
    of = contents({"base": 0.5, "crops": 0.5, "labelled": 0.5}, 1.0)
    assert not any("generated" in text for text in words(of).values())
    said = words(replace(of, systems=systems, generated=100))
    assert "Measured on generated questions: each was made from a snippet" in said["Asked"]
    assert said["Trained"].startswith("crops learned from questions that were generated from the corpus")


def test_the_summary_says_which_training_ended_below_its_start():
    def training(name: str, start: int, *values: float) -> Training:
        curve = {start + 25 * number: value for number, value in enumerate(values)}
        return Training(name, {"validation_mrr_at_10": curve}, start)

    worse = [training("round 1", 0, 0.25, 0.5, 0.125), training("round 2", 50, 0.5, 0.25, 0.375)]
    systems = [
        System("worse", 0, {}, trainings=worse),
        System("equal", 1, {}, trainings=[training("round 1", 0, 0.5, 0.5)]),
        System("unknown", 2, {}, trainings=[Training("round 1", {"loss": {10: 1.0}})]),
    ]
    said = words(replace(contents({"a": 0.5, "b": 0.5}), systems=systems))
    assert said["Training"] == (
        "No validation of worse's round 2 is as good as that before it: MRR@10 37.5 % at best, 50.0 % before."
    )
