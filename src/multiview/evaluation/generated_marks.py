"""Marks of figures that rest on generated questions, asked or trained on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet as pq

from multiview import names
from multiview.artifacts.record import load_record
from multiview.data.questions import GENERATED
from multiview.errors import InputError, counted
from multiview.evaluation.files import QUESTIONS_FILE
from multiview.lineage.ancestry import Ancestor


def count_generated(evaluation: Path) -> tuple[int, int]:
    """Returns the number of questions of an evaluation that were generated from the corpus, and of all of them."""
    qids = pq.read_table(evaluation / QUESTIONS_FILE, columns=["qid"])["qid"].to_pylist()
    return sum(qid.startswith(GENERATED) for qid in qids), len(qids)


def asked_legend(generated: int, questions: int) -> str:
    """One sentence that marks figures on generated questions; empty where all questions are labelled.

    >>> asked_legend(0, 50)
    \'\'
    """
    if not generated:
        return ""
    share = (
        "generated questions"
        if generated == questions
        else f"{counted(generated, 'generated question')} of {questions:,}"
    )
    return (
        f"measured on {share}: each was made from a snippet of the corpus, which counts as its answer; figures on "
        "questions of people may differ, and order systems otherwise"
    )


def generated_training(evaluation: Ancestor) -> str | None:
    """Returns the `questions.origin` of the training questions of an evaluation's system, if they were generated.

    Raises InputError if the training questions are gone.
    """
    questions = evaluation.input("train_questions")
    return questions.record.facts.get(names.GENERATED) if questions else None


def trained_legend(evaluations: Mapping[str, str]) -> str:
    """One sentence that names the rows whose training questions were generated; empty where there are none.

    `evaluations` are the addresses of the rows' evaluations. Training questions that are gone count as labelled.
    """
    rows = []
    for row, address in evaluations.items():
        try:
            origin = generated_training(Ancestor(*load_record(address)))
        except InputError:
            continue
        if origin:
            rows.append(f"{row} ({origin})")
    return f"training questions were generated from the corpus: {', '.join(rows)}" if rows else ""
