"""Say how the questions of a server's log drift, and make candidates for `gate.must_find` from them.

    python docs/examples/question_log.py questions.jsonl --candidates candidates

Reads the files of `multiview serve --question-log`. Questions with a condition (`where`) do not count.
"""

import hashlib
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
import yaml

QUANTILE = 0.05
"""Share of the earlier questions that have a top score below the bar of later ones."""

FEWEST = 20
"""Questions on each side, below which no drift is computed."""


def logged(log: Path) -> Iterator[dict[str, Any]]:
    """Yields the questions without a condition, those of earlier files `LOG.9` … `LOG.1` first."""
    for file in (*(log.with_name(f"{log.name}.{number}") for number in range(9, 0, -1)), log):
        if file.is_file() or file == log:
            for number, line in enumerate(filter(None, file.read_text(encoding="utf-8").split("\n")), 1):
                try:
                    question = json.loads(line)
                except ValueError:  # torn, as by a loss of power
                    print(f"{file} line {number} is left out: it is no JSON", file=sys.stderr)
                    continue
                if question["where"] is None:
                    yield question


def drift(tops: list[float]) -> str:
    """Returns a line about the change of top scores over time; empty for fewer than `FEWEST` before or after."""
    earlier, later = np.array_split(tops, 2)
    if len(later) < FEWEST:
        return ""
    below = (later < np.quantile(earlier, QUANTILE)).mean()
    medians = f"median top score {np.median(earlier):.3f}, then {np.median(later):.3f}"
    return f"; {medians}; below the earlier {QUANTILE:.0%} quantile: {below:.1%}"


def write_candidates(folder: Path, log: Path, most: int, rank: int) -> int:
    """Writes the questions that were asked most often, each with the passage that answered best last; returns how many.
    Questions that named another index than the champion do not count, unless no champion answered at all."""
    asked: Counter[str] = Counter()
    answered: dict[str, str] = {}
    crowned = any(each["champion"] for each in logged(log))
    for each in logged(log):
        if each["hits"] and bool(each["champion"]) == crowned:
            asked[text := each["question"].strip()] += 1
            answered[text] = each["hits"][0]["id"]
    rows = [
        {
            "qid": f"asked-{hashlib.sha256(text.encode()).hexdigest()[:12]}",
            "question": text,
            "positive_ids": [answered[text]],
        }
        for text, _ in asked.most_common(most)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "questions.jsonl").write_text(lines, encoding="utf-8")
    gate = {"gate": {"must_find": {row["qid"]: rank for row in rows}}}
    (folder / "gate.yaml").write_text(yaml.safe_dump(gate, sort_keys=False), encoding="utf-8")
    return len(rows)


def main(
    log: Path,
    candidates: Annotated[Path | None, typer.Option(help="Folder for dev questions and a preset.")] = None,
    most: Annotated[int, typer.Option(help="Candidates at most.")] = 50,
    rank: Annotated[int, typer.Option(help="Rank at which a candidate's passage must be found.")] = 5,
) -> None:
    """Show how logged questions drift, index by index, and make candidates for the gate from them."""
    tops: dict[str, list[float]] = defaultdict(list)
    asked: dict[str, list[str]] = defaultdict(list)
    for each in logged(log):
        asked[each["index"]].append(each["question"].strip())
        tops[each["index"]] += [each["hits"][0]["score"]] if each["hits"] else []
    # Another model has another scale, so each index is compared with itself.
    for index, texts in asked.items():
        counts = (
            f"{len(texts)} questions, {len(set(texts))} distinct, {len(texts) - len(tops[index])} unanswered"
        )
        print(f"{index}: {counts}{drift(tops[index])}")
    if candidates is not None:
        count = write_candidates(candidates, log, most, rank)
        print(f"{count} candidates in {candidates}: check that each passage answers its question")


if __name__ == "__main__":
    typer.run(main)
