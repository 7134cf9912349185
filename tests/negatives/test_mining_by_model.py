"""Mining with a real (tiny, untrained) model."""

from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Mining
from multiview.data.answers import has_answer
from multiview.errors import InputError
from multiview.negatives import filters
from multiview.negatives.bm25 import bm25_negatives
from multiview.negatives.mining import mine
from multiview.negatives.negatives_file import read_negatives, read_positives, read_table
from tests.fixtures.artifacts import questions_folder
from tests.fixtures.retrieval_run import SETTINGS, check_negatives, scores_by_plain_formula


def test_mined_negatives_follow_the_model_s_ranking_and_the_bm25_rows(retrieval):
    bm25, _ = retrieval.run("negatives", bm25_negatives)
    out, events = retrieval.run("negatives", mine, bm25_negatives=LocalArtifact(bm25, "bm25"))
    rows = read_table(out).to_pylist()
    half = len(retrieval.questions)
    assert rows[:half] == [row | {"positive_ids": []} for row in read_table(bm25).to_pylist()]
    mined = rows[half:]
    assert {row["source"] for row in mined} == {"mined"} and [row["qid"] for row in mined] == [
        q.qid for q in retrieval.questions
    ]
    check_negatives(retrieval, mined)
    plain = scores_by_plain_formula(retrieval)
    for row in mined:
        assert len(row["negative_ids"]) == 6
        assert row["scores"] == sorted(row["scores"], reverse=True)
        np.testing.assert_allclose(
            row["scores"], [plain[row["qid"]][name] for name in row["negative_ids"]], rtol=1e-4
        )
    facts = events.facts
    assert facts["hits"] == 20 * half and facts["questions_with_fewer"] == 0
    assert read_negatives(out)["q0"] == {"bm25": rows[0]["negative_ids"], "mined": mined[0]["negative_ids"]}
    again, _ = retrieval.run("negatives", mine, bm25_negatives=LocalArtifact(out, "mined"))
    assert read_table(again).to_pylist() == rows, "those of an earlier mining give way"


def test_groups_of_questions_have_the_negatives_of_all_together(retrieval, monkeypatch):
    few = SimpleNamespace(
        **vars(SETTINGS) | {"mining": Mining(depth=20, number=6, with_bm25=False, margin=0.1)}
    )
    whole, said = retrieval.run("negatives", mine, few)
    monkeypatch.setattr(filters, "HITS_AT_ONCE", 60)
    parts, heard = retrieval.run("negatives", mine, few)
    # A product of matrices may round a question's scores differently in another row.
    rows = read_table(whole).to_pylist()
    expected = [row | {"scores": pytest.approx(row["scores"], rel=1e-6)} for row in rows]
    assert read_table(parts).to_pylist() == expected and heard.facts == said.facts
    searches = [done for done, _, unit in heard.steps if unit == "searches"]
    assert searches == sorted(searches) and searches[-1] == len(retrieval.questions)


def test_mined_alone_in_another_order_and_too_few(retrieval):
    few = SimpleNamespace(**vars(SETTINGS) | {"mining": Mining(depth=20, number=20, with_bm25=False)})
    out, events = retrieval.run("negatives", mine, few)
    rows = read_table(out).to_pylist()
    facts = events.facts
    left = facts["hits"] - facts["excluded_positive"] - facts["excluded_answer"]
    assert check_negatives(retrieval, rows) == left > 0 and min(facts.values()) >= 0
    short = sum(len(row["negative_ids"]) < 20 for row in rows)
    assert facts["questions_with_fewer"] == short > 0
    assert f"for {short} of {len(rows)} questions" in events.warnings[0]
    reordered = LocalArtifact(
        questions_folder(retrieval.folder / "reversed", retrieval.questions[::-1]), "reversed"
    )
    back, _ = retrieval.run("negatives", mine, few, questions=reordered)
    # A product of matrices may round a question's scores differently in another row.
    expected = [row | {"scores": pytest.approx(row["scores"], rel=1e-6)} for row in rows]
    assert read_table(back).to_pylist()[::-1] == expected


def test_mining_reports_each_question_s_exclusions_and_what_training_finds(retrieval):
    mining = Mining(depth=20, number=6, range_start=2, answer_hits="positives", relative_margin=0.01)
    chosen = SimpleNamespace(**vars(SETTINGS) | {"mining": mining})
    bm25, _ = retrieval.run("negatives", bm25_negatives)
    out, events = retrieval.run("negatives", mine, chosen, bm25_negatives=LocalArtifact(bm25, "bm25"))
    rows = pq.read_table(out / "report.parquet").to_pylist()
    assert [row["qid"] for row in rows] == [q.qid for q in retrieval.questions]
    plain, asked = scores_by_plain_formula(retrieval), {q.qid: q for q in retrieval.questions}
    for row in rows:
        best = max(plain[row["qid"]][name] for name in asked[row["qid"]].positive_ids)
        assert row["positive_score"] == pytest.approx(best, rel=1e-4) and row["excluded_range"] == 2
    mined = read_table(out).to_pylist()[len(rows) :]
    assert check_negatives(retrieval, mined) == events.facts["drawn"] == sum(row["drawn"] for row in rows) > 0
    texts, found = {p.id: p.text for p in retrieval.passages}, read_positives(out)
    assert sum(map(len, found.values())) == events.facts["positives_found"] > 0
    for qid, names in found.items():
        assert all(has_answer(texts[name], asked[qid].answers) for name in names)
        negatives = [name for ids in read_negatives(out)[qid].values() for name in ids]
        assert not set(names) & {*asked[qid].positive_ids, *negatives}


def test_mining_with_another_model_is_refused(retrieval):
    other = LocalArtifact(retrieval.inputs["model"].path, "another")
    with pytest.raises(InputError, match="the index holds views of model"):
        retrieval.run("negatives", mine, model=other)
