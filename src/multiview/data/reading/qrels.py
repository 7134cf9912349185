"""Collections with questions and judgements in separate files: BEIR and MS MARCO.

A BEIR folder holds `corpus.jsonl`, `queries.jsonl` and `qrels/{train,dev,test}.tsv`. MS MARCO's files are
`collection.tsv`, `queries.*.tsv` and `qrels.*.tsv`, without header and without quoting, and triples: ids of a question,
of a relevant passage and of another one, which is a given negative (`qidpidtriples.train.full.2.tsv`). Triples of texts
(`triples.train.*.tsv`) are refused: nothing says which passages of the corpus they are.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from multiview.data.questions import LARGEST_GRADE
from multiview.data.reading.files import base_name, lines, plain_name
from multiview.data.reading.tables import Row
from multiview.data.reading.values import NUL, check_ids
from multiview.errors import InputError, ReportProblem, ignore_problem

Use = Literal["corpus", "train", "dev"]
SPLITS: dict[Use, tuple[str, ...]] = {"train": ("train",), "dev": ("dev.small", "dev", "test")}
"""Splits per use; the first one for which a collection has judgements is used."""

CORPORA = ("corpus.jsonl", "collection.tsv")
"""Names of the file of passages of a collection."""

QRELS_HEADER = ("query-id", "corpus-id", "score")
REGRADED = "pairs judged more than once with different grades, the last one counts"
"""Kind of a remark."""
INTEGER = re.compile(r"-?[0-9]{1,9}(\.0)?")
"""A grade."""


def marco_rows(file: str, name: str) -> Iterator[Row]:
    """Yields the rows `id, text` of a TSV without header, in which quotes have no meaning; `name` is the text column's name."""
    for number, line in lines(file):
        id_, tab, text = line.partition("\t")
        if not line.strip():
            continue
        if not tab:
            raise InputError(
                f"{file} line {number}: not MS MARCO's two columns, id and text, separated by a tab"
            )
        yield {"id" if name == "text" else "qid": id_, name: text}


def is_qrels(line: str) -> bool:
    """Whether a file that begins with this line holds judgements in BEIR's or TREC's format."""
    cells = _cells(line)
    if tuple(cells) == QRELS_HEADER:
        return True
    return len(cells) == 4 and cells[1].upper() in ("0", "Q0") and bool(INTEGER.fullmatch(cells[3]))


def judgements(
    files: Iterable[str], report_remark: ReportProblem = ignore_problem
) -> dict[str, dict[str, int]]:
    """Returns, per judged question, its relevant passages (grade above 0) with their grades.

    Passages are sorted by grade, the highest first, then by their order in the files. A question without relevant
    passages has an empty dict. Of a pair that is judged twice the last grade counts; `report_remark` receives each
    other one. Raises InputError for a line that is not a judgement, or whose ids or grade trec_eval could not take.
    """
    judged: dict[str, dict[str, int]] = {}
    for file in files:
        for number, line in lines(file):
            cells = _cells(line)
            if not cells or tuple(cells) == QRELS_HEADER:
                continue
            if len(cells) not in (3, 4) or not INTEGER.fullmatch(cells[-1]):
                raise InputError(
                    f"{file} line {number}: not a judgement (query-id corpus-id score, or qid 0 pid relevance)"
                )
            if NUL in line:
                check_ids((cells[0], cells[-2]), f"{file} line {number}: id")
            grades, passage, grade = judged.setdefault(cells[0], {}), cells[-2], int(float(cells[-1]))
            if grade > LARGEST_GRADE:
                raise InputError(
                    f"{file} line {number}: grades go up to {LARGEST_GRADE:,}, not {grade:,}; scale them down"
                )
            if grades.get(passage, grade) != grade:
                report_remark(
                    REGRADED,
                    f"{file} line {number}: question {cells[0]} and passage {passage} have the grade {grade}, and "
                    f"{grades[passage]} before",
                )
            grades[passage] = grade
    return {
        qid: dict(sorted(((id_, n) for id_, n in grades.items() if n > 0), key=lambda graded: -graded[1]))
        for qid, grades in judged.items()
    }


