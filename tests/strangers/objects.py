"""Values within objects, which are named by their path."""

from __future__ import annotations

import json

import pyarrow as pa

from tests.strangers.case import LINES, TOWNS, Case, lines, parquet_of, table
from tests.strangers.judgements import JUDGED

ELASTIC = lines(
    {"_index": "w", "_id": "1", "_source": {"title": "Orlen", "text": "Orlen."}},
    {"_index": "w", "_id": "2", "_source": {"text": "Bask."}},
)
LANGCHAIN = {"page_content": "Orlen.", "metadata": {"source": "a.txt"}}
BY_SOURCE = ("corpus.columns={id: metadata.source, text: page_content}",)
KILT = [
    {"id": "k1", "input": JUDGED[0][0]}
    | {"output": [{"answer": "Mirja Toll", "provenance": [{"wikipedia_id": "t0"}]}, {"answer": "Toll"}]},
    {"id": "k2", "input": JUDGED[1][0]}
    | {"output": [{"answer": "Ola Brandt", "provenance": [{"wikipedia_id": "t1"}]}]},
]
NAMED_WITHIN = "qid: id, question: input, positive_ids: output.provenance.wikipedia_id"

TEVATRON_2 = {"query_id": "q", "query_text": "Who?", "positive_document_ids": ["t0"], "source": None}
BY_PLACE = (
    "corpus.source=FOLDER/p.jsonl",
    "questions.source=FOLDER/train.jsonl",
    "questions.dev_source=FOLDER/train.jsonl",
)

OBJECTS = {
    "questions under other names": Case({"p.jsonl": LINES, "train.jsonl": lines(TEVATRON_2)}, ("no column 'qid' among query_id, query_text", "questions.columns={qid: yours}")),
    "ids of passages under a name of passages": Case(
        {"p.jsonl": LINES, "train.jsonl": lines({"qid": "q", "query": "Who?", "positive": "t0"})},
        questions=[("Who?", (), ("t0",))] * 2,
        settings=(*BY_PLACE, "questions.columns={question: query, positive_ids: positive}"),
        sources=(),
    ),
    "Elasticsearch's dump": Case({"p.json": ELASTIC}, passages=["1", "2"], settings=("corpus.columns={title: _source.title, text: _source.text}",)),
    "Elasticsearch's dump without a mapping": Case({"p.json": ELASTIC}, ("no column 'text'", "yours.inner, of an object")),
    "Elasticsearch's dump under a wrong name": Case({"p.json": ELASTIC}, ("no column '_source.titel'",), settings=("corpus.columns={title: _source.titel, text: _source.text}",)),
    "an object where a text is named": Case(
        {"p.jsonl": lines({"id": "a", "x": {"y": {"z": 1}}})},
        ("row 1: column 'x.y' holds an object",),
        settings=("corpus.columns={text: x.y}",),
    ),
    **{
        f"rows within one object of {name}": Case(
            {"p.json": json.dumps(content)},
            ("not SQuAD's JSON", "write other objects one per line, or as a list"),
        )
        for name, content in {
            "a wrapper": {"documents": TOWNS},
            "pandas' columns": {
                name: {str(n): town[name] for n, town in enumerate(TOWNS)} for name in TOWNS[0]
            },
            "pandas' index": {str(n): town for n, town in enumerate(TOWNS)},
            "pandas' split": {"columns": [*TOWNS[0]], "index": [0], "data": [[*TOWNS[0].values()]]},
            "the dataset viewer": {"features": [], "rows": [{"row_idx": 0, "row": TOWNS[0]}]},
        }.items()
    },
    "one object that is a row": Case({"p.json": json.dumps(TOWNS[0])}, passages=["t0"]),
    "DynamoDB's": Case(
        {
            "p.json": lines(
                *({"Item": {name: {"S": town[name]} for name in ("id", "text")}} for town in TOWNS)
            )
        },
        passages=["t0", "t1"],
        settings=("corpus.columns={id: Item.id.S, text: Item.text.S}",),
    ),
    "a text that is a list": Case({"p.jsonl": lines({"id": "a", "text": ["A lake.", "A bridge."]})}, ("is list", "join its texts, or give each a row")),
    "NaN in a list": Case({"p.json": '[{"id": "a", "title": NaN, "text": "x"}]'}, ("without NaN or comments?", ".jsonl")),
    "LangChain's": Case({"p.jsonl": lines(LANGCHAIN)}, passages=["a.txt"], settings=BY_SOURCE),
    "LangChain's in Parquet": Case({"p.parquet": parquet_of([LANGCHAIN])}, passages=["a.txt"], settings=BY_SOURCE),
    "a map of Spark": Case(
        {
            "p.parquet": table(
                page_content=["Orlen."],
                metadata=pa.array([[("source", "a.txt")]], pa.map_(pa.string(), pa.string())),
            )
        },
        passages=["a.txt"],
        settings=BY_SOURCE,
    ),
    "an object in a cell": Case({"p.csv": 'page_content,metadata\nOrlen.,"{""source"": ""a.txt""}"\n'}, passages=["a.txt"], settings=BY_SOURCE),
    "a name with a dot": Case({"p.csv": "id,meta.text\na,Orlen.\n"}, passages=["a"], settings=("corpus.columns={text: meta.text}",)),
    "KILT's questions": Case(
        {"p.jsonl": LINES, "train.jsonl": lines(*KILT)},
        questions=[
            (JUDGED[0][0], ("Mirja Toll", "Toll"), ("t0",)),
            (JUDGED[1][0], ("Ola Brandt",), ("t1",)),
        ],
        settings=(f"questions.columns={{{NAMED_WITHIN}, answers: output.answer}}",),
    ),
    "KILT's questions under a wrong name": Case(
        {"p.jsonl": LINES, "train.jsonl": lines(*KILT)},
        ("output.answers}: no file of questions has this column",),
        settings=(f"questions.columns={{{NAMED_WITHIN}, answers: output.answers}}",),
    ),
}  # fmt: skip
