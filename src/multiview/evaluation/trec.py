"""TREC run and qrels files, with which any other tool can check our figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote, unquote

import numpy as np

from multiview.errors import InputError, counted

TAG = "multiview"


@lru_cache(maxsize=1 << 16)
def quoted(name: str) -> str:
    """Returns an id as one word: percent-encoded if it contains white space or a percent sign; no id is empty."""
    return quote(name, safe="") if "%" in name or name.split() != [name] else name


def write_trec_run(path: Path, rankings: Mapping[str, Sequence[tuple[str, float]]], tag: str = TAG) -> None:
    """Writes `qid Q0 passage rank score tag` lines; `rankings` holds (passage id, score) per question id, best first.

    Ranks count from 1. trec_eval ignores ranks and orders ties by id, so its figures may differ from ours where
    scores tie.
    """
    end = f" {quoted(tag)}\n"
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for qid, ranking in rankings.items():
            start = f"{quoted(qid)} Q0 "
            scores = np.array([score for _, score in ranking], np.float32).tolist()
            file.writelines(
                f"{start}{quoted(name)} {rank} {score:.9g}{end}"
                for rank, ((name, _), score) in enumerate(zip(ranking, scores, strict=True), start=1)
            )


def read_trec_run(path: Path) -> dict[str, list[tuple[str, float]]]:
    """Returns the (passage id, score) pairs of each question, by rank. Raises InputError for a bad line.

    >>> write_trec_run(folder / "run.trec", {"q0": [("p3", 12.5), ("p0", 11.0)]})
    >>> read_trec_run(folder / "run.trec")
    {'q0': [('p3', 12.5), ('p0', 11.0)]}
    """
    rows: dict[str, list[tuple[int, str, float]]] = {}
    for qid, _, name, rank, score, _ in _lines(path, 6):
        try:
            rows.setdefault(unquote(qid), []).append((int(rank), unquote(name), float(score)))
        except ValueError:
            raise InputError(
                f"{path}: question {qid}: rank {rank!r} or score {score!r} is not a number"
            ) from None
    return {qid: [(name, score) for _, name, score in sorted(ranking)] for qid, ranking in rows.items()}


def write_qrels(path: Path, gold: Mapping[str, Mapping[str, int]]) -> None:
    """Writes `qid 0 passage grade` lines, one per gold passage."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for qid, grades in gold.items():
            file.writelines(f"{quoted(qid)} 0 {quoted(name)} {grade}\n" for name, grade in grades.items())


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Returns the gold passages of each question with their grades; passages judged 0 or below are left out.

    Raises InputError for a bad line.

    >>> write_qrels(folder / "qrels.trec", {"q0": {"p0": 2, "p3": 0}})
    >>> read_qrels(folder / "qrels.trec")
    {'q0': {'p0': 2}}
    """
    gold: dict[str, dict[str, int]] = {}
    for qid, _, name, grade in _lines(path, 4):
        grades = gold.setdefault(unquote(qid), {})
        try:
            if int(grade) > 0:
                grades[unquote(name)] = int(grade)
        except ValueError:
            raise InputError(f"{path}: question {qid}: grade {grade!r} is not a whole number") from None
    return gold


def _lines(path: Path, fields: int) -> Iterable[list[str]]:
    if not path.is_file():
        raise InputError(f"{path}: missing; give a TREC file")
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not (words := line.split()):
                continue
            if len(words) != fields:
                raise InputError(
                    f"{path}: line {number} has {counted(len(words), 'field')}, a TREC line has {fields}"
                )
            yield words
