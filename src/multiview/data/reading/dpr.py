"""DPR's files of questions; its passages (`psgs_w100.tsv`) are a TSV with a header.

Training: JSON, a list of `{question, answers, positive_ctxs, negative_ctxs, hard_negative_ctxs}`.
Test: `*.qa.csv`, a question, a tab and the answers as a Python list, without gold passages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import ijson

from multiview.data.reading.files import base_name, opened, plain_name
from multiview.data.reading.tables import cells, listed
from multiview.errors import InputError

CONTEXTS = ("positive_ctxs", "negative_ctxs", "hard_negative_ctxs")
ID_NAMES = ("passage_id", "psg_id")  # of Natural Questions, and of the other datasets


def dpr_questions(file: str) -> Iterator[dict[str, Any]]:
    """The questions of a training file, by the passages that they name; ids are the rows' numbers.

    Negatives are passed over: the pipeline makes its own. A question without a positive names none.
    """
    stem = plain_name(file).removesuffix(".json")
    for number, entry in _entries(file):
        yield {
            "qid": f"{stem}-{number}",
            "question": entry["question"],
            "answers": entry["answers"],
            "positive_ids": [_id(context, file, number) for context in entry.get("positive_ctxs") or ()],
        }


def dpr_contexts(file: str) -> Iterator[dict[str, Any]]:
    """Every passage that the questions of a training file name, negatives too; one named again comes again."""
    for number, entry in _entries(file):
        for kind in CONTEXTS:
            for context in entry.get(kind) or ():
                yield {
                    "id": _id(context, file, number),
                    "title": context.get("title"),
                    "text": context.get("text"),
                }


def qa_questions(file: str) -> Iterator[dict[str, Any]]:
    """The questions of a test file, with answers and without passages; ids are the rows' numbers."""
    stem = plain_name(file).removesuffix(".csv").removesuffix(".tsv").removesuffix(".qa")
    for number, (line, row) in enumerate(cells(file, "\t"), 1):
        answers = listed(row[-1])
        if len(row) != 2 or not isinstance(answers, list):
            raise InputError(
                f"{file} line {line}: not DPR's question, tab and list of answers, as in who?\t['a', 'b']"
            )
        yield {"qid": f"{stem}-{number}", "question": row[0], "answers": answers}


def _entries(file: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The list's objects, numbered from 1, one at a time: Natural Questions' file has 8 GB."""
    with opened(file) as stream:
        for number, entry in enumerate(ijson.items(stream, "item", use_float=True), 1):
            if not isinstance(entry, dict) or not {"question", "answers"} <= entry.keys():
                raise InputError(
                    f"{base_name(file)} row {number}: not DPR's (question, answers, positive_ctxs); "
                    "other objects are read one a line, with the suffix .jsonl"
                )
            yield number, entry


def _id(context: Mapping[str, Any], file: str, number: int) -> str:
    try:
        return str(next(context[name] for name in ID_NAMES if name in context))
    except (StopIteration, TypeError):
        raise InputError(
            f"{base_name(file)} row {number}: a passage without {' or '.join(ID_NAMES)}"
        ) from None
