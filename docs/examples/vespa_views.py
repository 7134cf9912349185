"""Vespa: an export's views as one tensor per passage, whose rank profile takes the best of them.

    multiview export views --out views
    python vespa_views.py views application

writes the schema as `application/schemas/passage.sd`, and `application/feed.jsonl` for `vespa feed`.
"""

import json
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import pyarrow.parquet as pq

SCHEMA = """\
schema passage {
    document passage {
        field passage_id type string {
            indexing: attribute | summary
        }
        field title type string {
            indexing: index | summary
        }
        field snippets type map<string, string> {
            indexing: summary
        }
        field views type tensor<float>(view{}, d[DIMENSION]) {
            indexing: attribute | index
            attribute {
                distance-metric: dotproduct
            }
            index {
                hnsw {
                    max-links-per-node: 16
                    neighbors-to-explore-at-insert: 200
                }
            }
        }
    }
    rank-profile best_view {
        inputs {
            query(q) tensor<float>(d[DIMENSION])
        }
        function scores() {
            expression: sum(query(q) * attribute(views), d)
        }
        first-phase {
            expression: max(sum(query(q) * attribute(views), d), view)
        }
        match-features {
            scores
        }
    }
}
"""


def schema(dimension: int) -> str:
    return SCHEMA.replace("DIMENSION", str(dimension))


def feed_lines(folder: Path) -> Iterator[str]:
    """A line per passage. The labels of `views` and `snippets` are the numbers of views, from 1."""
    for passage_id, rows in groupby(rows_of(folder), key=lambda row: row["passage_id"]):
        views = list(rows)
        fields = {
            "passage_id": passage_id,
            "title": views[0]["title"],
            "snippets": {str(view["view"]): view["snippet"] for view in views if view["snippet"]},
            "views": {"blocks": {str(view["view"]): view["vector"] for view in views}},
        }
        yield json.dumps({"put": f"id:multiview:passage::{passage_id}", "fields": fields})


def search_body(vector: list[float], k: int = 10, candidates: int = 100) -> dict:
    """The body of `/search/`: each passage is found by its closest view; `candidates` are passages per content node."""
    return {
        "yql": f"select passage_id, title from passage where {{targetHits: {candidates}}}nearestNeighbor(views, q)",
        "input.query(q)": vector,
        "ranking": "best_view",
        "hits": k,
    }


def rows_of(folder: Path) -> Iterator[dict]:
    for file in sorted(folder.glob("views-*.parquet")):
        with pq.ParquetFile(file) as views:
            for batch in views.iter_batches(1000):
                yield from batch.to_pylist()


def main(folder: str, application: str) -> None:
    dimension = json.loads((Path(folder) / "export.json").read_text())["dimension"]
    (Path(application) / "schemas").mkdir(parents=True, exist_ok=True)
    (Path(application) / "schemas" / "passage.sd").write_text(schema(dimension))
    with (Path(application) / "feed.jsonl").open("w") as file:
        file.writelines(f"{line}\n" for line in feed_lines(Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
