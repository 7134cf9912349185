"""tevatron's training files, such as those of MS MARCO and Natural Questions.

JSONL, one `{query_id, query, answers, positive_passages, negative_passages}` per line, with whole passages
`{docid, title, text}` in both lists; `answers` may be missing.
"""

from __future__ import annotations

from collections.abc import Iterator

from multiview.config import JsonObject
from multiview.data.reading.files import base_name
from multiview.data.reading.tables import Row, json_lines
from multiview.data.reading.values import id_text
from multiview.errors import InputError

POSITIVES, NEGATIVES = "positive_passages", "negative_passages"


def is_tevatron(line: str) -> bool:
    """Whether a JSONL file that begins with this line, which may be cut off, is tevatron's."""
    return f'"{POSITIVES}"' in line and '"query_id"' in line


def tevatron_questions(file: str) -> Iterator[Row]:
    """Yields the questions of a training file with the ids of their passages, negatives too."""
    for number, entry in _entries(file):
        row: Row = {
            "qid": entry["query_id"],
            "question": entry["query"],
            "positive_ids": [passage["id"] for passage in _passages(entry, POSITIVES, file, number)],
            "negative_ids": [passage["id"] for passage in _passages(entry, NEGATIVES, file, number)],
        }
        # MS MARCO's have an empty list, or no such field.
        yield row | ({"answers": entry["answers"]} if entry.get("answers") else {})


def tevatron_passages(file: str) -> Iterator[Row]:
    """Yields every passage that the questions of a training file name; repeated ones are yielded again."""
    for number, entry in _entries(file):
        for kind in (POSITIVES, NEGATIVES):
            yield from _passages(entry, kind, file, number)


def _entries(file: str) -> Iterator[tuple[int, JsonObject]]:
    for number, entry in enumerate(json_lines(file), 1):
        if not {"query_id", "query", POSITIVES} <= entry.keys():
            raise InputError(
                f"{base_name(file)} row {number}: not tevatron's (query_id, query, {POSITIVES}, {NEGATIVES}); "
                "for other objects set questions.format=jsonl"
            )
        yield number, entry


def _passages(entry: JsonObject, kind: str, file: str, number: int) -> Iterator[Row]:
    passages = entry.get(kind)
    if not isinstance(passages, list | None):
        raise InputError(f"{base_name(file)} row {number}: {kind} is no list of passages")
    for passage in passages or ():
        if not isinstance(passage, dict) or passage.get("docid") is None:
            raise InputError(f"{base_name(file)} row {number}: a passage without docid in {kind}")
        id_ = id_text(passage["docid"], f"{base_name(file)} row {number}: docid")
        yield {"id": id_, "title": passage.get("title"), "text": passage.get("text")}
