"""Judgements in every usual form."""

from __future__ import annotations

import json

from tests.strangers.case import LINES, TOWNS, Case, Content, lines, parquet_of

QUERIES = "q1\tWho founded Orlen?\nq2\tWho built the bridge?\n"
JUDGED = [("Who founded Orlen?", (), ("t0",)), ("Who built the bridge?", (), ("t1",))]


def judged(name: str, content: Content, *refused: str, queries: str = QUERIES) -> Case:  # type: ignore[valid-type]
    """Judgements beside passages and queries: of the two questions, unless they are refused."""
    return Case(
        {"p.jsonl": LINES, "queries.tsv": queries, name: content},
        refused,
        questions=None if refused else JUDGED,
        sources=("p.jsonl",),
        settings=(f"questions.dev_source=[FOLDER/queries.tsv, FOLDER/{name}]",),
    )


HF_QRELS = [
    {"query-id": "q1", "corpus-id": "t0", "score": 1},
    {"query-id": "q2", "corpus-id": "t1", "score": 2},
    {"query-id": "q2", "corpus-id": "t0", "score": 0},
]
HF_QUERIES = [{"_id": "q1", "text": JUDGED[0][0]}, {"_id": "q2", "text": JUDGED[1][0]}]
HF_CORPUS = [{"_id": town["id"], "title": town["title"], "text": town["text"]} for town in TOWNS]

