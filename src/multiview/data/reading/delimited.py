"""CSV and TSV: rows under a header, and the lists that their cells hold."""

import ast
import contextlib
import csv
import io
import json
import re
from collections import deque
from collections.abc import Iterator
from functools import partial

from multiview.data.reading.columns import separator_hint
from multiview.data.reading.files import MARK, lines, open_stream
from multiview.data.reading.tables import Row
from multiview.errors import InputError, counted

# The default limit of the csv module, 128 KiB, is less than the size of some articles.
csv.field_size_limit(1 << 30)

DELIMITERS = {"csv": ",", "tsv": "\t"}
FORMULA = re.compile(r'\A="([^"]*)"\Z')
"""A cell written so that a spreadsheet treats it as text, whatever it looks like."""


def delimited_rows(file: str, delimiter: str) -> Iterator[Row]:
    """Yields the rows of a CSV or TSV file with a header line; an empty cell is null."""
    rows = cells(file, delimiter)
    header = next(rows, (1, []))[1]
    header = [name or f"unnamed {number}" for number, name in enumerate(header, 1)]
    if len(set(header)) < len(header):
        raise InputError(f"{file}: the first line names a column twice: {', '.join(header)}")
    nameless = {name for number, name in enumerate(header, 1) if name == f"unnamed {number}"}
    before = 1
    for line, row in rows:
        if row == header or all(re.fullmatch(" *:?-+:? *", cell) for cell in row):
            raise InputError(f"{file} line {line}: repeats the header, or rules it off; leave such lines out")
        if not any(row) and len(header) > 1:
            continue
        if line > before + 1 and any(_holds_rows(*cell, delimiter, len(header)) for cell in enumerate(row)):
            raise InputError(
                f"{file} line {line}: a cell holds whole lines of {len(header)} columns, from line {before + 1} on: was a "
                "quote left open? Double quotes within quotes, or write such texts as JSONL"
            )
        before = line
        if len(row) != len(header):
            raise InputError(
                f"{file} line {line}: {counted(len(row), 'cell')} under {counted(len(header), 'column')} ({', '.join(header)}); "
                f"quote every cell that holds the delimiter, a quote or a line end{separator_hint(header)}"
            )
        if any(cell.startswith('="') for cell in row):
            row = [FORMULA.sub(r"\1", cell) for cell in row]
        yield {
            name: cell or None for name, cell in zip(header, row, strict=True) if cell or name not in nameless
        }


def _holds_rows(place: int, cell: str, delimiter: str, columns: int) -> bool:
    """Whether the lines of a cell are the rest of a row, rows and the beginning of one, up to the cell's `place`.

    A comma before a blank or up to three digits separates no cells: it is prose's, or that of 1,000. In a file of two
    columns, nor does one after text with blanks.
    """
    first, *others = re.split(r"[\r\n]+", cell)
    if delimiter not in cell or not others or others[-1].count(delimiter) != place:
        return False
    begin = r"[^\s,]+" if columns == 2 else r"(?!.*,\s+[^\s,]).*"
    return {line.count(delimiter) for line in (first + others[-1], *others[:-1])} == {columns - 1} and (
        delimiter == "\t" or all(re.match(rf"{begin},(?!\s|\d{{1,3}}\b)", line) for line in others)
    )


def cells(file: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a CSV or TSV file, each with the number of its last line; blank rows are skipped."""
    with open_stream(file) as stream, io.TextIOWrapper(stream, "utf-8", newline="") as text:
        begins = True  # not within a cell, where a mark is text

        def unmarked() -> Iterator[str]:
            nonlocal begins
            for line in text:
                begun, begins = begins, False
                yield line.lstrip(MARK) if begun else line

        reader = csv.reader(unmarked(), delimiter=delimiter, strict=True)
        try:
            for row in reader:
                begins = True
                if row:
                    yield reader.line_num, row
        except csv.Error as error:
            raise InputError(
                f"{file} line {reader.line_num}: {error}; a cell that begins with a quote must end with one, "
                "and quotes within it must be doubled"
            ) from None
        except UnicodeDecodeError:
            deque(lines(file), maxlen=0)  # raises as well, but with the line number
            raise


LIST_LIKE = re.compile(
    r"""\[.*\]|\[['"].*|\{.*\}|\(['"].*\)|\w+\([\[{('"].*\)|(ARRAY|array)\[.*\]|(List|Seq|ArraySeq|WrappedArray)\(.*\)""",
    re.DOTALL,
)
"""A cell that looks like a list: of JSON, Python, NumPy, R, Postgres or Spark."""
QUOTED = re.compile(r"""(["'])(?:\\.|(?!\1)[^\\])*(?:\1|\\?\Z)""", re.DOTALL)
"""A string, also one that is left open."""
NUMBER = re.compile(r"(?<![\w.])(?:[+-]\s*)?\.?[0-9](?:[\w.]|(?<=e)[+-])*")
NUMPY = re.compile(r'\[\s*(?:(?:""|-?[0-9][-+.\w]*)(?:\s+|(?=\])))+\]')
"""A list of NumPy's without the contents of its strings: values with blanks between them."""
PYTHON = re.compile(r'(?!.*""\s*\w*"").[-+.,:"\w\s{}[\]]*.', re.DOTALL)
"""A list of Python's without the contents of its strings, of which Python would join two that are adjacent."""
UNPARSED = (ValueError, TypeError, SyntaxError, MemoryError, RecursionError)


def parse_list(cell: object, place: str, numbers: bool = False) -> object:
    """Returns the list that a cell holds, as JSON, Python or NumPy writes it; any other cell is returned unchanged.

    Raises InputError, which begins with `place`, for a cell that only looks like a list and would pass for one value, and
    for a text without quotes that would become another number, as 12_3 or 1.10, unless `numbers` are wanted.

    >>> parse_list("['a' 'b']", ""), parse_list("a, b", "")
    (['a', 'b'], 'a, b')
    """
    if not isinstance(cell, str) or not LIST_LIKE.fullmatch(text := cell.strip()):
        return cell
    if text.startswith("{"):  # a set, or an array of Postgres's, which may pair with another one
        text = f"[{text[1:-1]}]"
    fault, bare = "and is no list of JSON's or Python's", QUOTED.sub('""', text)
    texts = [] if numbers or "{" in bare else NUMBER.findall(bare)
    if changed := next((each for each in texts if not _is_kept(each)), ""):
        fault = f"in which {changed} would become another number"
    for parse in () if changed else (json.loads, partial(_literal, bare=bare)):
        with contextlib.suppress(*UNPARSED):
            if isinstance(value := parse(text), list | tuple) and not any(isinstance(v, set) for v in value):
                return list(value)
    raise InputError(f'{place} {cell!r:.80} looks like a list {fault}; write it as JSON, as in ["a", "b"]')


def _is_kept(number: str) -> bool:
    """Whether Python writes a number as it is written here, or as NumPy does, without the zero of 1.0."""
    with contextlib.suppress(*UNPARSED):
        return repr(ast.literal_eval(number)) in (number, f"{number}0")
    return False


def _literal(text: str, bare: str) -> object:
    """Returns the value that Python or NumPy wrote; `bare` is the text without the contents of its strings.

    Raises ValueError for anything else.
    """
    if NUMPY.fullmatch(bare):
        quoted = (found[0] for found in QUOTED.finditer(text))
        return [ast.literal_eval(next(quoted) if item == '""' else item) for item in bare[1:-1].split()]
    if not PYTHON.fullmatch(bare):
        raise ValueError(text)
    return ast.literal_eval(text)
