"""Write all questions of a file that are about the passages of a sample of them.

    python docs/examples/all_questions_of.py train.parquet STORE/train_questions/KEY/attempts/ATTEMPT all.parquet

The sample is a run's `train_questions`, in its store. One question per passage becomes all questions about the same
passages, which the papers' AVQ = 1 is compared with.
"""

from pathlib import Path

import pyarrow.parquet as pq
import typer

from multiview.data.questions import read_questions
from multiview.data.reading.values import number_text


def write(questions: Path, sample: Path, out: Path, gold: str = "positive_passage_id") -> None:
    """Write the rows of `questions` whose passage, named in the column `gold`, is that of a question in `sample`."""
    asked = {question.positive_ids[0] for question in read_questions(sample)}
    rows = pq.read_table(questions)
    named = (each if isinstance(each, list) else [each] for each in rows.column(gold).to_pylist())
    kept = rows.filter([not asked.isdisjoint(map(number_text, ids)) for ids in named])
    pq.write_table(kept, out)
    typer.echo(f"{len(kept):,} questions about {len(asked):,} passages in {out}")


if __name__ == "__main__":
    typer.run(write)
