"""TREC run and qrels files, with which any other tool can check our figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TextIO
from urllib.parse import quote, unquote

import ir_measures
import numpy as np

from multiview.errors import InputError

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
    """Returns the (passage id, score) pairs of each question, in the file's order. Raises InputError for another file.

    >>> write_trec_run(folder / "run.trec", {"q0": [("p3", 12.5), ("p0", 11.0)]})
    >>> read_trec_run(folder / "run.trec")
    {'q0': [('p3', 12.5), ('p0', 11.0)]}
    """
    rankings: dict[str, list[tuple[str, float]]] = {}
    for hit in _read(path, ir_measures.read_trec_run):
        rankings.setdefault(unquote(hit.query_id), []).append((unquote(hit.doc_id), hit.score))
    return rankings


def write_qrels(path: Path, gold: Mapping[str, Mapping[str, int]]) -> None:
    """Writes `qid 0 passage grade` lines, one per gold passage."""
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for qid, grades in gold.items():
            file.writelines(f"{quoted(qid)} 0 {quoted(name)} {grade}\n" for name, grade in grades.items())


def read_qrels(path: Path) -> dict[str, dict[str, int]]:
    """Returns the gold passages of each question with their grades; passages judged 0 or below are left out.

    Raises InputError for another file.

    >>> write_qrels(folder / "qrels.trec", {"q0": {"p0": 2, "p3": 0}})
    >>> read_qrels(folder / "qrels.trec")
    {'q0': {'p0': 2}}
    """
    gold: dict[str, dict[str, int]] = {}
    for judged in _read(path, ir_measures.read_trec_qrels):
        grades = gold.setdefault(unquote(judged.query_id), {})
        if judged.relevance > 0:
            grades[unquote(judged.doc_id)] = judged.relevance
    return gold


def _read(path: Path, read: Callable[[TextIO], Iterator[Any]]) -> Iterator[Any]:
    if not path.is_file():
        raise InputError(f"{path}: missing; give a TREC file")
    with path.open(encoding="utf-8") as file:
        try:
            yield from read(file)
        except ValueError as error:
            raise InputError(f"{path}: a line is not one of a TREC file ({error})") from error
