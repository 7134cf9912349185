"""The columns of a file under our names, as `corpus.columns` and `questions.columns` map them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from multiview.data.reading.problems import ReportProblem, raise_problem
from multiview.errors import InputError, nearest


def checked_columns(
    setting: str, columns: Mapping[str, str] | None, known: Collection[str]
) -> Mapping[str, str]:
    """Returns the mapping itself. Raises InputError for a key that is not a known column name."""
    if unknown := set(columns or {}) - set(known):
        raise InputError(
            f"{setting}: no column {sorted(unknown)[0]!r} is known here; there are {', '.join(known)}"
        )
    return columns or {}


def check_mapped(
    columns: Mapping[str, str], found: Collection[str], report_problem: ReportProblem = raise_problem
) -> None:
    """Reports a mapping of `questions.columns` to a column that is in no file of questions; `found` are their columns.

    Without any there are no files that name their columns, and mappings are not for them.
    """
    for name, column in columns.items():
        if found and column not in found:
            report_problem(
                "settings that do not suit the data",
                f"questions.columns={{{name}: {column}}}: no file of questions has this column"
                f"{nearest(column, sorted(found))}",
            )


def match_columns(
    columns: Mapping[str, str], aliases: Mapping[str, Sequence[str]], present: Collection[str]
) -> dict[str, str]:
    """Returns our column names mapped to the file's, for the columns that are present.

    `aliases` holds further names of each of our columns. The file's name is the one in `columns` or, without one, our
    own or an alias.
    """
    matched: dict[str, str] = {}
    for name, others in aliases.items():
        candidates = (columns[name],) if name in columns else (name, *others)
        if column := next((column for column in candidates if column in present), None):
            matched[name] = column
    return matched


def require(
    required: Iterable[str],
    matched: Mapping[str, str],
    columns: Mapping[str, str],
    present: Collection[str],
    location: str,
    setting: str,
) -> None:
    """Raises InputError for a required column of ours that is not `matched`; `present` are the file's."""
    for name in required:
        if name not in matched:
            raise InputError(
                f"{location}: no column {columns.get(name, name)!r} among {', '.join(present) or 'none'}; "
                f"name the right one, as in {setting}={{{name}: yours}}{_separator_hint(present)}"
            )


def _separator_hint(present: Collection[str]) -> str:
    """Returns the end of a line about the one column of a table whose name holds another separator, or nothing."""
    only = next(iter(present)) if len(present) == 1 else ""
    found = next((f"{mark!r}" for mark in "\t;,|" if mark in only), "")
    return f"; or are its columns separated by {found}? A .csv has commas, a .tsv tabs" if found else ""
