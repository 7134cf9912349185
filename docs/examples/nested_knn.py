"""Elasticsearch and OpenSearch: an export's views as nested documents, a passage scored by the best of its views.

    multiview export views --out views
    python nested_knn.py elasticsearch views loaded     (or opensearch)

writes `loaded/index.json`, the body that makes the index, and `loaded/bulk.ndjson`, the lines of `_bulk`.
"""

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pyarrow.parquet as pq

INDEX = "passages"


def index_body(engine: str, dimension: int) -> dict:
    """The body that makes the index. Vectors are compared by their inner product, which is never divided by lengths."""
    hnsw = {"m": 16, "ef_construction": 200}
    if engine == "elasticsearch":
        vector = {
            "type": "dense_vector",
            "dims": dimension,
            "similarity": "max_inner_product",
            "index_options": {"type": "hnsw", **hnsw},  # the default type rounds vectors, and so scores
        }
    else:
        method = {"name": "hnsw", "engine": "lucene", "space_type": "innerproduct", "parameters": hnsw}
        vector = {"type": "knn_vector", "dimension": dimension, "method": method}
    view = {
        "view": {"type": "integer"},
        "span_start": {"type": "integer"},
        "span_end": {"type": "integer"},
        "snippet": {"type": "text", "index": False},
        "vector": vector,
    }
    passage = {
        "passage_id": {"type": "keyword"},
        "title": {"type": "text"},
        "columns": {"type": "object"},
        "views": {"type": "nested", "properties": view},
    }
    body = {"mappings": {"properties": passage}}
    return body if engine == "elasticsearch" else {"settings": {"index.knn": True}, **body}


def bulk_lines(folder: Path) -> Iterator[str]:
    """Two lines per passage. The views of a passage stand together in an export."""
    for passage_id, rows in groupby(rows_of(folder), key=lambda row: row["passage_id"]):
        views = list(rows)
        names = ("view", "span_start", "span_end", "snippet", "vector")
        document = {
            "passage_id": passage_id,
            "title": views[0]["title"],
            "columns": plain(views[0].get("columns", {})),
            "views": [{name: view[name] for name in names} for view in views],
        }
        yield json.dumps({"index": {"_index": INDEX, "_id": passage_id}})
        yield json.dumps(document)


def plain(columns: dict) -> dict:
    """Columns as JSON holds them: texts for days, and null for NaN, which pandas writes for missing numbers."""
    return json.loads(json.dumps(columns, default=str), parse_constant=lambda _: None)


def search_body(
    engine: str, vector: list[float], k: int = 10, candidates: int = 500, where: dict | None = None
) -> dict:
    """The body of `_search`: the k passages whose best views score highest, with these views as inner hits.

    `candidates` are nested documents, which are views: several of them may be of one passage. `where` is a filter on
    fields of the passage, such as `{"term": {"columns.source.keyword": "news"}}`.
    """
    if engine == "elasticsearch":
        nearest = {
            "field": "views.vector",
            "query_vector": vector,
            "k": min(k, candidates),
            "num_candidates": candidates,
        }
        if where:
            nearest["filter"] = [where]
        knn = {"knn": nearest}
    else:
        nearest = {"vector": vector, "k": k, "method_parameters": {"ef_search": candidates}}
        if where:
            nearest["filter"] = where
        knn = {"knn": {"views.vector": nearest}}
    best = {"size": 1, "_source": ["views.view", "views.snippet"]}
    nested = {"path": "views", "score_mode": "max", "query": knn, "inner_hits": best}
    return {"size": k, "_source": ["passage_id", "title"], "query": {"nested": nested}}


def inner_product(score: float) -> float:
    """The inner product that either engine's `_score` stands for; both keep scores above 0."""
    return score - 1 if score >= 1 else 1 - 1 / score


def rows_of(folder: Path) -> Iterator[dict]:
    for file in sorted(folder.glob("views-*.parquet")):
        with pq.ParquetFile(file) as views:
            for batch in views.iter_batches(1000):
                yield from batch.to_pylist()


def main(engine: str, folder: str, out: str) -> None:
    dimension = json.loads((Path(folder) / "export.json").read_text())["dimension"]
    Path(out).mkdir(exist_ok=True)
    (Path(out) / "index.json").write_text(json.dumps(index_body(engine, dimension), indent=1) + "\n")
    with (Path(out) / "bulk.ndjson").open("w") as file:
        file.writelines(f"{line}\n" for line in bulk_lines(Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
