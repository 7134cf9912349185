"""The file formats: SQuAD JSON, JSONL and Parquet, each as rows or Arrow tables, through fsspec."""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import IO, Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from multiview.data.sources import base_name
from multiview.errors import InputError

BATCH = 1000
"""Rows read at a time."""


def squad_id(context: str) -> str:
    """A paragraph's id, from its text alone."""
    return "sq-" + hashlib.sha1(context.encode("utf-8", "surrogatepass")).hexdigest()[:14]


@contextlib.contextmanager
def opened(file: str, compression: str | None = "infer") -> Iterator[IO[bytes]]:
    """A file of bytes behind any fsspec URL; what goes wrong with it becomes an InputError."""
    try:
        with fsspec.open(file, "rb", compression=compression) as stream:
            yield stream  # type: ignore[misc]
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{file}: no such file") from None
    except (pa.ArrowException, EOFError, OSError, ValueError, zlib.error, lzma.LZMAError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{file}: cannot be read ({reason}); is it whole, and of the format its name says?"
        ) from None


def squad_paragraphs(file: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(title, paragraph) of a SQuAD file, which is parsed whole. Underscores of titles are spaces."""
    with opened(file) as stream:
        content = json.load(stream)
    try:
        articles = content["data"]
        paragraphs = [
            (str(article.get("title", "")).replace("_", " "), paragraph)
            for article in articles
            for paragraph in article["paragraphs"]
        ]
        whole = all(isinstance(p["context"], str) and isinstance(p["qas"], list) for _, p in paragraphs)
    except (KeyError, TypeError, AttributeError):
        whole, paragraphs = False, []
    if not whole:
        raise InputError(
            f"{file}: not SQuAD's JSON (data, paragraphs, context, qas); "
            "one JSON object a line is read with the suffix .jsonl"
        )
    yield from paragraphs


def squad_questions(file: str, paragraph: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The questions of a paragraph as rows with our column names."""
    for entry in paragraph["qas"]:
        try:
            yield {
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


def json_lines(file: str) -> Iterator[dict[str, Any]]:
    """The objects of a JSONL file, blank lines passed over."""
    with opened(file) as stream:
        for number, line in enumerate(stream, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except ValueError as error:
                raise InputError(
                    f"{file} line {number}: not JSON ({error}); one object a line is expected"
                ) from None
            if not isinstance(row, dict):
                raise InputError(f"{file} line {number}: not a JSON object; one object a line is expected")
            yield row


def tables_of_rows(rows: Iterable[dict[str, Any]], file: str) -> Iterator[pa.Table]:
    """Rows as tables of up to 1000 rows each."""
    for number, batch in enumerate(_batches(rows)):
        first = number * BATCH + 1
        # Not `from_pylist`: it takes the columns of the first row for those of all.
        columns = dict.fromkeys(name for row in batch for name in row)
        try:
            yield pa.table({name: pa.array([row.get(name) for row in batch]) for name in columns})
        except (pa.ArrowException, OverflowError) as error:
            raise InputError(
                f"{base_name(file)} rows {first}-{first + len(batch) - 1}: "
                f"values of one column differ in type ({error})"
            ) from None


def _batches(rows: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    iterator = iter(rows)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def parquet_tables(file: str, only: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """The rows of a Parquet file, up to 1000 at a time; all columns or those of `only` that it has."""
    with opened(file, compression=None) as stream, pq.ParquetFile(stream) as parquet:
        present = parquet.schema_arrow.names
        columns = present if only is None else [name for name in present if name in only]
        if not columns:
            raise InputError(
                f"{base_name(file)}: none of the columns it should have among {', '.join(present)}"
            )
        for batch in parquet.iter_batches(batch_size=BATCH, columns=columns):
            yield pa.Table.from_batches([batch]).replace_schema_metadata(None)
