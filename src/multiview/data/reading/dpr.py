"""DPR's and tevatron's files of questions. DPR's passages (`psgs_w100.tsv`) are a TSV with a header.

- DPR, training: JSON, a list of `{question, answers, positive_ctxs, negative_ctxs, hard_negative_ctxs}`.
- DPR, test: `*.qa.csv`, a question, a tab and the answers as a Python list, without gold passages.
- tevatron, such as its MS MARCO and Natural Questions: JSONL, `{query_id, query, answers, positive_passages,
  negative_passages}` with whole passages `{docid, title, text}`; `answers` may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from multiview.config import JsonObject
from multiview.data.reading.files import base_name, plain_name
from multiview.data.reading.json_items import json_items
from multiview.data.reading.tables import Row, cells, json_lines, parse_list
from multiview.data.reading.values import id_text
from multiview.errors import InputError

CONTEXTS = ("positive_ctxs", "negative_ctxs", "hard_negative_ctxs")
CONTEXT_IDS = ("passage_id", "psg_id")
"""Names of a passage's id: in Natural Questions, and in DPR's other datasets."""
POSITIVES, NEGATIVES = "positive_passages", "negative_passages"
"""tevatron's lists of passages."""


def dpr_stem(file: str) -> str:
    """Returns how the ids of a training file's questions begin."""
    return plain_name(file).removesuffix(".json")


def qa_stem(file: str) -> str:
    """Returns how the ids of a test file's questions begin."""
    return plain_name(file).removesuffix(".csv").removesuffix(".tsv").removesuffix(".qa")


def dpr_questions(file: str) -> Iterator[Row]:
    """Yields the questions of a training file with the passages that they name; their ids are row numbers.

    `negative_ids` are the hard negatives, on which DPR trains; its `negative_ctxs` are not. `positive_ids` may be empty.
    """
    for number, entry in _dpr_entries(file):
        positives, _, negatives = (_ids(entry, kind, CONTEXT_IDS, file, number) for kind in CONTEXTS)
        yield {
            "qid": f"{dpr_stem(file)}-{number}",
            "question": entry["question"],
            "answers": entry["answers"],
            "positive_ids": positives,
            "negative_ids": negatives,
        }


def dpr_passages(file: str) -> Iterator[Row]:
    """Yields every passage that a training file names, negatives included; repeated ones are yielded again."""
    for number, entry in _dpr_entries(file):
        for kind in CONTEXTS:
            yield from _passages(entry, kind, CONTEXT_IDS, file, number)


def _dpr_entries(file: str) -> Iterator[tuple[int, JsonObject]]:
    """Yields the objects of the list, numbered from 1, one at a time: the file of Natural Questions has 8 GB."""
    for number, entry in enumerate(json_items(file), 1):
        if not isinstance(entry, dict) or not {"question", "answers"} <= entry.keys():
            raise InputError(
                f"{base_name(file)} row {number}: not DPR's (question, answers, positive_ctxs); "
                "for other objects use the suffix .jsonl and one object per line"
            )
        yield number, entry


def qa_questions(file: str) -> Iterator[Row]:
    """Yields the questions of a test file, with answers and without passages; ids are row numbers."""
    for number, (line, row) in enumerate(cells(file, "\t"), 1):
        answers = parse_list(row[-1])
        if len(row) != 2 or not isinstance(answers, list):
            raise InputError(
                f"{file} line {line}: not DPR's question, tab and list of answers, as in who?\t['a', 'b']"
            )
        yield {"qid": f"{qa_stem(file)}-{number}", "question": row[0], "answers": answers}


def is_tevatron(line: str) -> bool:
    """Whether a JSONL file that begins with this line, which may be cut off, is tevatron's."""
    return f'"{POSITIVES}"' in line and '"query_id"' in line


def tevatron_questions(file: str) -> Iterator[Row]:
    """Yields the questions of a training file with the ids of their passages, negatives too."""
    for number, entry in _tevatron_entries(file):
        row: Row = {
            "qid": entry["query_id"],
            "question": entry["query"],
            "positive_ids": _ids(entry, POSITIVES, ("docid",), file, number),
            "negative_ids": _ids(entry, NEGATIVES, ("docid",), file, number),
        }
        # MS MARCO's have an empty list, or no such field.
        yield row | ({"answers": entry["answers"]} if entry.get("answers") else {})


def tevatron_passages(file: str) -> Iterator[Row]:
    """Yields every passage that the questions of a training file name; repeated ones are yielded again."""
    for number, entry in _tevatron_entries(file):
        for kind in (POSITIVES, NEGATIVES):
            yield from _passages(entry, kind, ("docid",), file, number)


def _tevatron_entries(file: str) -> Iterator[tuple[int, JsonObject]]:
    for number, entry in enumerate(json_lines(file), 1):
        if not {"query_id", "query", POSITIVES} <= entry.keys():
            raise InputError(
                f"{base_name(file)} row {number}: not tevatron's (query_id, query, {POSITIVES}, {NEGATIVES}); "
                "for other objects set questions.format=jsonl"
            )
        yield number, entry


def _ids(entry: JsonObject, kind: str, id_names: Sequence[str], file: str, number: int) -> list[str]:
    return [passage["id"] for passage in _passages(entry, kind, id_names, file, number)]


def _passages(entry: JsonObject, kind: str, id_names: Sequence[str], file: str, number: int) -> Iterator[Row]:
    """Yields the passages of one kind that an entry, row `number` of the file, names. Raises InputError for anything else."""
    passages = entry.get(kind)
    if not isinstance(passages, list | None):
        raise InputError(f"{base_name(file)} row {number}: {kind} is no list of passages")
    for passage in passages or ():
        named = (
            [passage[name] for name in id_names if passage.get(name) is not None]
            if isinstance(passage, dict)
            else []
        )
        if not named:
            raise InputError(
                f"{base_name(file)} row {number}: a passage without {' or '.join(id_names)} in {kind}"
            )
        id_ = id_text(named[0], f"{base_name(file)} row {number}: id of a passage")
        yield {"id": id_, "title": passage.get("title"), "text": passage.get("text")}
