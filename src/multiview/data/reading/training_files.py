"""Questions in the forms of SQuAD, DPR and tevatron, whose files bring the passages of their questions.

- SQuAD (v1.1): JSON, articles of paragraphs, and questions about each paragraph.
- DPR, training: JSON, a list of `{question, answers, positive_ctxs, negative_ctxs, hard_negative_ctxs}`. Its passages
  (`psgs_w100.tsv`) are a TSV with a header.
- DPR, test: `*.qa.csv`, a question, a tab and the answers as a Python list, without gold passages.
- tevatron, such as its MS MARCO and Natural Questions: JSONL, `{query_id, query, answers, positive_passages,
  negative_passages}` with whole passages `{docid, title, text}`; `answers` may be missing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import IO, Any, TypeAlias

from multiview.config import JsonObject
from multiview.data.reading.files import base_name, open_stream, plain_name
from multiview.data.reading.tables import Row, cells, json_lines, parse_list
from multiview.data.reading.values import id_text
from multiview.errors import InputError

Entry: TypeAlias = tuple[list[Row], Iterable[Row]]
"""Passages, some of them given before, and the questions that name them."""

CONTEXTS = ("positive_ctxs", "negative_ctxs", "hard_negative_ctxs")
CONTEXT_IDS = ("passage_id", "psg_id")
"""Names of a passage's id: in Natural Questions, and in DPR's other datasets."""
POSITIVES, NEGATIVES = "positive_passages", "negative_passages"
"""tevatron's lists of passages."""


def squad_id(context: str) -> str:
    """Returns a paragraph's id, computed from its text alone, so that a paragraph has the same id in every file."""
    return "sq-" + hashlib.sha1(context.encode("utf-8", "surrogatepass")).hexdigest()[:14]


def squad_entries(file: str) -> Iterator[Entry]:
    """Yields each paragraph with its questions, with one article in memory. Underscores in titles become spaces."""
    other = InputError(f"{file}: not SQuAD's JSON (data, paragraphs, context, qas)")
    found = False
    for article in json_items(file, "data"):
        try:
            title = (article.get("title") or "").replace("_", " ")
            paragraphs = [(paragraph["context"], paragraph["qas"]) for paragraph in article["paragraphs"]]
        except (KeyError, TypeError, AttributeError):
            raise other from None
        if not all(isinstance(text, str) and isinstance(asked, list) for text, asked in paragraphs):
            raise other
        for text, asked in paragraphs:
            id_ = squad_id(text)
            yield [{"id": id_, "title": title, "text": text}], map(partial(_squad_question, file, id_), asked)
        found = True
    if not found:
        raise other


def _squad_question(file: str, passage: str, entry: JsonObject) -> Row:
    try:
        return {
            "qid": entry["id"],
            "question": entry["question"],
            "answers": [answer["text"] for answer in entry["answers"]],
            "answer_starts": [answer["answer_start"] for answer in entry["answers"]],
            "positive_ids": passage,
        }
    except (KeyError, TypeError):
        raise InputError(
            f"{file}: question {str(entry)[:80]!r} is not SQuAD's (id, question, answers with text and answer_start)"
        ) from None


def dpr_entries(file: str) -> Iterator[Entry]:
    """Yields each question, with its row number as its id, and its passages: the file of Natural Questions has 8 GB.

    `negative_ids` are the hard negatives, on which DPR trains; its `negative_ctxs` are not. `positive_ids` may be empty.
    """
    stem = plain_name(file).removesuffix(".json")
    for number, entry in enumerate(json_items(file), 1):
        place = f"{base_name(file)} row {number}"
        if not isinstance(entry, dict) or not {"question", "answers"} <= entry.keys():
            raise InputError(
                f"{place}: not DPR's (question, answers, positive_ctxs); "
                "for other objects use the suffix .jsonl and one object per line"
            )
        positives, others, negatives = (_passages(entry, kind, CONTEXT_IDS, place) for kind in CONTEXTS)
        question = {
            "qid": f"{stem}-{number}",
            "question": entry["question"],
            "answers": entry["answers"],
            "positive_ids": _ids(positives),
            "negative_ids": _ids(negatives),
        }
        yield [*positives, *others, *negatives], [question]


def qa_questions(file: str) -> Iterator[Row]:
    """Yields the questions of a test file, with answers and without passages; ids are row numbers."""
    stem = plain_name(file).removesuffix(".csv").removesuffix(".tsv").removesuffix(".qa")
    for number, (line, row) in enumerate(cells(file, "\t"), 1):
        answers = parse_list(row[-1])
        if len(row) != 2 or not isinstance(answers, list):
            raise InputError(
                f"{file} line {line}: not DPR's question, tab and list of answers, as in who?\t['a', 'b']"
            )
        yield {"qid": f"{stem}-{number}", "question": row[0], "answers": answers}


def is_tevatron(line: str) -> bool:
    """Whether a JSONL file that begins with this line, which may be cut off, is tevatron's."""
    return f'"{POSITIVES}"' in line and '"query_id"' in line