def _cells(line: str) -> list[str]:
    return line.split("\t" if "\t" in line else None)


def collection_files(names: Sequence[str], use: Use) -> list[str] | None:
    """Returns a collection's files for this use, from the names in a folder (and in its `qrels/`).

    None when the folder is not a collection. Raises InputError when it lacks a file that the use needs.
    """
    plain = {plain_name(name): name for name in names}
    qrels = {split_of(name): name for name in names if split_of(name)}
    corpus = next((plain[name] for name in CORPORA if name in plain), None)
    queries = {name for name in plain if name.startswith("queries.")}
    if not queries or not (corpus or qrels):
        return None
    if use == "corpus":
        if not corpus:
            raise InputError(f"{names[0]}: no corpus.jsonl or collection.tsv beside it")
        return [corpus]
    split = next((split for split in SPLITS[use] if split in qrels), None)
    if split is None:
        raise InputError(
            f"{qrels[min(qrels)] if qrels else names[0]}: the collection has no judgements of {' or '.join(SPLITS[use])} "
            f"({'only of ' + ', '.join(sorted(qrels)) if qrels else 'none'}); "
            f"name other questions as {'questions.source' if use == 'train' else 'questions.dev_source'}"
        )
    candidates = (f"queries.{split}.tsv", "queries.jsonl", "queries.tsv")
    query_files = [plain[name] for name in candidates if name in plain]
    return [*query_files[:1], qrels[split]]


def names_beside(file: str, use: Use) -> list[str]:
    """Returns candidate paths of the passages or the queries for a BEIR `qrels/*.tsv`; none for other files."""
    folder, _, name = file.rpartition("qrels/")
    if "/" in name or not name or not (folder == "" or folder.endswith("/")) or "qrels/" not in file:
        return []
    neighbour = "corpus.jsonl" if use == "corpus" else "queries.jsonl"
    return [f"{folder}{neighbour}{suffix}" for suffix in ("", ".gz")]


def split_of(file: str) -> str:
    """Returns the split of a file of judgements, taken from its name; empty for other files."""
    name, parent = plain_name(file), base_name(file.rpartition("/")[0])
    stem = name.removesuffix(".tsv")
    if stem == name:
        return ""
    return stem if parent == "qrels" else stem.removeprefix("qrels.") if stem.startswith("qrels.") else ""


MOST_NEGATIVES = 100
"""Negatives that are kept per question, the first ones of the files: MS MARCO's have up to a thousand."""


MORE_NEGATIVES = f"triples beyond the first {MOST_NEGATIVES} negatives of a question, left out"
"""Kind of a remark."""


def is_triples(file: str, line: str) -> bool:
    """Whether a file of this name that begins with this line holds triples."""
    return "triples" in plain_name(file) and line.count("\t") == 2


def read_triples(
    files: Iterable[str], report_remark: ReportProblem = ignore_problem
) -> tuple[dict[str, dict[str, int]], dict[str, list[str]]]:
    """Returns what the triples of some files say: question to its relevant passages, each with the grade 1, and question
    to its first `MOST_NEGATIVES` negatives. Raises InputError for a line that is no triple of ids."""
    positives: dict[str, dict[str, int]] = {}
    negatives: dict[str, list[str]] = {}
    for file in files:
        for number, line in lines(file):
            if not line:
                continue
            cells = line.split("\t")
            if len(cells) != 3 or " " in line or not all(cells):
                raise InputError(
                    f"{file} line {number}: not three ids separated by tabs; where there are texts (triples.train.*.tsv), "
                    "name MS MARCO's qidpidtriples.*.tsv instead"
                )
            if NUL in line:
                check_ids(cells, f"{file} line {number}: id")
            qid, positive, negative = map(sys.intern, cells)
            positives.setdefault(qid, {})[positive] = 1
            kept = negatives.setdefault(qid, [])
            if negative in kept:
                continue
            if len(kept) < MOST_NEGATIVES:
                kept.append(negative)
            else:
                report_remark(MORE_NEGATIVES, f"{file} line {number}: question {qid}")
    return positives, negatives
