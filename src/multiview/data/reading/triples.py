"""MS MARCO's training triples: ids of a question, of a relevant passage and of another one, as in `qidpidtriples.train.full.2.tsv`.

A TSV without header, beside a file of queries like judgements. Their others are given negatives. `triples.train.*.tsv`,
with texts instead of ids, are refused: nothing says which passages of the corpus they are.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from multiview.data.reading.files import lines, plain_name
from multiview.data.reading.values import NUL, check_ids
from multiview.errors import InputError

MOST = 100
"""Negatives that are kept per question, the first ones of the files: MS MARCO's have up to a thousand."""


@dataclass
class Triples:
    """What the triples of some files say."""

    positives: dict[str, dict[str, int]] = field(default_factory=dict)
    """Question to its relevant passages, each with the grade 1."""
    negatives: dict[str, list[str]] = field(default_factory=dict)
    """Question to its first `MOST` negatives."""
    more: Counter[str] = field(default_factory=Counter)
    """Question to the number of triples whose negative is not kept."""


def is_triples(file: str, line: str) -> bool:
    """Whether a file of this name that begins with this line holds triples."""
    return "triples" in plain_name(file) and line.count("\t") == 2


def read_triples(files: Iterable[str]) -> Triples:
    """Returns what the triples of some files say. Raises InputError for a line that is no triple of ids."""
    found = Triples()
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
            found.positives.setdefault(qid, {})[positive] = 1
            kept = found.negatives.setdefault(qid, [])
            if negative in kept:
                continue
            if len(kept) < MOST:
                kept.append(negative)
            else:
                found.more[qid] += 1
    return found
