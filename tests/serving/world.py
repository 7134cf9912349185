"""A store with the indexes of several systems over one corpus that has columns of its own."""

import json
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from multiview.artifacts.record import Record
from multiview.artifacts.store import LocalStore
from multiview.data.questions import read_questions
from multiview.steps.runs import Run, write_run
from pipelines.plans.comparison import comparison
from tests.corpus import squad_corpus
from tests.pipelines.inprocess import Records, run_plan
from tests.tiny import tiny_bert

SYSTEMS = {
    "camvr": {"model": {"architecture": "camvr"}},
    "all-views": {"model": {"architecture": "camvr"}, "encode": {"index_padding_views": True}},
    "pooled": {
        "model": {"architecture": "camvr", "pooling": "snippet", "normalise": True},
        # Looks at all of so few passages, and so finds the best ones too; it just does not know.
        "index": {"kind": "compact"},
    },
    "mvr": {"model": {"architecture": "mvr"}},
    "dpr": {"model": {"architecture": "dpr", "tied": True}, "encode": {"compute": "autocast"}},
}


def write_corpus(folder: Path) -> tuple[Path, Path]:
    """The invented SQuAD articles as Parquet files of passages, with `url` and `day`, and of questions."""
    articles = [
        article
        for file in squad_corpus(folder, passages=16)
        for article in json.loads(file.read_text())["data"]
    ]
    passages, questions = [], []
    for number, article in enumerate(articles):
        (paragraph,) = article["paragraphs"]
        ident, title = f"p{number}", "" if number % 5 == 4 else article["title"]
        url = None if number % 3 == 2 else f"https://example.org/{number}"
        day = datetime(2020, 1, 1 + number % 28, tzinfo=UTC).date()
        passages.append({"id": ident, "title": title, "text": paragraph["context"], "url": url, "day": day})
        questions += [
            {
                "qid": each["id"],
                "question": each["question"],
                "answers": [answer["text"] for answer in each["answers"]],
                "positive_ids": [ident],
            }
            for each in paragraph["qas"]
        ]
    for name, rows in (("passages", passages), ("questions", questions)):
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    return folder / "passages.parquet", folder / "questions.parquet"


@dataclass
class World:
    store: LocalStore
    records: Records
    questions: list[str]

    def record(self, path: str, kind: str) -> Record:
        return self.records[path][kind]

    def index(self, system: str) -> str:
        """The address of a system's index."""
        return f"{self.store.url}/{self.record(f'{system}/round-0/index', 'index').folder}"

    def files(self, record: Record) -> Path:
        return self.store.root / record.data

    def copy(self, folder: Path) -> "World":
        """The same store elsewhere, to be damaged."""
        shutil.copytree(self.store.root, folder)
        return World(LocalStore(folder), self.records, self.questions)


def make(folder: Path) -> World:
    """Untrained systems, in a store that was moved after it was made: nothing lies where records say."""
    passages, questions = write_corpus(folder)
    settings = {
        "corpus": {"source": [str(passages)]},
        "questions": {"source": [str(questions)], "dev_share": 0.4},
        "bm25": {"depth": 8},
        "model": {
            "base": str(tiny_bert(folder / "base")),
            "views": 4,
            "passage_length": 64,
            "question_length": 24,
        },
        "train": {"rounds": 0},
        "encode": {"batch_tokens": 512},
        "evaluation": {"depth": 20},
        "comparison": {"systems": SYSTEMS},
    }
    plan = comparison(settings)
    store = LocalStore(folder / "first")
    steps = [str(path) for path in plan.paths()]
    write_run(store, Run(id="run", pipeline="comparison", config=settings, steps=steps))
    records = run_plan(plan, store)
    asked = read_questions(store.root / records["split"]["dev_questions"].data)
    store.root.rename(folder / "store")
    return World(LocalStore(folder / "store"), records, [question.question for question in asked])
