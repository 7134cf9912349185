"""The tables of the analyses as one readable page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from multiview.evaluation.files import analysis_table_file

SHOWN_ROWS = 64
"""Tables with more rows, such as one row per question, are for programs only."""


@dataclass(frozen=True)
class CaptionedTable:
    """A table with its caption, one line that says what the table shows."""

    caption: str
    rows: pa.Table


def page(tables: Mapping[str, CaptionedTable]) -> str:
    """Returns Markdown: each table under its name and its caption; of a long table, only its length and file."""
    parts = ["# Analyses\n"]
    for name, table in tables.items():
        length = table.rows.num_rows
        rows = (
            f"{length} rows: `{analysis_table_file(name)}`\n" if length > SHOWN_ROWS else markdown(table.rows)
        )
        parts.append(f"## {name}\n\n{table.caption}\n\n{rows}")
    return "\n".join(parts)


def markdown(table: pa.Table) -> str:
    """A Markdown table: text left-aligned, numbers right-aligned, fractions with three digits, null empty."""
    columns = [[_cell(value) for value in column.to_pylist()] for column in table.columns]
    rules = ["---" if pa.types.is_string(field.type) else "---:" for field in table.schema]
    lines = [table.column_names, rules, *zip(*columns, strict=True)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
