"""pgvector: an export's views as rows of a table; a passage is scored by the best of its views.

    multiview export views --out views
    python pgvector_views.py views loaded

writes `loaded/load.sql`, which `psql -f load.sql` runs in `loaded`, and `loaded/views.copy`, the rows
in the binary format of COPY.
"""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

LOAD = """\
\\set ON_ERROR_STOP on
SET client_encoding = 'UTF8';
BEGIN;
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE views (
    passage_id text NOT NULL,
    view integer NOT NULL,
    title text NOT NULL,
    snippet text,
    columns jsonb NOT NULL,
    vector halfvec({dimension}) NOT NULL
);
\\copy views FROM 'views.copy' WITH (FORMAT binary)
ALTER TABLE views ADD PRIMARY KEY (passage_id, view);
CREATE INDEX ON views USING hnsw (vector halfvec_ip_ops) WITH (m = 16, ef_construction = 200);
COMMIT;
"""

SEARCH = """\
WITH nearest AS MATERIALIZED (
    SELECT * FROM views ORDER BY vector <#> %(question)s::vector::halfvec LIMIT %(candidates)s
), scored AS (
    SELECT passage_id, title, view, snippet, -(vector::vector <#> %(question)s::vector) AS score FROM nearest
), placed AS (
    SELECT *, row_number() OVER (PARTITION BY passage_id ORDER BY score DESC) AS place FROM scored
)
SELECT passage_id, title, view, snippet, score FROM placed WHERE place = 1
ORDER BY score DESC, passage_id LIMIT %(k)s
"""
"""The k passages whose best views score highest. `candidates` are views, several of which may be of one passage: found by
float16, then scored by the question in float32 (`<#>` is the negative inner product). The index finds 40 at most until
`SET hnsw.iterative_scan = strict_order`."""


def search_parameters(vector: list[float], k: int = 10, candidates: int = 500) -> dict:
    """The parameters of `SEARCH`, as psycopg takes them."""
    return {"question": json.dumps(vector), "k": k, "candidates": candidates}


def copy_lines(folder: Path) -> Iterator[bytes]:
    """A row per view: the number of its fields, then each as its length and its bytes; a null has the length -1."""
    for row in rows_of(folder):
        vector = np.array(row["vector"], ">f2")  # what a view is stored in
        fields = (
            row["passage_id"].encode(),
            struct.pack("!i", row["view"]),
            row["title"].encode(),
            None if row["snippet"] is None else row["snippet"].encode(),
            b"\x01" + json.dumps(plain(row.get("columns", {}))).encode(),
            struct.pack("!hh", len(vector), 0) + vector.tobytes(),
        )
        yield struct.pack("!h", len(fields)) + b"".join(map(_field, fields))


def plain(columns: dict) -> dict:
    """Columns as JSON holds them: texts for days, and null for NaN, which pandas writes for missing numbers."""
    return json.loads(json.dumps(columns, default=str), parse_constant=lambda _: None)


def _field(value: bytes | None) -> bytes:
    return struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value


def rows_of(folder: Path) -> Iterator[dict]:
    for file in sorted(folder.glob("views-*.parquet")):
        with pq.ParquetFile(file) as views:
            for batch in views.iter_batches(1000):
                yield from batch.to_pylist()


def main(folder: str, out: str) -> None:
    dimension = json.loads((Path(folder) / "export.json").read_text())["dimension"]
    Path(out).mkdir(exist_ok=True)
    (Path(out) / "load.sql").write_text(LOAD.format(dimension=dimension))
    with (Path(out) / "views.copy").open("wb") as file:
        file.write(b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0))
        file.writelines(copy_lines(Path(folder)))
        file.write(struct.pack("!h", -1))


if __name__ == "__main__":
    main(*sys.argv[1:])
