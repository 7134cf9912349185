"""One run of the split step over small files, for the tests of what it writes and refuses."""

import json
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq

from multiview.config import Corpus, Questions
from multiview.data.passages import (
    read_passages,
)
from multiview.data.questions import read_questions
from multiview.data.split import split
from tests.recording import Recorder

OUTPUTS = ("passages", "train_questions", "dev_questions")


class Done:
    """One run of the step."""

    def __init__(self, folder: Path, corpus: Corpus, questions: Questions) -> None:
        self.tell = Recorder()
        self.output = {name: folder / name for name in OUTPUTS}
        for path in self.output.values():
            path.mkdir(parents=True)
        split(SimpleNamespace(corpus=corpus, questions=questions), {}, self.output, self.tell)
        self.passages = list(read_passages(self.output["passages"]))
        self.ids = [passage.id for passage in self.passages]
        self.train = read_questions(self.output["train_questions"])
        self.dev = read_questions(self.output["dev_questions"])

    def bytes(self) -> dict[str, bytes]:
        files = (file for path in self.output.values() for file in sorted(path.iterdir()))
        return {file.name + file.parent.name: file.read_bytes() for file in files}


def passage_rows(number: int) -> list[dict]:
    return [
        {
            "id": f"p{i}",
            "title": f"Title {i}",
            "text": f"Passage {i} is here. It says word{i}.",
            "year": 1900 + i,
        }
        for i in range(number)
    ]


def question_rows(name: str, number: int, passages: int) -> list[dict]:
    rows = []
    for i in range(number):
        text = f"Passage {i % passages} is here. It says word{i % passages}."
        answer = f"word{i % passages}"
        rows.append(
            {
                "qid": f"{name}{i}",
                "question": f"What does {i} say?",
                "answers": [answer],
                "answer_starts": [text.index(answer)],
                "positive_ids": [f"p{i % passages}"],
            }
        )
    return rows


def write(path: Path, rows: list[dict]) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def small_files(folder: Path) -> SimpleNamespace:
    """25 passages; 40 training questions about the first 20, 10 dev questions about the first 10."""
    return SimpleNamespace(
        corpus=write(folder / "corpus.jsonl", passage_rows(25)),
        train=write(folder / "train.jsonl", question_rows("t", 40, 20)),
        dev=write(folder / "dev.jsonl", question_rows("d", 10, 10)),
    )


def settings(files: SimpleNamespace, **more) -> tuple[Corpus, Questions]:
    corpus = {name: more.pop(name) for name in list(more) if name in Corpus.model_fields and name != "seed"}
    return (
        Corpus(**{"source": files.corpus, "shards": 3, **corpus}),
        Questions(**{"source": files.train, "dev_source": files.dev, **more}),
    )
