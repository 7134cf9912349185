"""The optional log of questions: JSON lines with time, index, champion, question, condition, and hits (id, score)."""

import json
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from multiview.artifacts.local_store import sync
from multiview.errors import InputError
from multiview.serving.follow import Generation
from multiview.serving.hits import Hit

FILE_BYTES = 64 << 20
"""Size at which a log file is full and the next one is begun."""
FILES_KEPT = 9
"""Earlier files of the log, `FILE.1` the newest, that are kept."""

log = logging.getLogger(__name__)


class QuestionLog:
    """Appends answered questions to a file, which is rotated by size (docs/examples/question_log.py reads it)."""

    def __init__(self, file: Path) -> None:
        """Raises InputError where the file cannot be written."""
        try:
            with file.open("a+b") as written:
                written.seek(max(written.tell() - 1, 0))
                if written.read() not in (b"", b"\n"):  # the last line is torn, as by a loss of power
                    written.write(b"\n")
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
            line = {
                "time": datetime.now(UTC).isoformat(),
                "index": generation.retriever.address,
                "champion": generation.number,
                "question": question,
                "where": where,
                "hits": [{"id": hit.id, "score": hit.score} for hit in hits],
            }
            self._handler.handle(logging.makeLogRecord({"msg": json.dumps(line)}))


class _Handler(RotatingFileHandler):
    def doRollover(self) -> None:
        """Lets the full file survive a loss of power."""
        sync(Path(self.baseFilename))
        super().doRollover()
        sync(Path(self.baseFilename).parent)

    def handleError(self, record: logging.LogRecord) -> None:
        """Reports a failure without the record, which the standard library would print."""
        log.error("question log %s: a line was not written", self.baseFilename)
