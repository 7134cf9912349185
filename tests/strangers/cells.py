"""Cells that look like lists, answers that no gold passage holds, and ids that look the same."""

from __future__ import annotations

import json
import unicodedata

from tests.strangers.case import LINES, Case, lines


def asked(cell: str, name: str = "q.csv") -> dict[str, str]:
    """The towns, a question about the first with a cell of answers, and one about the second without."""
    quoted = '"' + cell.replace('"', '""') + '"'
    return {
        "p.jsonl": LINES,
        name: f"qid,question,answers,positive_ids\nq1,Who founded Orlen?,{quoted},t0\n",
        "z.csv": "qid,question,positive_ids\nq2,Where is a bridge?,t1\n",
    }


TOLL = ("Mirja Toll", "Toll")


def gold(passages: list[dict], positive: object, **more: object) -> dict[str, str]:
    """Passages, and a question about one of them."""
    question = {"qid": "q1", "question": "Who?", "positive_ids": [positive], **more}
    return {"p.jsonl": "".join(f"{json.dumps(row)}\n" for row in passages), "q.jsonl": json.dumps(question)}


CELLS = (
    {
        f"answers written as {cell}": Case(
            asked(cell),
            questions=[("Who founded Orlen?", answers, ("t0",)), ("Where is a bridge?", (), ("t1",))],
        )
        for cell, answers in {
            "['Mirja Toll' 'Toll']": TOLL,
            "['Mirja Toll'\n 'Toll']": TOLL,
            "['Mirja Toll' \"Toll\"]": TOLL,
            " ['Mirja Toll', 'Toll'] ": TOLL,
            "('Mirja Toll', 'Toll')": TOLL,
            "{'Mirja Toll', 'Toll'}": TOLL,
            "{'Toll', 'Mirja Toll'}": TOLL[::-1],
            "{1, 'Toll'}": ("1", "Toll"),
            "{1311,1310}": ("1311", "1310"),
            '["Mirja Toll", "Toll"]': TOLL,
            "['Toll']": ("Toll",),
            "[1310 1311]": ("1310", "1311"),
            "[1310. 1311.]": ("1310", "1311"),
            "[1310.0, 1.5, -0.25]": ("1310", "1.5", "-0.25"),
            "founded it (1310)": ("founded it (1310)",),
            "(1310)": ("(1310)",),
            "Mirja Toll": ("Mirja Toll",),
        }.items()
    }
    | {
        f"answers written as {cell}": Case(
            asked(cell), ("row 1 (question q1): answers", "looks like a list", "JSON")
        )
        for cell in (
            "['Mirja Toll' 'Toll', 'M. Toll']",
            "['Mirja Toll' ... 'Toll']",
            "['Mirja Toll' nan]",
            "['Mirja''Toll']",
            "[?]",
            "['Toll' $]",
            "[§12]",
            "{$12}",
            "[12 – 15]",
            "[u'Toll' u'Toll']",
            "[2.00]",
            '["Toll" "' + '\\"' * 15000,
            "[(12)]",
            "[+5]",
            "[- 5]",
            "['Mirja\nToll']",
            "['Mirja', # 'Toll'\n 'Toll']",
            "[007]",
            "[07 1310]",
            "[1.2.3]",
            "[12_3]",
            "{12_3,4}",
            "[1.10]",
            "[.5]",
            "[1e5]",
            "[0x10]",
            "['Toll', 2.50]",
            "[Mirja Toll, Toll]",
            "[sic]",
            "{{Toll}}",
            "{{1}}",
            "['Mirja Toll', 'Tol",
            '{Toll,"Mirja Toll"}',
            "array(['Toll'], dtype=object)",
            'c("Mirja Toll", "Toll")',
            "ARRAY['Toll']",
            "WrappedArray(Mirja Toll, Toll)",
            '{"text": ["Toll"], "answer_start": [22]}',
            "{'text': array(['Toll'], dtype=object), 'answer_start': array([22])}",
        )
    }
    | {
        "gold passages and their grades in arrays of Postgres's, of which the second one is judged highest": Case(
            {
                "p.jsonl": lines(*({"id": n, "text": f"Orlen {n}."} for n in ("3", "7", "9"))),
                "q.csv": 'qid,question,positive_ids,relevance\nq1,Who?,"{7,3}","{1,3}"\nq2,Where?,{9},[2.00]\n',
            },
            questions=[("Who?", (), ("7", "3")), ("Where?", (), ("9",))],
        ),
        "gold passages as Postgres writes them": Case({"p.jsonl": LINES, "q.csv": 'qid,question,positive_ids\nq1,Who?,"{t0,t1}"\n'}, ("positive_ids", "looks like a list")),
        "answers that no gold passage holds": Case(
            asked("Toll|Mirja Toll"),
            (
                "none of the answers of 1 question is in its gold passage (first: 'Toll|Mirja Toll')",
                "questions.free_answers",
            ),
        ),
        **{
            f"answers between {mark!r} beside others": Case(
                asked(f"Toll{mark}Mirja Toll")
                | {"more.csv": "qid,question,answers,positive_ids\nq3,Who?,Ola Brandt,t1\n"},
                (
                    "of 1 question the gold passage holds only a part of the answer (first: question q1",
                    "list",
                ),
            )
            for mark in ("|", "; ", "\t", "\n")
        },
        "answers between | that are free": Case(asked("Toll|Mirja Toll"), settings=("questions.free_answers=true",), remarks=("free answers",)),
        "answers that are patterns": Case(
            asked("Toll|Brandt"),
            questions=[
                ("Who founded Orlen?", ("Toll|Brandt",), ("t0",)),
                ("Where is a bridge?", (), ("t1",)),
            ],
            settings=("questions.answer_matching=regex",),
        ),
        "answers between | without gold passages": Case(
            {"p.jsonl": LINES, "dev.csv": "qid,question,answers\nq1,Who?,Toll|Mirja\n"},
            questions=[("Who?", ("Toll|Mirja",), ())],
            remarks=("answers hold |", "question q1, 'Toll|Mirja'"),
        ),
        "answers that are fractions of whole numbers": Case(
            gold([{"id": "t0", "text": "In 1310, x."}, {"id": "t1", "text": "y."}], "t0", answers=[1310.0]),
            questions=[("Who?", ("1310",), ("t0",))],
            settings=("questions.dev_source=FOLDER/q.jsonl",),
            sources=("p.jsonl",),
        ),
        **{
            f"gold passages between {mark!r}": Case(
                {
                    "p.jsonl": LINES,
                    "q.csv": "qid,question,positive_ids\n"
                    + "".join(f"q{n},Who?,t{n % 2}\n" for n in range(20))
                    + f'r,Who?,"t0{mark}t1"\n',
                },
                ("question r: gold passage 't0", "is several; write their ids as a list"),
            )
            for mark in ("|", ", ", ";", " ")
        },
        "a gold passage that is missing beside others with its words": Case(
            {
                "p.jsonl": lines(*({"id": name, "text": "A town."} for name in ("North", "Sea", "Bask"))),
                "q.jsonl": lines(
                    *(
                        {"qid": name, "question": f"Which {name}?", "positive_ids": [name]}
                        for name in ("Sea", "Bask")
                    ),
                    {"qid": "r", "question": "Which?", "positive_ids": ["North Sea"]},
                ),
            },
            remarks=("gold passages are not in the corpus, left out", "question r"),
            settings=("questions.max_missing_gold=0.5",),
        ),
        "prose of which a gold passage holds a line": Case(
            {
                "p.jsonl": LINES,
                "q.jsonl": lines(
                    {
                        "qid": "a",
                        "question": "Who?",
                        "positive_ids": ["t0"],
                        "answers": ["Toll\n" + "x " * 99],
                    },
                    {"qid": "b", "question": "Who?", "positive_ids": ["t1"], "answers": ["Ola Brandt"]},
                ),
            },
            remarks=("free answers", "question a"),
        ),
        "answers of dev questions that no gold passage holds": Case(asked("Toll;Mirja Toll", "dev.csv"), ("questions.dev_source: none of the answers of 1 question",)),
        "free answers": Case(asked("yes"), settings=("questions.free_answers=true",), remarks=("free answers",)),
        "free answers beside others": Case(asked("yes") | {"more.csv": "qid,question,answers,positive_ids\nq3,Who?,Toll,t0\n"}, remarks=("free answers",)),
    }
)  # fmt: skip


