"""Small models and data for the tests of this folder."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from multiview.artifacts.staged import Staged
from multiview.config import Model
from multiview.data.passages import SCHEMA, Passage, content_hash
from multiview.data.questions import Question, write_questions
from multiview.model.encoder import BiEncoder
from multiview.negatives.pool import SCHEMA as NEGATIVES_SCHEMA

SENTENCES = [
    "The king of France won a great battle near Paris. ",
    "Warsaw is the capital city of Poland. ",
    "Oxygen and iron are part of the air and the human body.  ",
    "Super Bowl 50 was played in California by Denver and Carolina! ",
    "What Newton wrote about light and heat, Einstein read. ",
    "It rained. ",
    "Chopin lived in Warsaw until the year 1830, and after that in Paris, where he played the piano in small groups. ",
    "Coal power made the steam engine important in the second half of the century. ",
]


def passage(number: int, sentences: int | None = None, title: str = "Old Europe") -> Passage:
    """A passage of some sentences, different for each number."""
    count = sentences if sentences is not None else 1 + number % 7
    parts = [SENTENCES[(number * 3 + i * (1 + number % 3)) % len(SENTENCES)] for i in range(count)]
    parts[0] = f"Number {number} begins. " if count == 1 else parts[0]
    parts[-1] = f"This was text number {number}."
    ends, at = [], 0
    for part in parts:
        at += len(part)
        ends.append(at)
    return Passage(f"p{number:03d}", title if number % 4 else "", "".join(parts), tuple(ends))


def question(number: int, of: Passage) -> Question:
    """A question whose answer is a word of the passage's last sentence, offset given for even numbers."""
    answer = str(int(of.id[1:]))
    start = of.text.rindex(answer)
    return Question(
        f"q{number:03d}",
        f"Which text is number {answer} of {number}?",
        (answer,),
        None if number % 2 else (start,),
        (of.id,),
    )


def write_shard(folder: Path, passages: Sequence[Passage], number: int = 0) -> Staged:
    """A folder with one shard."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        {
            "id": p.id,
            "title": p.title,
            "text": p.text,
            "sentence_ends": list(p.sentence_ends),
            "content_hash": content_hash(p.title, p.text),
        }
        for p in passages
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), folder / f"shard-{number:02d}.parquet")
    return Staged(folder, f"passages of {folder.name}")


def write_training_data(
    folder: Path, questions: Sequence[Question], negatives: dict[str, list[str]]
) -> dict[str, Staged]:
    """Folders of questions and of negatives."""
    (folder / "questions").mkdir(parents=True, exist_ok=True)
    write_questions(questions, folder / "questions")
    (folder / "negatives").mkdir(exist_ok=True)
    rows = [
        {"qid": qid, "source": "bm25", "negative_ids": ids, "scores": [1.0] * len(ids)}
        for qid, ids in negatives.items()
    ]
    pq.write_table(
        pa.Table.from_pylist(rows, schema=NEGATIVES_SCHEMA), folder / "negatives" / "negatives.parquet"
    )
    return {"questions": Staged(folder / "questions", "q"), "negatives": Staged(folder / "negatives", "n")}


def saved_model(folder: Path, base: Path, **settings: object) -> Staged:
    """An initial model in a folder."""
    chosen = {"views": 4, "passage_length": 96, "question_length": 32, **settings}
    BiEncoder.create(Model(base=str(base), **chosen)).save(folder)  # type: ignore[arg-type]
    return Staged(folder, f"model {folder.name}")
