"""The step `bm25-negatives`."""

from multiview.artifacts.staging import LocalArtifact
from multiview.config import Config, Corpus
from multiview.negatives import filters
from multiview.negatives.bm25 import bm25_negatives
from multiview.negatives.negatives_file import read_negatives, read_table
from multiview.steps.context import StepContext
from tests.fixtures.artifacts import passage, question, questions_folder, write_passages
from tests.fixtures.events import RecordedEvents
from tests.fixtures.retrieval_run import check_negatives


def test_bm25_negatives(retrieval):
    out, events = retrieval.run("negatives", bm25_negatives)
    rows = read_table(out).to_pylist()
    assert [row["qid"] for row in rows] == [q.qid for q in retrieval.questions]
    assert {row["source"] for row in rows} == {"bm25"}
    kept = check_negatives(retrieval, rows)
    facts = events.facts
    assert facts["hits"] == kept + facts["excluded_positive"] + facts["excluded_answer"]
    assert facts["excluded_positive"] >= len(rows) / 2 and facts["excluded_answer"] > 0


def test_groups_of_questions_have_the_negatives_of_all_together(retrieval, monkeypatch):
    whole, said = retrieval.run("negatives", bm25_negatives)
    monkeypatch.setattr(filters, "HITS_AT_ONCE", 30)
    parts, heard = retrieval.run("negatives", bm25_negatives)
    assert read_table(parts).to_pylist() == read_table(whole).to_pylist()
    assert heard.facts == said.facts and heard.metrics == said.metrics
    assert [done for done, _, _ in heard.steps] == sorted(done for done, _, _ in heard.steps)


def test_the_text_of_a_positive_is_no_bm25_negative_under_another_id(tmp_path):
    passages = [passage("a", "red house"), passage("b", "red boat"), passage("c", "red house")]
    asked = questions_folder(tmp_path / "questions", [question("q", "red?", ["x"], ["c"])])
    folders = {"passages": write_passages(tmp_path / "passages", passages), "questions": asked}
    inputs = {name: LocalArtifact(folder, name) for name, folder in folders.items()}
    (out := tmp_path / "negatives").mkdir()
    bm25_negatives(StepContext(Config(), inputs, {"negatives": out}, RecordedEvents()))
    assert read_negatives(out)["q"] == {"bm25": ["b"]}


def test_words_are_those_of_the_corpus_s_language(tmp_path):
    passages = [passage("a", "東京の川"), passage("b", "東京の山"), passage("c", "京都の山")]
    asked = questions_folder(tmp_path / "questions", [question("q", "東京?", ["川"], ["a"])])
    folders = {"passages": write_passages(tmp_path / "passages", passages), "questions": asked}
    inputs = {name: LocalArtifact(folder, name) for name, folder in folders.items()}
    (out := tmp_path / "negatives").mkdir()
    settings = Config(corpus=Corpus(language="japanese"))
    bm25_negatives(StepContext(settings, inputs, {"negatives": out}, RecordedEvents()))
    assert read_negatives(out)["q"] == {"bm25": ["b"]}
