"""The table of a GPU, at its smallest size on the processor."""

import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.gpu import __main__ as program
from benchmarks.gpu import equality
from benchmarks.gpu.sizes import Given, given
from benchmarks.table import Contestant, Row
from benchmarks.training import task
from multiview.config import Train
from tests.fixtures.forked import pool_of_forks


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data in the form of SQuAD's."""
    folder = tmp_path / "data" / "squad"
    folder.mkdir(parents=True)
    ids = [f"p{number}" for number in range(120)]
    texts = [
        f"Tower {number} is old. " + "A king built it of stone. " * (number % 9) for number in range(120)
    ]
    pq.write_table(pa.table({"id": ids, "title": ids, "text": texts}), folder / "passages.parquet")
    questions = [f"Who built tower {number}?" for number in range(120)]
    columns = {"qid": ids, "question": questions, "positive_passage_id": ids}
    pq.write_table(pa.table(columns), folder / "train.parquet")
    monkeypatch.setenv("MULTIVIEW_DATA", str(folder.parent))
    return folder


def shown(part: program.Part, out: Path) -> str:
    with given("tiny", None) as work:
        assert program.run([part], work, program.Report(out), time.monotonic() + 600) == 0
    return out.read_text()


ON_A_PROCESSOR = (
    "encoding",
    "search of SQuAD's size",
    "mining and evaluation",
    "equality with the processor",
    "training in chunks",
    "search of views on the host",
)


@pytest.mark.parametrize("name", ON_A_PROCESSOR)
def test_a_part_runs_on_the_processor(name: str, data: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(equality, "ProcessPoolExecutor", pool_of_forks)
    (part,) = [part for part in program.parts("tiny") if part.name == name]
    text = shown(part, tmp_path / "gpu.md")
    assert f"- {name} took" in text and "failed" not in text
    assert "NOT EQUAL" not in text and "BEYOND" not in text
    if name == "search of SQuAD's size":
        assert "rankings of 8 of 8 questions are those of float64" in text


def test_a_task_holds_what_its_steps_read(data: Path) -> None:
    """Its questions are those that a longer training begins with, in the same order."""

    def made(steps: int):
        settings = Train.model_validate({"batch_size": 4, "max_steps": steps})
        return task(data, "base", settings, time.perf_counter)

    short, long = made(3), made(20)
    assert [short.stream[item] for item in range(12)] == [long.stream[item] for item in range(12)]
    read = {
        name for item in range(12) for name in (short.stream[item].positive, *short.stream[item].negatives)
    }
    assert len(short.stream) == 12 and short.passages.keys() == read
    assert len(short.stream.questions) == 12 < len(long.stream.questions) == 80


def failing(work: Given) -> Iterator[Row | str]:
    yield Row("first", "ms", Contestant((1.0,)))
    raise ValueError("no room\nfor it")


def test_a_part_that_fails_is_a_line_and_the_others_run(tmp_path: Path, capsys) -> None:
    made = [
        program.Part("first", 0, failing),
        program.Part("second", 0, lambda _: iter([Row("second", "ms", Contestant((2.0,)))])),
        program.Part("third", 1000, failing),
    ]
    out = tmp_path / "gpu.md"
    work = Given("whole", None, tmp_path)
    assert program.run(made, work, program.Report(out), time.monotonic() + 60) == 1
    text = out.read_text()
    assert "| first, ms | 1.00 |" in text and "| second, ms | 2.00 |" in text
    assert "first failed: ValueError: no room for it (" in text
    assert "left out, for want of time: third (1000 s)" in text
    assert capsys.readouterr().out == text


def test_a_tokenizer_is_made_where_none_is_given(data: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("benchmarks.gpu.sizes.find_spec", lambda name: None)
    made = Given("tiny", None, tmp_path).tokenizer
    first, *words, last = made("Tower 7 is old.").input_ids
    assert made.convert_ids_to_tokens([first, last]) == ["[CLS]", "[SEP]"]
    assert made.unk_token_id not in words