JUDGEMENTS = {
    "rounds as second column": judged("qrels-round.txt", "q1 4.5 t0 2\nq1 0.5 t1 0\nq2 5 t1 1\n"),
    "blanks at the ends": judged("qrels.txt", "q1 0 t0  1 \n q2 0  t1 1\n\n"),
    "comments": judged("my.qrels.txt", "# by hand\nq1 0 t0 1\nq2 0 t1 1\n"),
    "a header behind #": judged("my.qrels.tsv", "#query-id\tcorpus-id\tscore\nq1\tt0\t1\nq2\tt1\t1\n"),
    "tabs and blanks": judged("qrels.tsv", "q1\t0\tt0\t1 \nq2\t0\tt1\t1\n"),
    "a CSV": judged("qrels.csv", "query_id,doc_id,relevance\nq1,t0,1\nq2,t1,1\n"),
    "a CSV of another name": judged("labels.csv", "query_id,doc_id,relevance\nq1,t0,1\nq2,t1,1\n"),
    "another header": judged("qrels.tsv", "qid\titer\tdocid\trel\nq1\t0\tt0\t1\nq2\t0\tt1\t1\n"),
    "a tab at the ends": judged("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\tt0\t1\t\nq2\tt1\t1\t\n"),
    "four columns under a header of three": judged("qrels.tsv", "query-id\tcorpus-id\tscore\nq1\t0\tt0\t1\n", "qrels.tsv line 2: not a judgement"),
    "a comma in an id that is not quoted": judged("qrels.csv", "query-id,corpus-id,score\nq1,t0,1,1\n", "qrels.csv line 2: not a judgement"),
    "a header in mixed case": judged("qrels.csv", "QueryId,Doc ID,Relevance\nq1,t0,1\nq2,t1,1\n"),
    "another order": judged("qrels.tsv", "score\tcorpus-id\tquery-id\n1\tt0\tq1\n1\tt1\tq2\n"),
    "three columns without a header": judged("qrels.tsv", "q1\tt0\t1\nq2\tt1\t1\n"),
    "lines of JSON": judged("qrels.jsonl", lines(*HF_QRELS)),
    "Parquet": judged("qrels.parquet", parquet_of(HF_QRELS)),
    "a CSV with commas in ids": judged("qrels.csv", '"query-id", "corpus-id", "score"\n"q,1", "t0", "1"\n"q2", "t1", "1"\n', queries=QUERIES.replace("q1", "q,1")),
    "a CSV with blanks in ids": judged("qrels.csv", "query-id,corpus-id,score\nq 1,t0,1\nq2,New York 1,0\nq2,t1,1\n", queries=QUERIES.replace("q1", "q 1")),
    "a header with commas above blanks": judged("qrels.txt", "query-id,corpus-id,score\nq1 t0 1\nq2 t1 1\n"),
    "marks of joined files": judged("qrels.txt", "\ufeffq1 0 t0 1\n\ufeffq2 0 t1 1\n"),
    **{
        f"an id that is {value!r}": judged(
            "qrels.jsonl",
            lines(*HF_QRELS, {"query-id": "q2", "corpus-id": value, "score": 1}),
            "qrels.jsonl row 4: not a judgement",
        )
        for value in (None, ["t0", "t1"], True, float("nan"))
    },
    "ids that meet as numbers": judged(
        "qrels.jsonl",
        lines(*({"query-id": qid, "corpus-id": "t0", "score": 1} for qid in (1, 1.0))),
        "qrels.jsonl row 2: ids like 1 and 1.0 are one id; write them as texts",
        queries="1\tWho?\n1.0\tWhere?\n",
    ),
    "a grade that is no whole number": judged("qrels.txt", "q1 0 t0 0.5\n", "qrels.txt line 1", "the grade '0.5' is no whole number"),
    **{
        f"no relevant passage, {why}": judged("qrels.tsv", content, "qrels.tsv: no passage of 2 judged questions has a grade above 0", "qid 0 pid relevance")
        for why, content in {
            "by grade": "q1 0 t0 0\nq2 0 t1 -1\n",
            "by the order of the columns": "q1\tt0\t1\t0\nq2\tt1\t1\t0\n",
        }.items()
    },
    **{
        f"BEIR's dictionary with an indent of {indent}": judged(
            "qrels.json", json.dumps({"q1": {"t0": 1}, "q2": {"t1": 1}}, indent=indent), "qrels.json row 1: not a judgement (query-id corpus-id score"
        )
        for indent in (None, 1)
    },
    "prose": judged("qrels.txt", "These are judgements.\n", "qrels.txt line 1: not a judgement"),
    **{
        f"a run called {name}": judged(
            name,
            "q1 Q0 t0 1 12.5 bm25\nq2 Q0 t1 1 1e-3 bm25\n",
            f"{name} line 1: a run's ranking, not a judgement (query-id corpus-id score",
        )
        for name in ("qrels.txt", "run.trec", "bm25.tsv")
    },
    "triples of ColBERT's": Case(
        {"p.jsonl": LINES, "triples.jsonl": "[1, 2, 3]\n[2, 1, 3]\n"},
        ("triples.jsonl row 1: not a JSON object; triples of ids belong into a file triples*.tsv",),
        sources=("p.jsonl",),
        settings=("questions.dev_source=[FOLDER/triples.jsonl]",),
    ),
    "a BEIR folder with judgements as lines of JSON": Case(
        {
            "corpus.jsonl": lines(*HF_CORPUS),
            "queries.jsonl": lines(*HF_QUERIES),
            "qrels/test.jsonl": lines(*HF_QRELS),
        },
        questions=JUDGED,
    ),
    "a BEIR folder that is called corpus": Case(
        {
            "corpus/corpus.jsonl": lines(*HF_CORPUS),
            "corpus/queries.jsonl": lines(*HF_QUERIES),
            "corpus/qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\tt0\t1\nq2\tt1\t1\n",
        },
        passages=["t0", "t1"],
        questions=JUDGED,
        sources=("corpus",),
    ),
    "a folder of mteb": Case(
        {
            "corpus/corpus-00000-of-00001.parquet": parquet_of(HF_CORPUS),
            "queries/queries-00000-of-00001.parquet": parquet_of(HF_QUERIES),
            "qrels/test-00000-of-00001.parquet": parquet_of(HF_QRELS),
        },
        questions=JUDGED,
    ),
    "a folder of mteb with a file per split": Case(
        {
            "corpus/dev-00000-of-00001.parquet": parquet_of([{"_id": "t0", "title": "", "text": "Of dev."}]),
            "corpus/test-00000-of-00002.parquet": parquet_of(HF_CORPUS[:1]),
            "corpus/test-00001-of-00002.parquet": parquet_of(HF_CORPUS[1:]),
            "queries/train-00000-of-00001.parquet": parquet_of([{"_id": "q1", "text": "Of train?"}]),
            "queries/test-00000-of-00001.parquet": parquet_of(HF_QUERIES),
            "qrels/test-00000-of-00001.parquet": parquet_of(HF_QRELS),
        },
        passages=["t0", "t1"],
        questions=JUDGED,
        remarks=("files and folders that are not read", "dev-00000-of-00001.parquet"),
    ),
    "a folder of mteb with parts that are no splits": Case(
        {
            "corpus/test.parquet": parquet_of(HF_CORPUS[:1]),
            "corpus/more.parquet": parquet_of(HF_CORPUS[1:]),
            "queries/test.parquet": parquet_of(HF_QUERIES[:1]),
            "queries/more.parquet": parquet_of(HF_QUERIES[1:]),
            "qrels/test.parquet": parquet_of(HF_QRELS),
        },
        passages=2,
    ),
    "a BEIR folder whose judgements are not there": Case(
        {"corpus.jsonl": lines(*HF_CORPUS), "queries.jsonl": lines(*HF_QUERIES)},
        passages=["t0", "t1"],
        remarks=("files and folders that are not read", "queries.jsonl"),
    ),
}  # fmt: skip
