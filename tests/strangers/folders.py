"""What lies in folders and lakes: a corpus is never shorter without a word."""

from __future__ import annotations

import bz2

from tests.strangers.case import LINES, Case, lines, linked, table, towns

LAKES = {
    "a Delta table": Case({"t/a.parquet": towns, "t/_delta_log/0.json": "{}"}, ("/t: a Delta table (_delta_log)", "export"), sources=("t",)),
    "a Delta table in a folder with brackets": Case({"t[1]/a.parquet": towns, "t[1]/_delta_log/0.json": "{}"}, ("a Delta table",), sources=("t[1]",)),
    "a partition of a Delta table": Case({"t/lang=de/a.parquet": towns, "t/_delta_log/0.json": "{}"}, ("a Delta table",), sources=("t/lang=de",)),
    "a pattern within a Delta table": Case({"t/lang=de/a.parquet": towns, "t/_delta_log/0.json": "{}"}, ("a Delta table",), sources=("t/*/*.parquet",)),
    "a file of a Delta table": Case({"t/a.parquet": towns, "t/_delta_log/0.json": "{}"}, ("a Delta table",), sources=("t/a.parquet",)),
    "an Iceberg table": Case({"t/data/a.parquet": towns, "t/metadata/v1.metadata.json": "{}"}, ("an Iceberg table",), sources=("t/data",)),
    "an Iceberg table's own folder": Case({"t/data/a.parquet": towns, "t/metadata/v1.metadata.json": "{}"}, ("an Iceberg table",), sources=("t",)),
    "a partition of a Delta table far below it": Case({"t/a=1/b=2/c=3/d=4/p.parquet": towns, "t/_delta_log/0.json": "{}"}, ("a Delta table",), sources=("t/a=1/b=2/c=3/d=4",)),
    "a Paimon table": Case({"t/bucket-0/data-a.parquet": towns, "t/snapshot/snapshot-1": "{}"}, ("/t: a Paimon table",), sources=("t/bucket-0",)),
    "a Hive table with transactions": Case(
        {"t/base_0000002/a.parquet": towns, "t/delta_0000001_0000001/a.parquet": towns},
        ("/t: a Hive table with transactions",),
        sources=("t/base_0000002",),
    ),
    "a Lance table": Case({"t/data/a.lance": b"x", "t/data/a.parquet": towns, "t/_versions/1.manifest": b"x"}, ("/t: a Lance table",), sources=("t/data",)),
    "a Hudi table": Case({"t/a.parquet": towns, "t/.hoodie/hoodie.properties": ""}, ("a Hudi table (.hoodie)",), sources=("t",)),
    "a folder that has metadata of its own": Case({"t/a.parquet": towns, "t/metadata/about.json": "{}"}, passages=["t0", "t1"], sources=("t",)),
}  # fmt: skip

