"""Which questions for evaluation the split step left out with their gold passages."""

from __future__ import annotations

from multiview.data.questions import LostQuestions
from tests.fixtures.split_run import Done, passage_rows, question_rows, settings, write


def test_none_are_lost_of_a_corpus_that_holds_them_all(tmp_path, files):
    assert Done(tmp_path / "out", *settings(files)).lost == LostQuestions(10, ())


def test_dev_questions_without_their_passage_or_its_answer_are_lost_and_training_questions_do_not_count(
    tmp_path, files
):
    """d3's passage is edited, d4's is gone, and d5 keeps one of two. A question with answers alone cannot lose any."""
    passages = [row for row in passage_rows(25) if row["id"] != "p4"]
    passages[3]["text"] = "Passage 3 was edited. Nothing is left."
    files.corpus = write(tmp_path / "edited.jsonl", passages)
    rows = question_rows("d", 10, 10)
    rows[5] |= {"positive_ids": ["gone", "p5"], "answer_starts": None}
    answered = tmp_path / "answered.qa.csv"
    answered.write_text("who?\t['word1']\n")
    dev = [write(tmp_path / "d.jsonl", rows), str(answered)]
    done = Done(tmp_path / "out", *settings(files, dev_source=dev, max_missing_gold=0.5, dev_limit=3))
    assert done.lost == LostQuestions(11, ("d3", "d4"))
    assert done.lost.share == 2 / 11, "before questions.dev_limit"


def test_where_dev_questions_are_held_out_all_questions_count(tmp_path, files):
    files.corpus = write(tmp_path / "fewer.jsonl", passage_rows(25)[1:])
    done = Done(tmp_path / "out", *settings(files, dev_source=[], max_missing_gold=0.5))
    assert done.lost == LostQuestions(40, ("t0", "t20"))
    assert len(done.train) + len(done.dev) == 38