LOOK_ALIKES = {
    f"an id that differs in {how}": Case(
        gold([{"id": stored, "text": "x y."}], named),
        (f"passage {named_shown}", f"the corpus has {shown}", f"but for {how}"),
    )
    for how, named, named_shown, stored, shown in (
        ("its normal form", "Zürich", "'Zürich'", unicodedata.normalize("NFD", "Zürich"), r"'Zu\u0308rich'"),
        ("its normal form and white space", "t 1", "'t 1'", "t\u00a01", r"'t\xa01'"),
        ("white space", "t1", "'t1'", "t1 ", "'t1 '"),
        ("case", "T1", "'T1'", "t1", "'t1'"),
        ("leading zeros", "7", "'7'", "007", "'007'"),
        ("a final .0", "7", "'7'", "7.0", "'7.0'"),
    )
} | {
    "a given negative that no passage has": Case(
        gold([{"id": "t1", "text": "x y."}, {"id": "T2", "text": "z."}], "t1", negative_ids=["t2"]),
        ("no training question names a negative that is in the corpus (first: 't2'; the corpus has 'T2'",),
        settings=("questions.hard_negatives=given",),
    ),
    "an article whose name differs in its normal form": Case(
        {
            f"a/{unicodedata.normalize('NFD', 'Zürich')}.txt": "Zürich lies on a lake.",
            "q.jsonl": json.dumps({"qid": "q0", "question": "Where?", "positive_ids": ["Zürich"]}),
        },
        ("passage 'Zürich'; the corpus has 'Zu\\u0308rich', the same but for its normal form",),
        settings=("corpus.source=FOLDER/a",),
        sources=("q.jsonl",),
    ),
    "a judged question that differs in case": Case(
        {"p.jsonl": LINES, "queries.tsv": "Q1\tWho founded it?\n", "qrels.train.tsv": "q1 0 t0 1\n"},
        ("none of 1 judged question (first: 'q1'; the files of questions have 'Q1', the same but for case)",),
        settings=("questions.source=[FOLDER/queries.tsv, FOLDER/qrels.train.tsv]",),
        sources=("p.jsonl",),
    ),
    "one judged question of several": Case(
        {
            "p.jsonl": LINES,
            "queries.tsv": "01\tWho founded it?\n2\tWho?\n",
            "qrels.tsv": "1 0 t0 1\n2 0 t1 1\n",
        },
        sources=("p.jsonl",),
        settings=("questions.dev_source=[FOLDER/queries.tsv, FOLDER/qrels.tsv]",),
        remarks=(
            "no file of questions has '1'; the files of questions have '01', the same but for leading zeros",
        ),
    ),
}
