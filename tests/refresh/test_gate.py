"""The gate's verdicts on real (tiny) indexes."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview import load, metric_names, names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.champions import champion_numbers, champion_of
from multiview.artifacts.store import LocalStore
from multiview.data.questions import read_lost_questions, read_questions
from multiview.evaluation.files import RUN_FILE
from multiview.refresh import gate
from multiview.refresh.gate import figures
from multiview.refresh.gate_rules import Check, Difference, Verdict
from multiview.steps.events import read_metrics
from tests.fixtures.ascii_files import in_ascii
from tests.fixtures.by_trec import read_trec_run
from tests.fixtures.changing_corpus import ChangingCorpus


def test_questions_of_another_length_are_a_change_and_each_index_is_asked_with_its_own(
    corpus: ChangingCorpus,
) -> None:
    """An evaluation asks as a search of its index does, whatever length `encode` says by now."""
    encode = corpus.settings["encode"]
    for changed in ({**encode, "question_length": 8}, encode):
        indexes = {"champion": champion_of(corpus.store).index.address}
        records = corpus.refresh(encode=changed)
        assert corpus.decision(records) == "promote"
        assert records["challenger/changes"][names.CHANGES].facts["to_encode"] == 0
        indexes["challenger"] = champion_of(corpus.store).index.address
        questions = read_questions(corpus.files(records["split"][names.DEV_QUESTIONS]))
        runs = []
        for side, index in indexes.items():
            folder = corpus.files(records[f"{side}/evaluate"][names.EVALUATION])
            runs.append(read_trec_run(folder / RUN_FILE))
            hits = load(index).search([each.question for each in questions], k=5)
            for question, found in zip(questions, hits, strict=True):
                expected = [(id_, pytest.approx(score, rel=1e-5)) for id_, score in runs[-1][question.qid]]
                assert [(hit.id, hit.score) for hit in found] == expected[:5]
        assert runs[0] != runs[1], "the length makes a difference"


def test_a_verdict_is_told_in_any_words_whatever_the_locale(corpus: ChangingCorpus, monkeypatch) -> None:
    decide = gate.decide
    monkeypatch.setattr(gate, "decide", lambda *given: replace(decide(*given), says="größer"))
    in_ascii(monkeypatch)
    records = corpus.refresh()
    for step, kind, name in (
        ("gate", names.VERDICT, names.VERDICT_FILE),
        ("gate", names.VERDICT, names.VERDICT_TEXT_FILE),
        ("promote", names.PROMOTION, names.PROMOTION_FILE),
        ("report", names.REPORT, names.REPORT_PAGE_FILE),
    ):
        assert "größer" in (corpus.files(records[step][kind]) / name).read_text(encoding="utf-8"), name


def test_nothing_changed_nothing_is_promoted_but_changed_columns_are(corpus: ChangingCorpus) -> None:
    records = corpus.refresh()
    assert (corpus.decision(records), champion_numbers(corpus.store)) == ("keep", [1])
    assert records["challenger/changes"][names.CHANGES].facts["to_encode"] == 0
    corpus.rows = [{**row, "url": f"https://new.example/{number}"} for number, row in enumerate(corpus.rows)]
    assert corpus.decision(corpus.refresh()) == "promote"


def test_a_halved_corpus_is_refused_and_the_champion_stays(corpus: ChangingCorpus) -> None:
    corpus.rows = corpus.rows[: len(corpus.rows) // 2]
    records = corpus.refresh()
    found = corpus.verdict(records)
    assert found["decision"] == "refuse" and found["says"].startswith("largest_shrinkage: ")
    assert champion_numbers(corpus.store) == [1]
    page = (corpus.files(records["report"][names.REPORT]) / "report.html").read_text()
    assert "<h1>Refused</h1>" in page and "largest_shrinkage" in page
    reported = read_metrics(corpus.store, records["gate"][names.VERDICT].data)
    assert {metric.name: metric.value for metric in reported} == {
        metric_names.of_group(side, name): of_sides[side]
        for name, of_sides in found["metrics"].items()
        for side in ("champion", "challenger")
    }
    lenient = {"drops": {}, "largest_shrinkage": 0.6, "max_lost_questions": 0.6}
    assert corpus.decision(corpus.refresh(gate=lenient)) == "promote"
    assert champion_numbers(corpus.store) == [1, 2]


def test_most_dev_questions_lost_are_a_refusal_however_well_the_others_are_answered(
    corpus: ChangingCorpus,
) -> None:
    """Passages that got other ids are as many as before, and the few questions left are answered as before."""
    corpus.rows = [{**row, "id": f"new-{row['id']}"} if at > 1 else row for at, row in enumerate(corpus.rows)]
    all_may_be_missing = {"max_missing_gold": 1.0}
    records = corpus.refresh(questions=all_may_be_missing)
    found = corpus.verdict(records)
    assert [check["name"] for check in found["checks"] if not check["passed"]] == ["max_lost_questions"]
    asked = read_lost_questions(corpus.files(records["split"][names.LOST_QUESTIONS]))
    assert found["decision"] == "refuse"
    assert found["says"] == (
        f"max_lost_questions: {len(asked.lost)} of {asked.questions} questions (93.8%) have lost their gold passage or "
        f"the answer in it, up to 20.0% is allowed; mend them (first: question {asked.lost[0]}), or allow more with "
        "gate.max_lost_questions"
    )
    assert champion_numbers(corpus.store) == [1]
    page = (corpus.files(records["report"][names.REPORT]) / "report.html").read_text()
    assert "max_lost_questions" in page and "(93.8%) have lost" in page
    lenient = corpus.refresh(questions=all_may_be_missing, gate={"max_lost_questions": 0.9375})
    assert (corpus.decision(lenient), champion_numbers(corpus.store)) == ("promote", [1, 2])


def test_dead_questions_that_are_deleted_count_no_more(corpus: ChangingCorpus) -> None:
    """The evaluations stay as they are, and yet the gate decides anew."""
    corpus.change(0)
    questions = pq.read_table(corpus.settings["questions"]["source"]).to_pylist()
    gone = [{**questions[0], "qid": f"dead-{number}", "positive_ids": ["gone"]} for number in range(20)]
    files = [corpus.folder / "with.parquet", corpus.folder / "without.parquet"]
    for file, rows in zip(files, (questions + gone, questions), strict=True):
        pq.write_table(pa.Table.from_pylist(rows), file)
    refused, promoted = (corpus.refresh(questions={"source": str(file)}) for file in files)
    assert corpus.verdict(refused)["says"].startswith("max_lost_questions: 20 of ")
    assert corpus.decision(promoted) == "promote"
    digests = [each["challenger/evaluate"][names.EVALUATION].digest for each in (refused, promoted)]
    assert digests[0] == digests[1]


REFUSED = Verdict(
    "refuse",
    "accuracy_at_5 fell",
    [Check("accuracy_at_5", False, "-0.2"), Check("passages", True, "10")],
    {"accuracy_at_5": Difference(0.75, 0.5), "ndcg_at_10": Difference(0.5, 0.5)},
)
FIRST = Verdict("promote", "the first", [], {"mrr_at_10": Difference(None, 0.25)})
KEPT = Verdict("keep", "nothing has changed")


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (REFUSED, {"promoted": 0, "failed_checks": 1, "accuracy_at_5/champion": 0.75, "accuracy_at_5/challenger": 0.5}),
        (FIRST, {"promoted": 1, "failed_checks": 0, "mrr_at_10/challenger": 0.25}),
        (KEPT, {"promoted": 0, "failed_checks": 0}),
    ],
)  # fmt: skip
def test_a_verdict_shows_its_outcome_and_both_sides(verdict, expected, tmp_path):
    store = LocalStore(tmp_path)
    attempt = Attempt(store, "verdict", "k")
    (attempt.path / names.VERDICT_FILE).write_text(json.dumps(asdict(verdict)))
    record = attempt.publish(step="gate", step_version=1, config={}, inputs={})[0]
    assert figures(store, record) == expected
