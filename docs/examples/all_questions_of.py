"""Writes all questions of a Parquet file that are about the passages of another one's questions.

    python docs/examples/all_questions_of.py TRAIN.parquet SAMPLE OUT.parquet

SAMPLE is a run's `train_questions`, a folder of the store, or a Parquet file of questions. A sample with one question
per passage thus becomes that of all questions about the same passages.
"""

import sys
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

train, sample, out = map(Path, sys.argv[1:])
asked = {ids[0] for ids in pq.read_table(sample, columns=["positive_ids"]).column("positive_ids").to_pylist()}
questions = pq.read_table(train)
kept = questions.filter(
    pc.is_in(questions.column("positive_passage_id"), value_set=pc.cast(sorted(asked), "string"))
)
pq.write_table(kept, out)
print(f"{len(kept)} questions about {len(asked)} passages: {out}")
