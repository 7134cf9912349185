"""The log of questions, kept only where asked for: JSON lines with time, index, question, and ids and scores of the hits."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, ValidationError

from multiview.data.reading.files import lines
from multiview.errors import InputError

if TYPE_CHECKING:
    from multiview.serving.follow import Generation
    from multiview.serving.hits import Hit

FILE_BYTES = 64 << 20
"""Size of a file of the log, after which the next one is begun."""

FILES_KEPT = 9
"""Earlier files of the log, `FILE.1` the newest, that are kept."""

log = logging.getLogger(__name__)


class LoggedHit(BaseModel):
    """A passage that answered a question."""

    model_config = ConfigDict(frozen=True)

    id: str
    score: float


class LoggedQuestion(BaseModel):
    """A question that was answered."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    time: datetime
    index: str
    """Address of the index."""
    champion: int | None = None
    question: str
    where: str | None = None
    hits: list[LoggedHit]
    """Best first."""


class QuestionLog:
    """Appends answered questions to a file, which is rotated by size."""

    def __init__(self, file: Path) -> None:
        """Raises InputError where the file cannot be written."""
        self._file = file
        try:
            self._handler = _Handler(file, maxBytes=FILE_BYTES, backupCount=FILES_KEPT, encoding="utf-8")
        except OSError as error:
            raise InputError(f"--question-log {file}: cannot be written ({error.strerror})") from None

    def write(
        self,
        generation: Generation,
        where: str | None,
        questions: Sequence[str],
        found: Sequence[Sequence[Hit]],
    ) -> None:
        """Appends a line per question. A full disk is reported in the server's log and fails no request."""
        for question, hits in zip(questions, found, strict=True):
            logged = LoggedQuestion(
                time=datetime.now(UTC),
                index=generation.retriever.address,
                champion=generation.number,
                question=question,
                where=where,
                hits=[LoggedHit(id=hit.id, score=hit.score) for hit in hits],
            )
            self._handler.handle(logging.makeLogRecord({"msg": logged.model_dump_json()}))


class _Handler(RotatingFileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """Reports a failure without the record, which the standard library would print."""
        log.error("question log %s: a line was not written", self.baseFilename)


def read_question_log(file: Path) -> Iterator[LoggedQuestion]:
    """Yields the questions of a log and of its earlier files, the oldest first.

    Raises InputError for a file that is missing, or a line that is none of a log.
    """
    earlier = [file.with_name(f"{file.name}.{number}") for number in range(FILES_KEPT, 0, -1)]
    if not file.is_file():
        raise InputError(f"{file}: there is no such file; multiview serve writes it with --question-log")
    for each in (*earlier, file):
        if each.is_file():
            yield from _read(each)


def _read(file: Path) -> Iterator[LoggedQuestion]:
    for number, line in lines(str(file)):
        try:
            yield LoggedQuestion.model_validate_json(line)
        except ValidationError:
            raise InputError(f"{file} line {number}: no line of a log of questions") from None
