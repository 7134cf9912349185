"""Make one question of all equal questions in files of SQuAD's form, with the passages of all of them as gold.

    python docs/examples/merged_questions.py dev.json test.json --folder policyqa

PolicyQA asks each of its questions of many policies, and each policy answers it in its own words: so the answers are
left out. `multiview inspect policyqa` shows what was written.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import typer

from multiview.data.reading.training_files import squad_entries


def merge(files: list[str], folder: Path = Path("merged")) -> None:
    """Write passages.jsonl and questions.jsonl into a folder."""
    passages: dict[str, dict] = {}
    gold: dict[str, dict[str, None]] = {}
    for file in files:
        for (passage,), questions in squad_entries(file):
            passages[passage["id"]] = passage
            for question in filter(lambda question: question["answers"], questions):  # SQuAD 2.0 has others
                text = " ".join(question["question"].split())
                gold.setdefault(text, {})[passage["id"]] = None
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "passages.jsonl", passages.values())
    questions = enumerate(gold.items())
    write(
        folder / "questions.jsonl",
        (
            {"qid": f"q{number}", "question": text, "positive_ids": list(ids)}
            for number, (text, ids) in questions
        ),
    )
    typer.echo(f"{len(passages):,} passages, {len(gold):,} questions in {folder}")


def write(file: Path, rows: Iterable[dict]) -> None:
    """Write one JSON object per line."""
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


if __name__ == "__main__":
    typer.run(merge)
