"""Training files as their owners write them; their passages have no ids of their own."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.strangers.case import LINES, TOWNS, Case, lines, parquet_of

FOUNDED, BUILT = "Orlen lies on a lake. Mirja Toll founded it.", "Ola Brandt built the bridge of Bask."


def training(**named: str) -> list[dict]:
    """Two training questions with whole passages, under a format's names of a question, its positives and negatives."""
    return [
        {named["question"]: "Who founded Orlen?", named["positives"]: [FOUNDED], named["negatives"]: [BUILT]},
        {
            named["question"]: "Who built the bridge?",
            named["positives"]: [BUILT],
            named["negatives"]: [FOUNDED],
        },
    ]


ASKED = [("Who founded Orlen?", (), (FOUNDED,)), ("Who built the bridge?", (), (BUILT,))]
"""The questions of `training`; passages are told by their texts."""
DPR = [
    {
        "question": "Who founded Orlen?",
        "answers": ["Mirja Toll"],
        "positive_ctxs": [{"title": "Orlen", "text": FOUNDED}],
        "negative_ctxs": [BUILT],
        "hard_negative_ctxs": [{"title": "Bask", "text": BUILT}],
    },
    {
        "question": "Who built it?",
        "answers": ["Ola Brandt"],
        "positive_ctxs": [{"title": "Bask", "text": BUILT}],
    },
]
DPR_ASKED = [
    ("Who founded Orlen?", ("Mirja Toll",), (FOUNDED,)),
    ("Who built it?", ("Ola Brandt",), (BUILT,)),
]
TEVATRON = [
    {
        "query_id": "q\u2028",
        "query": "Who\u2028 founded Orlen?",
        "positive_passages": [{"docid": "p0", "text": FOUNDED}],
    }
    | {"negative_passages": []},
    {"query_id": "r", "query": "Who built it?", "positive_passages": [{"docid": "p1", "text": BUILT}]},
]
TEVATRON_ASKED = [("Who\u2028 founded Orlen?", (), (FOUNDED,)), ("Who built it?", (), (BUILT,))]
SQUAD = [
    {"id": "s0", "title": "Orlen", "context": FOUNDED, "question": "Who?"}
    | {"answers": {"text": ["Mirja Toll"], "answer_start": [22]}},
    {"id": "s1", "title": "Bask", "context": BUILT, "question": "Who built it?"}
    | {"answers": {"text": ["Ola Brandt"], "answer_start": [0]}},
]
SQUAD_ASKED = [("Who?", ("Mirja Toll",), (FOUNDED,)), ("Who built it?", ("Ola Brandt",), (BUILT,))]
FLAG = training(question="query", positives="pos", negatives="neg")
OURS = [
    {"qid": "q1", "question": "Who founded Orlen?", "answers": ["Mirja Toll"], "positive_ids": ["t0"]},
    {"qid": "q2", "question": "Who built it?", "answers": ["Ola Brandt"], "positive_ids": ["t1"]},
]
OURS_ASKED = [("Who founded Orlen?", ("Mirja Toll",), ("t0",)), ("Who built it?", ("Ola Brandt",), ("t1",))]

