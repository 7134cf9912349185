"""docs/examples/all_questions_of.py: one question per passage becomes all of theirs."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.data.questions import Question
from tests.fixtures.artifacts import questions_folder
from tests.fixtures.inprocess import example

SAMPLE = [Question("q2", "Who?", (), None, ("0",)), Question("q4", "Where?", (), None, ("2", "1"))]


@pytest.mark.parametrize("kind", ["text", "number", "list"])
def test_all_questions_about_the_sample_s_passages_are_written(
    kind: str, tmp_path: Path, monkeypatch, capsys
) -> None:
    """By a column of ids, also of those that pandas made floats, or of lists of ids."""
    sample = questions_folder(tmp_path / "sample", SAMPLE)
    gold = ["0", "1", "0", "2", "2"]
    columns = {"text": gold, "number": list(map(float, gold)), "list": [["3", passage] for passage in gold]}
    table = pa.table({"qid": [f"q{row}" for row in range(5)], "gold": columns[kind]})
    pq.write_table(table, tmp_path / "train.parquet")
    out = tmp_path / "all.parquet"
    words = (*map(str, (tmp_path / "train.parquet", sample, out)), "--gold", "gold")
    printed = example(monkeypatch, capsys, "all_questions_of.py", *words)
    assert printed == f"4 questions about 2 passages in {out}\n"
    assert pq.read_table(out) == table.take([0, 2, 3, 4])