def tevatron_entries(file: str) -> Iterator[Entry]:
    """Yields each question of a training file and its passages, negatives too."""
    for number, entry in enumerate(json_lines(file), 1):
        place = f"{base_name(file)} row {number}"
        if not {"query_id", "query", POSITIVES} <= entry.keys():
            raise InputError(
                f"{place}: not tevatron's (query_id, query, {POSITIVES}, {NEGATIVES}); "
                "for other objects set questions.format=jsonl"
            )
        positives, negatives = (_passages(entry, kind, ("docid",), place) for kind in (POSITIVES, NEGATIVES))
        question = {
            "qid": entry["query_id"],
            "question": entry["query"],
            "positive_ids": _ids(positives),
            "negative_ids": _ids(negatives),
        }
        # MS MARCO's have an empty list of answers, or no such field.
        answers = {"answers": entry["answers"]} if entry.get("answers") else {}
        yield [*positives, *negatives], [question | answers]


def _ids(passages: Iterable[Row]) -> list[str]:
    return [passage["id"] for passage in passages]


def _passages(entry: JsonObject, kind: str, id_names: Sequence[str], place: str) -> list[Row]:
    """Returns the passages of one kind that an entry at `place` names. Raises InputError for anything else."""
    passages = entry.get(kind)
    if not isinstance(passages, list | None):
        raise InputError(f"{place}: {kind} is no list of passages")
    rows: list[Row] = []
    for passage in passages or ():
        given = map(passage.get, id_names) if isinstance(passage, dict) else ()
        id_ = next((value for value in given if value is not None), None)
        if id_ is None:
            raise InputError(f"{place}: a passage without {' or '.join(id_names)} in {kind}")
        id_ = id_text(id_, f"{place}: id of a passage")
        rows.append({"id": id_, "title": passage.get("title"), "text": passage.get("text")})
    return rows


DEEPEST = 500
"""Most objects and lists within each other: ijson would take gigabytes for 200 kB of brackets."""

HALF = re.compile(
    rb"(?<!\\)(?:\\\\)*"
    rb"(?:\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)
"""Half a character (a lone surrogate), which ijson would read as a question mark."""

OPEN_ESCAPE = re.compile(rb"\\(?:u[0-9a-fA-F]{0,3}|u[dD][89abAB]..(?:\\(?:u[0-9a-fA-F]{0,3})?)?)?\Z")
"""The end of a block within an escape, or between the two of one character."""


def json_items(file: str, key: str = "") -> Iterator[Any]:
    """Yields the items of the list that a file of JSON is, or that its object has under `key`.

    Raises InputError for a key given twice in an object, where a parser would keep the last value, for deep nesting
    and for half a character.
    """
    around = 2 if key else 1  # open lists and objects around an item
    opened: list[Any] = []
    keys: list[str] = []  # the last key of each open object
    with open_stream(file) as stream:
        for kind, value in _events(stream, file):
            if kind == "map_key":
                if value in opened[-1]:
                    raise InputError(f"{file}: {value!r} is given twice in one object; give it once")
                keys[-1] = value
                continue
            if kind in ("start_map", "start_array"):
                if len(opened) == DEEPEST:
                    raise InputError(
                        f"{base_name(file)}: objects or lists are nested more than {DEEPEST} deep; is it data?"
                    )
                opened.append({} if kind == "start_map" else [])
                keys.append("")
                continue
            if kind in ("end_map", "end_array"):
                value = opened.pop()
                keys.pop()
            if not opened:
                continue
            if isinstance(opened[-1], dict):
                opened[-1][keys[-1]] = value
            elif len(opened) == around and keys[0] == key:
                yield value
            else:
                opened[-1].append(value)


def _events(stream: IO[bytes], file: str) -> Iterator[tuple[str, Any]]:
    """Yields ijson's events. It is imported only here: where a GPU works, files of JSON are seldom read."""
    import ijson

    try:
        yield from ijson.basic_parse(_WholeCharacters(stream, file), use_float=True)
    except ijson.JSONError as error:
        if "integer overflow" in str(error):
            line = "holds a whole number of more than 64 bits; write it as text, in quotes"
            raise InputError(f"{file}: {line}") from error
        raise ValueError(str(error)) from error


class _WholeCharacters:
    """A stream of JSON. Raises InputError at an escape that is half a character."""

    def __init__(self, stream: IO[bytes], file: str) -> None:
        self._stream, self._file = stream, file

    def read(self, size: int = -1) -> bytes:
        """Returns the next bytes, a few more than `size` where an escape would be cut."""
        block = self._stream.read(size)
        while OPEN_ESCAPE.search(block, max(0, len(block) - 11)) and (more := self._stream.read(1)):
            block += more
        if (b"\\ud" in block or b"\\uD" in block) and HALF.search(block):
            raise InputError(
                f"{base_name(self._file)}: holds half a character (a lone surrogate); write the file again as UTF-8"
            )
        return block
