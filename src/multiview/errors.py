"""Exceptions with a message for the user, and helpers that word and clean such messages."""

import contextlib
import difflib
import errno
import os
import re
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

LINE_END = re.compile("[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")
PASSWORD = re.compile(r"([a-zA-Z][\w+.-]{0,20}://)[^\s/?#@]*(?:@[^\s/?#@]*)*@")
"""The user information of a URL, in which some people write passwords and tokens."""
QUERY = re.compile(r"(\bhttps?://[^\s?'\"]{0,2000}\?)[^\s'\"]*[^\s'\":;,.)]")
"""The query of a web address, which may hold signatures and tokens."""
HEADER = re.compile(r"(header value):? b?['\"].*", re.DOTALL)
"""What libraries say of a value that no HTTP header can hold; all repeat the value, which may be a secret."""
STEERING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except tab and newline, characters that change the direction of text, and lone surrogates."""
LONGEST_LINE = 1500
"""Most characters of an error line, a warning or a remark."""


def without_secrets(text: str) -> str:
    """Returns a text without the user names, passwords and queries of its URLs, and without header values.

    >>> without_secrets("https://ann:secret@data.example.org/a.jsonl?token=secret: 503")
    'https://…@data.example.org/a.jsonl?…: 503'
    >>> without_secrets("Illegal header value b'Bearer secret\\\\n'")
    'Illegal header value: does a password, token or key end with a line end?'
    """
    text = HEADER.sub(r"\1: does a password, token or key end with a line end?", text)
    return QUERY.sub(r"\1…", PASSWORD.sub(r"\1…@", text))


def safe(text: str) -> str:
    """Returns a text with `?` for each character that would steer a terminal, as `ls` shows file names."""
    return STEERING.sub("?", text)


def print_line(line: str) -> None:
    """Prints a line to the log and flushes it; a log that cannot be written to is ignored."""
    with contextlib.suppress(OSError, ValueError):
        print(safe(line), flush=True)


def repeats_header(error: BaseException) -> bool:
    """Whether a library's error repeats a header value that HTTP cannot hold, such as a token with a line end."""
    return "header value" in str(error)


def shortened(line: str, longest: int = LONGEST_LINE) -> str:
    """Returns a line without its middle if it has more than `longest` characters, as when an id has megabytes."""
    return line if len(line) <= longest else f"{line[: longest // 2]} … {line[3 - longest // 2 :]}"


class InputError(Exception):
    """Bad input: one line that names the file, the row or the setting, and the way out, without secrets, and shortened
    to `LONGEST_LINE` characters. Commands print it without a traceback and exit with status 2.

    >>> str(InputError("passage 'a\\nb': no text"))
    "passage 'a\\\\nb': no text"
    """

    def __init__(self, line: str) -> None:
        # Megabytes are cut before the search for secrets; a secret halved by this cut is not in what is kept.
        clean = shortened(without_secrets(shortened(line, 20 * LONGEST_LINE)))
        super().__init__(LINE_END.sub(lambda end: repr(end[0])[1:-1], clean))


@contextlib.contextmanager
def naming(where: str) -> Iterator[None]:
    """Begins the line of an InputError of the block with `where`."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


class StepFailed(Exception):
    """A step failed; the message has its path and error line. `bad_input` (an InputError) decides the exit status."""

    def __init__(self, message: str, bad_input: bool):
        super().__init__(message)
        self.bad_input = bad_input


class ProcessFailed(Exception):
    """Another process failed; the message is its error line."""


class UndeclaredAccess(Exception):
    """A step uses a setting, an input, an output or the store without declaring it, so its key does not cover it."""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Returns a number with its noun, as in `20,000 passages`; `plural` is needed if it is not the noun with an `s`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


FAULTS = {
    errno.ENOSPC: "make room on the disk, and the same command goes on",
    errno.EDQUOT: "make room within the quota, and the same command goes on",
    errno.EFBIG: "the file system or a limit (ulimit -f) allows no larger file",
    errno.EROFS: "the disk cannot be written to: choose another place",
    errno.EISDIR: "a file belongs here: remove the folder",
    errno.EACCES: "ask for the right to this file, or choose another place",
    errno.EPERM: "ask for the right to this file, or choose another place",
}
"""Errors of the machine that a person can fix, with the way out."""

_NUMBER = re.compile(r"\(os error (\d+)\)|\[Errno (\d+)\]")
_TORN = re.compile("inline_container|iostream error")
"""In what torch says where it cannot write a file to its end."""


def nearest(name: str, names: Iterable[str], listed: Iterable[str] = ()) -> str:
    """Returns the end of an error line: the nearest of the known `names` and the `listed` names, or all names."""
    names, listed = list(names), list(listed)
    close = difflib.get_close_matches(name, names, n=2, cutoff=0.5)
    every = ", ".join(listed or names) or "none"
    if not close:
        return f"; there are: {every}"
    return f"; did you mean {' or '.join(close)}?" + (f" There are: {every}" if listed else "")


def fault(error: BaseException) -> int | None:
    """Returns the number of an error in `FAULTS`, also if a library wrote it into its own error's text. A file that torch
    cannot write to its end counts as a full disk."""
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (written := _NUMBER.search(str(error))):
        number = int(written[1] or written[2])
    if number is None and _TORN.search(str(error)):
        number = errno.ENOSPC
    return number if number in FAULTS else None


def one_line(error: BaseException) -> str:
    """Returns an error as one line: one made for users as it is, any other with its type and where it was raised."""
    if isinstance(error, InputError | ProcessFailed):
        return without_secrets(str(error))
    if (number := fault(error)) is not None:
        file = getattr(error, "filename", None)
        return f"{f'{file}: ' if file else ''}{os.strerror(number)}; {FAULTS[number]}"
    text = without_secrets(" ".join(str(error).split()))
    return f"{type(error).__name__}{': ' if text else ''}{text}{raised_at(error)}"


def raised_at(error: BaseException) -> str:
    """Returns where an error was raised, as in ` (encode.py:51)`; empty if it was not raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""


@dataclass
class Problems:
    """Counts the problems of each kind and keeps the line of the first one, without passwords."""

    counts: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, line: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if kind not in self.first:
            self.first[kind] = without_secrets(shortened(line))


@dataclass
class Report:
    """Takes problems and remarks about the user's data, each as its kind, in the plural, and a line with the place and
    the way out. The first problem is raised as InputError, unless `problems` counts them."""

    problems: Problems | None = None
    remarks: Problems = field(default_factory=Problems)

    def problem(self, kind: str, line: str) -> None:
        if self.problems is None:
            raise InputError(line)
        self.problems.add(kind, line)

    def remark(self, kind: str, line: str) -> None:
        self.remarks.add(kind, line)