FOLDERS = {
    "a broken link": Case({"p.jsonl": LINES, "more.jsonl": linked("/nowhere/more.jsonl")}, ("more.jsonl: a link to /nowhere/more.jsonl, which is not there",)),
    "a broken link that a pattern names": Case({"p.jsonl": LINES, "q.jsonl": linked("/nowhere/more.jsonl")}, ("which is not there",), sources=("*.jsonl",)),
    "a broken link by name": Case({"p.jsonl": linked("/nowhere/more.jsonl")}, ("which is not there",), sources=("p.jsonl",)),
    "a folder of parts with the name of a file": Case({"p.jsonl": LINES, "more.parquet/part-0.parquet": towns}, ("more.parquet: a folder",)),
    "a pattern that also names a folder of parts": Case({"p.parquet": towns, "q.parquet/part-0.parquet": towns}, ("q.parquet: a folder",), sources=("*.parquet",)),
    "parts whose files DVC has not fetched": Case({"p.jsonl": LINES, "more.jsonl.dvc": "outs:\n"}, ("more.jsonl.dvc: a DVC pointer", "dvc pull")),
    "a folder under DVC": Case({"p.jsonl": LINES, ".dvc/config": "", "state.json": "{}"}, passages=["t0", "t1"]),
    "a missing part with a number in its suffix": Case({"p-0-of-2.jsonl.bz2": bz2.compress(LINES.encode())}, ("1 of 2 files p-*-of-2.jsonl.bz2", "missing")),
    "a part of no rows": Case({"p.jsonl": LINES, "q.jsonl": ""}, passages=["t0", "t1"], remarks=("files without passages", "q.jsonl")),
    "files that are not read": Case({"p.jsonl": LINES, "q.jsonl.lz4": "x"}, passages=["t0", "t1"], remarks=("not read", "q.jsonl.lz4")),
    "a shard that is missing": Case({"p-00000-of-00003.jsonl": LINES, "p-00002-of-00003.jsonl": LINES.replace("t", "u")}, ("2 of 00003 files p-*-of-00003.jsonl", "missing")),
    "shards of two versions": Case(
        {
            "p-00000-of-00001.jsonl": LINES,
            "p-00000-of-00002.jsonl": LINES.replace('"t', '"u'),
            "p-00001-of-00002.jsonl": LINES.replace('"t', '"v'),
        },
        ("1 of 00001 files p-*-of-00001.jsonl", "of another number"),
    ),
    "Parquet files one after another": Case(
        {"p.parquet": lambda path: (towns(path), path.write_bytes(2 * path.read_bytes()))},
        ("p.parquet: several Parquet files one after another",),
    ),
    "files beside data that an underscore hides": Case(
        {"p.jsonl": LINES, "_p.jsonl": LINES, "_SUCCESS": "", "x_$folder$": ""},
        passages=["t0", "t1"],
        remarks=("files and folders that are not read", "_p.jsonl"),
    ),
    "marks of Spark and EMR that a pattern names too": Case(
        {"d/p": LINES, "d/_SUCCESS": "", "d/x_$folder$": ""},
        passages=["t0", "t1"],
        sources=("d/*",),
        settings=("corpus.format=jsonl",),
    ),
    "lists of files and of settings beside data": Case(
        {
            "p.jsonl": LINES,
            "manifest.json": '{"entries": []}',
            "config.json": '{"a": 1}',
            "datapackage.json": "{}",
        },
        passages=["t0", "t1"],
        remarks=("not read", "config.json"),
    ),
    "lists beside articles": Case({"a.txt": "Orlen.", "checksums.txt": "d41d a.txt\n", "CITATION.txt": "Toll 1310"}, passages=["a-0"], remarks=("not read", "CITATION.txt")),
    "a folder within a folder": Case({"p.jsonl": LINES, "more/q.jsonl": LINES.replace("t", "u")}, passages=["t0", "t1"], remarks=("files and folders that are not read", "more")),
    "a folder that a pattern names": Case(
        {"d/p.jsonl": LINES, "d/more/q.jsonl": LINES.replace("t", "u")},
        passages=["t0", "t1"],
        sources=("d/*",),
        remarks=("files and folders that are not read", "more"),
    ),
    "a broken link without a suffix that a pattern names": Case(
        {"d/p.jsonl": LINES, "d/part-2": linked("/nowhere/part-2")},
        ("part-2: a link to /nowhere/part-2, which is not there",),
        sources=("d/*",),
    ),
    "a file that is in iCloud": Case({"p.jsonl": LINES, ".q.jsonl.icloud": "x"}, passages=["t0", "t1"], remarks=("files and folders that are not read", ".q.jsonl.icloud")),
    "files beside questions that are not read": Case(
        {
            "p.jsonl": LINES,
            "qs/q.jsonl": lines(
                {"qid": "q1", "question": "Who founded Orlen?", "positive_ids": ["t0"]},
                {"qid": "q2", "question": "Who built the bridge?", "positive_ids": ["t1"]},
            ),
            "qs/r.jsonl.lz4": "x",
        },
        settings=("corpus.source=FOLDER/p.jsonl", "questions.source=FOLDER/qs"),
        sources=(),
        remarks=("files and folders that are not read", "r.jsonl.lz4"),
    ),
    "a corpus of gold passages for questions that are made": Case({"p.jsonl": LINES}, ("corpus.keep=gold: no questions",), settings=("corpus.keep=gold",)),
    "judgements of a collection under another name": Case(
        {
            "corpus/c.parquet": table(_id=["t0"], text=["Orlen."]),
            "queries/q.parquet": table(_id=["q1"], text=["Who?"]),
            "default/test.parquet": towns,
        },
        passages=["t0"],
        remarks=("default",),
    ),
    "folders of Hive alone": Case({"lang=de/p.parquet": towns, "lang=fr/p.parquet": towns}, ("no files there", "lang=de", "/*/*.parquet")),
    "columns in the names of folders": Case({"lang=de/p.parquet": towns}, passages=["t0", "t1"], remarks=("names of folders", "lang=de"), sources=("*/*.parquet",)),
    "columns in the names of folders and in the files": Case({"lang=de/p.jsonl": lines({"id": "a", "text": "x", "lang": "de"})}, passages=["a"], sources=("lang=de",)),
    "parts without a suffix": Case({"p-000000": LINES}, ("no files there", "p-000000", "/*"), settings=("corpus.format=jsonl",)),
}  # fmt: skip
