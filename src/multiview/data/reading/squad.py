"""SQuAD's JSON (v1.1): articles of paragraphs, and questions about each paragraph."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from multiview.config import JsonObject
from multiview.data.reading.files import open_stream
from multiview.data.reading.tables import Row
from multiview.errors import InputError


def squad_id(context: str) -> str:
    """Returns a paragraph's id, computed from its text alone, so that a paragraph has the same id in every file."""
    return "sq-" + hashlib.sha1(context.encode("utf-8", "surrogatepass")).hexdigest()[:14]


def squad_passages(file: str) -> Iterator[Row]:
    """Yields the paragraphs in order; a repeated paragraph is yielded again."""
    for title, paragraph in _paragraphs(file):
        yield {"id": squad_id(paragraph["context"]), "title": title, "text": paragraph["context"]}


def squad_questions(file: str) -> Iterator[Row]:
    """Yields the questions, each with its paragraph as its positive passage."""
    for _, paragraph in _paragraphs(file):
        for entry in paragraph["qas"]:
            yield _question(file, entry, paragraph)


def _question(file: str, entry: JsonObject, paragraph: JsonObject) -> Row:
    try:
        return {
            "qid": entry["id"],
            "question": entry["question"],
            "answers": [answer["text"] for answer in entry["answers"]],
            "answer_starts": [answer["answer_start"] for answer in entry["answers"]],
            "positive_ids": squad_id(paragraph["context"]),
        }
    except (KeyError, TypeError):
        raise InputError(
            f"{file}: question {str(entry)[:80]!r} is not SQuAD's (id, question, answers with text and answer_start)"
        ) from None


def _paragraphs(file: str) -> Iterator[tuple[str, JsonObject]]:
    """Yields (title, paragraph); the file is parsed whole. Underscores in titles become spaces."""
    with open_stream(file) as stream:
        content = json.load(stream)
    try:
        articles = content["data"]
        paragraphs = [
            (str(article.get("title", "")).replace("_", " "), paragraph)
            for article in articles
            for paragraph in article["paragraphs"]
        ]
        valid = all(isinstance(p["context"], str) and isinstance(p["qas"], list) for _, p in paragraphs)
    except (KeyError, TypeError, AttributeError):
        valid, paragraphs = False, []
    if not valid:
        raise InputError(f"{file}: not SQuAD's JSON (data, paragraphs, context, qas)")
    yield from paragraphs
