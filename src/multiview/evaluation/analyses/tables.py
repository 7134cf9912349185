"""The tables of the analyses as one readable page."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

LONGEST = 64
"""Tables with more rows, such as one row per question, are for programs only."""


def page(tables: Mapping[str, tuple[str, pa.Table]]) -> str:
    """Markdown: each table under its name and one line that says what it is; long ones by their length."""
    parts = ["# Analyses\n"]
    for name, (about, table) in tables.items():
        rows = f"{table.num_rows} rows: `{name}.parquet`\n" if table.num_rows > LONGEST else markdown(table)
        parts.append(f"## {name}\n\n{about}\n\n{rows}")
    return "\n".join(parts)


def markdown(table: pa.Table) -> str:
    """A Markdown table: text left-aligned, numbers right-aligned, fractions with three digits, null empty."""
    columns = [[_cell(value) for value in column.to_pylist()] for column in table.columns]
    lines = [table.column_names, [_rule(field.type) for field in table.schema], *zip(*columns, strict=True)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _rule(kind: pa.DataType) -> str:
    return "---" if pa.types.is_string(kind) else "---:"


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.3f}" if isinstance(value, float) else str(value)
