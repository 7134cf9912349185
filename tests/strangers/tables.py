"""CSV, TSV and JSONL as spreadsheets, databases and people write them."""

from __future__ import annotations

from tests.strangers.case import LINES, Case, lines

ASKED_BY_ID = [{"qid": f"q{n}", "question": f"Who {n}?", "positive_ids": [f"t{n}"]} for n in range(2)]

TABLES = {
    "ids of passages beside those of their documents": Case({"p.csv": "doc_id,passage_id,text\nd,d-0,Orlen.\nd,d-1,Bask.\n"}, passages=["d-0", "d-1"]),
    "a TSV whose header has other names": Case({"p.tsv": "passage_id\tpassage_text\nt0\tOrlen lies on a lake.\n"}, passages=["t0"]),
    "a TSV whose header nothing knows": Case(
        {"p.tsv": "nummer\tinhalt\n1\tOrlen liegt am See.\n2\tBask hat eine Bruecke.\n"},
        ("p.tsv line 1", "looks like a header (nummer, inhalt)", "corpus.columns"),
    ),
    "such a TSV with a line separator of Unicode in a text": Case(
        {"p.tsv": "nummer\tinhalt\n1\tOrlen.\u2028zweitens\n2\tBask.\x85drittens\n"},
        ("p.tsv line 1", "looks like a header (nummer, inhalt)", "corpus.columns"),
    ),
    "a TSV whose first text is one word": Case({"p.tsv": "t0\tOrlen\nt1\tBask has a bridge.\n"}, passages=["t0", "t1"]),
    "CSVs one after another": Case({"p.csv": "id,text\n1,Orlen.\nid,text\n2,Bask.\n"}, ("p.csv line 3", "repeats the header")),
    "CSVs with marks one after another": Case({"p.csv": "\ufeffid, text\n1,Orlen.\n\ufeffid, text\n2,Bask.\n"}, ("p.csv line 3", "repeats the header")),
    "line ends of old Macs, and blank lines first": Case({"p.csv": "\r\rid,text\r1,A lake.\r2,A bridge.\r"}, passages=["1", "2"]),
    "NUL in a text": Case({"p.csv": "id,text\n1,A \0lake.\n2,A bridge.\n"}, passages=["1", "2"]),
    "a header over two lines": Case({"p.csv": 'id,"te\nxt"\n1,A lake.\n'}, ("no column 'text' among id, te",)),
    "parts of Spark without a header, one of a single row": Case(
        {"part-0.csv": "id,text\nt0,A lake.\n", "part-1.csv": "t1,A bridge.\n", "_SUCCESS": ""},
        ("part-1.csv: its only line is no header (t1,A bridge.)",),
    ),
    "a header of names with dots": Case(
        {"p-0.tsv": "p.id\tp.text\na\tA lake.\n", "p-1.tsv": "p.id\tp.text\n"},
        passages=["a"],
        remarks=("files without passages", "p-1.tsv"),
        settings=("corpus.columns={id: p.id, text: p.text}",),
    ),
    "such a part without a suffix": Case({"part-0": "t1\tBask\tA bridge.\n"}, ("part-0: its only line is no header",), sources=("part-0",), settings=("corpus.format=tsv",)),
    "a part of Spark that has a header of the user's alone": Case(
        {"part-0.csv": "pid,body\nt0,A lake.\n", "part-1.csv": "pid,body\n"},
        passages=["t0"],
        remarks=("files without passages", "part-1.csv"),
        settings=("corpus.columns={id: pid, text: body}",),
    ),
    "texts of Excel": Case({"p.csv": 'id,text\n="001",="A ""lake"""\n"=""002""","a = ""b"""\n'}, passages=["001", "002"]),
    "TSVs with marks one after another": Case({"collection.tsv": "\ufeff\ufeff1\tA lake.\n\ufeff2\tA bridge.\n"}, passages=["1", "2"]),
    "JSONL with marks one after another": Case({"p.jsonl": "".join(f"\ufeff{line}\n" for line in LINES.splitlines())}, passages=["t0", "t1"]),
    **{
        f"a quote that is left open over {over} lines, before {mark!r}": Case(
            {
                name: f'id{mark}title{mark}text\n1{mark}Orlen{mark}"A lake.\n'
                + f"2{mark}Bask{mark}A bridge.\n" * over
                + f'3{mark}Toll{mark}A name"\n4{mark}Zell{mark}A mill.\n'
            },
            (f"{name} line {over + 3}: a cell holds whole lines of 3 columns, from line 2 on", "quote"),
        )
        for name, mark in (("p.csv", ","), ("p.tsv", "\t"))
        for over in (0, 2)
    },
    **{
        f"a quote that is left open before {what}": Case({"p.csv": f'{head}\n{rows}'}, ("p.csv line 4: a cell holds whole lines",))
        for what, head, rows in (
            ("a blank second cell", "id,title,text", 'p0,,"Rosa said.\np1, ,Rosa spoke.\np2, ,Rosa left."\n'),
            ("an empty second cell", "id,title,text", 'p0,,"Rosa said.\np1,,Rosa spoke.\np2,T,Rosa left."\n'),
            ("a title of two words", "title,id,text", 'T,p0,"Rosa said.\nNew York,p1,Rosa spoke.\nOld York,p2,Rosa left."\n'),
            ("a year", "id,year,text", 'p0,1990,"Rosa said.\np1,1991,Rosa spoke.\n2,199,Rosa left."\n'),
            ("an empty last cell", "id,text,url", 'p0,"Rosa said.,\np1,Rosa spoke.,\np2,Rosa left.",\n'),
        )
    },
    "prose with commas in cells of three columns": Case(
        {
            "p.csv": 'id,title,text\n1,Toll,"Rosa Toll\nMill St 5,Bask, by Orlen"\n2,Bask,"Once\n1,000 men and 2,000 women,"\n'
            '3,Zell,"It cost\nbetween 1,5 and 2,5 crowns"\n4,Orlen,"Towns\nBask,\nZell,"\n5,"A lake,\nnear Bask,\nnear Zell","A\nlake."\n'
        },
        passages=5,
    ),
    "a table with tabs in a cell": Case(
        {"p.tsv": 'id\ttitle\ttext\n1\tOrlen\t"a\tb\tc\n1\t2\t3\n"\n2\tBask\t"Years\n1310\tfounded"\n'}, passages=["1", "2"]
    ),
    "paragraphs, numbers and objects in cells": Case(
        {
            "p.csv": 'id,text\n1,"Orlen, on a lake.\nIn 1310, it had 1,000\n2,000 souls,\nand 3."\n'
            '2,"{""a"": 1,\n""b"": 2}"\n3,"Towns:\nBask, with a bridge\nOrlen,\n"\n'
        },
        passages=["1", "2", "3"],
    ),
    "MS MARCO's with the line ends of old Macs": Case({"collection.tsv": "1\tA lake.\r2\tA bridge.\r"}, ("line 1: not MS MARCO's id and text",)),
    **{
        f"{kind} as {value}": Case({"p.csv": f"id,text\n{of}\n"}, passages=[id_], remarks=(kind, value))
        for kind, value, of, id_ in (
            ("stand for nothing", "NA", "1,NA", "1"),
            ("stand for nothing", "#DIV/0!", "1,#DIV/0!", "1"),
            ("as Python writes", "b'Orlen.'", "1,b'Orlen.'", "1"),
            ("as Python writes", "['Orlen.', 'Bask.']", "1,\"['Orlen.', 'Bask.']\"", "1"),
            ("escapes of a database", "A lake.", "1,A lake.\\nA bridge.", "1"),
            ("escapes of a database", "A lake.\\", "1,A lake.\\", "1"),
            ("in quotes", "'1'", "'1','A lake.'", "'1'"),
            ("of a database or a workbook", "_x000D_", "1,A lake._x000D_", "1"),
            ("of a database or a workbook", "Z\\\\u00fcrich", "1,Z\\u00fcrich", "1"),
            ("decoded wrongly", "Z%C3%BCrich", "1,Z%C3%BCrich", "1"),
            ("decoded wrongly", "Ã¼", "1,ZÃ¼rich", "1"),
            ("decoded wrongly", "itâ€™s", "1,itâ€™s a lake", "1"),
            ("decoded wrongly", "Z\ufffdrich", "1,Z\ufffdrich", "1"),
            ("with HTML", "A &amp; B", "1,A &amp; B", "1"),
            ("with HTML", "<p>A lake.</p>", "1,<p>A lake.</p>", "1"),
            ("rounded", "1.23E+12", "1.23E+12,A lake.", "1.23E+12"),
            ("by which a spreadsheet takes them for text", "'007", "'007,A lake.", "'007"),
            ("a column's type", "varchar(20)", "varchar(20),VARCHAR", "varchar(20)"),
        )
    },
    "questions that stand for nothing": Case(
        {"p.jsonl": LINES, "dev.csv": "qid,question,answers\na,Who?,Toll\nb,Where?,nan\n"},
        questions=[("Who?", ("Toll",), ()), ("Where?", ("nan",), ())],
        remarks=("stand for nothing", "dev.csv row 2: 'nan'"),
    ),
    "errors of a spreadsheet": Case({"p.csv": "id,title,text\n1,#N/A,Orlen.\n"}, passages=["1"], remarks=("stand for nothing", "#N/A")),
    **{
        f"a line that is drawn under a header of {mark!r}": Case(
            {name: f"id{mark}title{mark}text\n--{mark}:-----:{mark}----\n1{mark}Orlen{mark}A lake.\n"},
            (f"{name} line 2: repeats the header, or rules it off",),
        )
        for name, mark in (("p.csv", ","), ("p.tsv", "\t"))
    },
    **{
        f"rows without a header that begin with {first!r}": Case(
            {"p.csv": f"{first},Orlen,A lake.\n1,Bask,A bridge.\n"},
            ("no column 'id'", "has it no header? Then add one"),
        )
        for first in ("t0", "0")
    },
    "a header that is wrong": Case({"p.csv": "key,name,text\n1,Orlen,A lake.\n"}, ("of an object)",)),
    "columns of Hive": Case({"p.csv": "id\x01text\n1\x01A lake.\n"}, ("separated by '\\x01'?",)),
    "a cell of as many characters as Excel holds": Case(
        {"p.csv": f"id,text\n1,{'lake ' * 6553}la\n2,{'lake ' * 6553}l\n"},
        passages=["1", "2"],
        remarks=("at which Excel cuts a cell", "p.csv row 1"),
    ),
    "columns without a name or a value": Case({"p.csv": "id,title,text,,\n1,Orlen,A lake.,,\n,,,,\n2,Bask,A bridge.,,\n"}, passages=["1", "2"]),
    "semicolons and commas": Case({"p.csv": "\ufeffid;title;text\n1;Orlen;A lake, large\n"}, ("line 2", "separated by ';'?")),
    **{
        f"a line for Excel alone, {line!r} in {name}": Case(
            {name: f"{line}\r\nid{mark}text\r\n1{mark}A lake.\r\n"}, (f"{name}: remove the line sep=",)
        )
        for name, line, mark in (("p.csv", "sep=;", ";"), ("p.csv", "sep=,", ","), ("p.tsv", "sep=\t", "\t"))
    },
    "titles under another name": Case({"p.csv": "id,Title,text\n1,Orlen,A lake.\n"}, passages=["1"], remarks=("without title", "corpus.columns={title: 'Title'}")),
    "blanks in a header": Case({"p.csv": "id,text, title\n1,A lake.,Orlen\n"}, passages=["1"], remarks=("corpus.columns={title: ' title'}",)),
    "topics beside passages": Case(
        {"p.jsonl": LINES, "topics.dev.tsv": "q1\tWho founded Orlen?\n", "qrels.dev.tsv": "q1\tQ0\tt0\t1\n"},
        passages=["t0", "t1"],
        questions=[("Who founded Orlen?", (), ("t0",))],
    ),
    "topics and judgements of TREC in a folder": Case(
        {"docs.jsonl": LINES, "topics.tsv": "1\tWho?\n2\tWhere?\n", "qrels.txt": "1 0 t0 1\n2 0 t1 1\n"},
        passages=["t0", "t1"],
        questions=[("Who?", (), ("t0",)), ("Where?", (), ("t1",))],
    ),
    "the same question of the same passage under another id": Case(
        {
            "p.jsonl": LINES,
            "train.jsonl": lines(*ASKED_BY_ID),
            "dev.jsonl": lines(
                ASKED_BY_ID[0] | {"qid": "z"}, ASKED_BY_ID[0] | {"qid": "y", "question": "Where?"}
            ),
        },
        remarks=("questions in both train and dev", "question z"),
    ),
    "ids under a name of passages, beside ids of questions": Case(
        {"p.jsonl": LINES, "q.csv": "qid,question,positive\na,Who?,t0\n"},
        ("q.csv row 1 (question a): neither an answer nor a gold passage; name their columns",),
    ),
    "an index without a name": Case({"p.csv": ",id,text\n0,a,Orlen.\n1,b,Bask.\n"}, passages=["a", "b"]),
    "answers under another name": Case(
        {"p.jsonl": LINES, "q.jsonl": lines(*(row | {"answer": "Toll"} for row in ASKED_BY_ID))},
        remarks=("questions without answers beside a column that is not read", "{answers: answer}"),
    ),
    "words for nothing": Case({"p.csv": "id,title,text\n1,NULL,Orlen.\n2,\\N,Bask.\n"}, passages=["1", "2"], remarks=("stand for nothing", "NULL")),
    "columns of ours": Case({"p.jsonl": '{"id": "a", "text": "x", "content_hash": "7"}\n'}, passages=["a"], remarks=("not read", "content_hash")),
    "columns of ours in articles": Case(
        {"p.jsonl": '{"id": "a", "text": "x y", "article_id": "z"}\n'},
        passages=["a-0", "a-1"],
        remarks=("not read", "p.jsonl: column 'article_id'; rename it to keep it"),
        settings=("corpus.cut=words", "corpus.cut_length=1"),
    ),
}  # fmt: skip