TRAINING = {
    "DPR without ids": Case({"train.json": json.dumps(DPR)}, questions=DPR_ASKED),
    "DPR a line each": Case({"train.jsonl": lines(*DPR)}, questions=DPR_ASKED),
    "DPR without ids beside another corpus": Case(
        {"train.json": json.dumps(DPR), "p.jsonl": LINES},
        ("the gold passages of 2 of 2 questions are not in the corpus",),
        settings=("corpus.source=FOLDER/p.jsonl",),
        sources=("train.json",),
    ),
    "tevatron with U+2028 in its first line": Case({"train.jsonl": lines(*TEVATRON)}, questions=TEVATRON_ASKED),
    "tevatron whose first line is longer than 64 KiB": Case({"train.jsonl": lines({"query": "Who?", "note": "x" * 99_000, **TEVATRON[0]}, TEVATRON[1])}, questions=TEVATRON_ASKED),
    "tevatron beside a corpus in which its ids mean other texts": Case(
        {
            "train.jsonl": lines(*TEVATRON),
            "p.jsonl": lines({"docid": "p0", "text": BUILT}, {"docid": "p1", "text": FOUNDED}),
        },
        questions=[(question, answers, (f"p{n}",)) for n, (question, answers, _) in enumerate(TEVATRON_ASKED)],
        settings=("corpus.source=FOLDER/p.jsonl", "questions.source=FOLDER/train.jsonl"),
        sources=(),
        remarks=("passages whose text in the files of questions, which bring their own, is another one", "'p0'"),
    ),
    "tevatron with ids alone, and with a text that is none, beside a corpus": Case(
        {
            "train.jsonl": lines(
                {"query": "Who?", "positive_passages": [{"docid": "t0"}]},
                {"query": "Where?", "positive_passages": [{"docid": "t1", "text": ["a", "b"]}]},
            ),
            "p.jsonl": LINES,
        },
        questions=[("Who?", (), ("t0",)), ("Where?", (), ("t1",))],
        settings=("corpus.source=FOLDER/p.jsonl", "questions.source=FOLDER/train.jsonl"),
        sources=(),
    ),
    "tevatron whose passages have their titles in some rows": Case(
        {"train.jsonl": lines(*TEVATRON, {**TEVATRON[1], "query": "Who?", "query_id": "s", "positive_passages": [{"docid": "p1", "title": "Bask", "text": BUILT}]})},
        passages=2,
        remarks=("passages that are repeated with another title, of which the first is kept", "'Bask'"),
    ),
    "tevatron in Parquet": Case({"train.parquet": parquet_of(TEVATRON)}, questions=TEVATRON_ASKED),
    "FlagEmbedding": Case({"train.jsonl": lines(*FLAG)}, questions=ASKED),
    "FlagEmbedding beside a corpus with ids": Case({"train.jsonl": lines(*FLAG), "p.jsonl": LINES}, ("passage is given as a text, without an id", "leave out corpus.source")),
    "FlagEmbedding in Parquet": Case({"train.parquet": parquet_of(FLAG)}, questions=ASKED),
    "FlagEmbedding with one text": Case({"train.jsonl": lines(*(row | {"pos": row["pos"][0]} for row in FLAG))}, questions=ASKED),
    "sentence-transformers": Case({"train.jsonl": lines(*training(question="anchor", positives="positive", negatives="negative"))}, questions=ASKED),
    "Hugging Face's SQuAD": Case({"train.parquet": parquet_of(SQUAD)}, questions=SQUAD_ASKED),
    "a folder of splits": Case(
        {f"squad/{split}.parquet": parquet_of(SQUAD[n : n + 1]) for n, split in enumerate(("train-00000-of-00001", "validation-00000-of-00001"))},
        questions=SQUAD_ASKED,
        settings=("questions.source=FOLDER/squad", "questions.dev_source=FOLDER/squad"),
        sources=(),
    ),
    "SQuAD's own folder": Case(
        {f"squad/{split}-v1.1.jsonl": lines(SQUAD[n]) for n, split in enumerate(("train", "dev"))},
        questions=SQUAD_ASKED,
        settings=("questions.source=FOLDER/squad", "questions.dev_source=FOLDER/squad"),
        sources=(),
    ),
    "Hugging Face's SQuAD a line each": Case({"train.jsonl": lines(*SQUAD)}, questions=SQUAD_ASKED),
    **{
        f"sentence-transformers in a {name.upper()}": Case(
            {
                f"train.{name}": f"{mark.join(FLAG[0])}\n".replace("pos", "positive").replace(
                    "neg", "negative"
                )
                + "".join(
                    mark.join(f'"{text}"' for text in (row["query"], *row["pos"], *row["neg"])) + "\n"
                    for row in FLAG
                )
            },
            questions=ASKED,
        )
        for name, mark in (("csv", ","), ("tsv", "\t"))
    },
    "FlagEmbedding in a CSV of pandas": Case({"train.csv": "query,pos,neg\n" + "".join(f'{row["query"]},"{row["pos"]}","{row["neg"]}"\n' for row in FLAG)}, questions=ASKED),
    "NQ-open": Case(
        {
            "p.jsonl": LINES,
            "NQ-open.dev.jsonl": lines({"question": "who founded orlen", "answer": ["Mirja Toll", "Toll"]}),
        },
        questions=[("who founded orlen", ("Mirja Toll", "Toll"), ())],
    ),
    "NQ-open in Parquet": Case(
        {
            "p.jsonl": LINES,
            "dev.parquet": parquet_of([{"question": "who founded orlen", "answer": ["Toll"]}]),
        },
        questions=[("who founded orlen", ("Toll",), ())],
    ),
    "a list of plain objects": Case({"p.json": json.dumps(TOWNS)}, passages=["t0", "t1"]),
    **{
        f"our own columns beside {more}{', mapped' * bool(mapped)} in {kind}": Case(
            {
                "p.jsonl": LINES,
                f"q.{kind}": write(
                    [{mapped.get(k, k): v for k, v in row.items()} | {more: ["t1"]} for row in OURS]
                ),
            },
            questions=OURS_ASKED,
            settings=[f"questions.columns={{{name}: {own}}}" for name, own in mapped.items()],
        )
        for kind, write in (("jsonl", lambda rows: lines(*rows)), ("parquet", parquet_of))
        for more in ("context", "hard_negative_ctxs")
        for mapped in ({}, {"positive_ids": "gold"}, {"qid": "id", "positive_ids": "gold"})
        if more == "context" or not mapped
    },
    **{
        f"sentence-transformers' mined pairs with {name} in {kind}": Case(
            {f"train.{kind}": write([{"query": "Who?", "positive": text, name: value} for text in passages])},
            (f"train.{kind} row 1: judged pairs ({name})", "output_format='n-tuple'"),
        )
        for name, passages, value in (
            ("label", (FOUNDED, BUILT), 0),
            ("score", (FOUNDED, BUILT), 0.5),
            ("labels", [[FOUNDED, BUILT]], [1, 0]),
            ("scores", [[FOUNDED, BUILT]], [0.9, 0.1]),
        )
        for kind, write in (("jsonl", lambda rows: lines(*rows)), ("parquet", parquet_of))
    },
    "objects in a CSV of pandas": Case(
        {"train.csv": "query,pos,neg\n" + "".join(f'{row["query"]},"{[{"text": text, "score": 0.50} for text in row["pos"]]}","{row["neg"]}"\n' for row in FLAG)},
        questions=ASKED,
    ),
    "FlagEmbedding beside a label": Case({"train.jsonl": lines(*(row | {"label": 1} for row in FLAG))}, questions=ASKED),
    "other objects with the names of SQuAD's": Case(
        {
            "p.jsonl": LINES,
            "q.jsonl": lines({"id": "1", "question": "Who?", "answers": ["Toll"], "context": "x"}),
        },
        ("is not SQuAD's", "questions.format=jsonl"),
    ),
}  # fmt: skip
TRAINING = {name: replace(case, passages=case.passages or 2) for name, case in TRAINING.items()}
