"""SQuAD's JSON (v1.1): articles of paragraphs, and questions about each paragraph."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from multiview.config import JsonObject
from multiview.data.reading.json_items import has_list, json_items
from multiview.data.reading.tables import Row
from multiview.errors import InputError


def squad_id(context: str) -> str:
    """Returns a paragraph's id, computed from its text alone, so that a paragraph has the same id in every file."""
    return "sq-" + hashlib.sha1(context.encode("utf-8", "surrogatepass")).hexdigest()[:14]


def squad_paragraphs(file: str) -> Iterator[tuple[str, JsonObject]]:
    """Yields (title, paragraph), with one article in memory. Underscores in titles become spaces."""
    found = False
    for article in json_items(file, "data"):
        found = True
        yield from _paragraphs(article, file)
    if not found and not has_list(file, "data"):
        raise _not_squad(file)


def squad_passages(file: str) -> Iterator[Row]:
    """Yields the passage of each paragraph; a repeated paragraph gives it again."""
    for title, paragraph in squad_paragraphs(file):
        yield {"id": squad_id(paragraph["context"]), "title": title, "text": paragraph["context"]}


def squad_questions(file: str) -> Iterator[Row]:
    """Yields the questions, each with its paragraph as the positive passage."""
    for _, paragraph in squad_paragraphs(file):
        positive = squad_id(paragraph["context"])
        for entry in paragraph["qas"]:
            yield _question(file, entry, positive)


def _question(file: str, entry: JsonObject, positive: str) -> Row:
    try:
        return {
            "qid": entry["id"],
            "question": entry["question"],
            "answers": [answer["text"] for answer in entry["answers"]],
            "answer_starts": [answer["answer_start"] for answer in entry["answers"]],
            "positive_ids": positive,
        }
    except (KeyError, TypeError):
        raise InputError(
            f"{file}: question {str(entry)[:80]!r} is not SQuAD's (id, question, answers with text and answer_start)"
        ) from None


def _paragraphs(article: JsonObject, file: str) -> list[tuple[str, JsonObject]]:
    title, paragraphs = "", []
    try:
        title, paragraphs = article.get("title") or "", article["paragraphs"]
        title = title.replace("_", " ")
        valid = all(isinstance(p["context"], str) and isinstance(p["qas"], list) for p in paragraphs)
    except (KeyError, TypeError, AttributeError):
        valid = False
    if not valid:
        raise _not_squad(file)
    return [(title, paragraph) for paragraph in paragraphs]


def _not_squad(file: str) -> InputError:
    return InputError(f"{file}: not SQuAD's JSON (data, paragraphs, context, qas)")
