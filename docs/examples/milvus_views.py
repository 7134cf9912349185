"""Milvus: an export's views as entities, grouped by passage in a search; a passage is scored by the best of its views.

    multiview export views --out views
    pip install pymilvus
    python milvus_views.py views http://localhost:19530

makes the collection `passages`. Milvus Lite has no FLOAT16_VECTOR: `python milvus_views.py views milvus.db FLOAT_VECTOR`.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

COLLECTION = "passages"
HALF = "FLOAT16_VECTOR"
INDEX = {"index_type": "HNSW", "metric_type": "IP", "params": {"M": 16, "efConstruction": 200}}


def fields(dimension: int, kind: str = HALF) -> dict[str, dict]:
    """The fields of an entity, which is a view. The longest texts of Milvus have 65,535 bytes."""
    text = {"datatype": "VARCHAR", "max_length": 65535}
    return {
        "id": {**text, "is_primary": True},
        "passage_id": text,
        "view": {"datatype": "INT32"},
        "title": text,
        "snippet": {**text, "nullable": True},
        "columns": {"datatype": "JSON"},
        "vector": {"datatype": kind, "dim": dimension},
    }


def batches(folder: Path, kind: str = HALF) -> Iterator[list[dict]]:
    """Entities, a request's worth at a time."""
    for file in sorted(folder.glob("views-*.parquet")):
        with pq.ParquetFile(file) as views:
            for batch in views.iter_batches(1000):
                yield [entity(row, kind) for row in batch.to_pylist()]


def entity(row: dict, kind: str = HALF) -> dict:
    return {
        "id": f"{row['passage_id']}/{row['view']}",
        **{name: row[name] for name in ("passage_id", "view", "title", "snippet")},
        "columns": plain(row.get("columns", {})),
        "vector": typed(row["vector"], kind),
    }


def plain(columns: dict) -> dict:
    """Columns as JSON holds them: texts for days, and null for NaN, which pandas writes for missing numbers."""
    return json.loads(json.dumps(columns, default=str), parse_constant=lambda _: None)


def search_arguments(
    vector: list[float], k: int = 10, candidates: int = 500, where: str = "", kind: str = HALF
) -> dict:
    """What `MilvusClient.search` takes: the best view of each of the k passages whose best views score highest.

    `candidates` are views (HNSW's ef). `where` is a filter such as `columns["source"] == "news"`.
    """
    return {
        "collection_name": COLLECTION,
        "data": [typed(vector, kind)],
        "anns_field": "vector",
        "limit": k,
        "filter": where,
        "group_by_field": "passage_id",
        "search_params": {"metric_type": INDEX["metric_type"], "params": {"ef": candidates}},
        "output_fields": ["passage_id", "view", "title", "snippet"],
    }


def typed(vector: list[float], kind: str) -> np.ndarray | list[float]:
    """A vector as the client takes it; views lose nothing in float16, a question is rounded."""
    return np.array(vector, np.float16) if kind == HALF else vector


def main(folder: str, uri: str, kind: str = HALF) -> None:
    from pymilvus import DataType, MilvusClient

    client = MilvusClient(uri)
    if client.has_collection(COLLECTION):
        sys.exit(f"{uri} has a collection {COLLECTION}: drop it, or load into another database")
    schema, index = client.create_schema(), client.prepare_index_params()
    dimension = json.loads((Path(folder) / "export.json").read_text())["dimension"]
    for name, field in fields(dimension, kind).items():
        schema.add_field(name, **{**field, "datatype": DataType[field["datatype"]]})
    index.add_index("vector", **INDEX)
    client.create_collection(COLLECTION, schema=schema, index_params=index, consistency_level="Strong")
    for entities in batches(Path(folder), kind):
        client.insert(COLLECTION, entities)
    client.flush(COLLECTION)


if __name__ == "__main__":
    main(*sys.argv[1:])
