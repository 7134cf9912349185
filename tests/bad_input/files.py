"""Files that no reader takes, as `multiview inspect` meets them."""

from __future__ import annotations

import gzip
import json

from tests.bad_input.cases import Command

PASSAGES = '{"id": "p1", "title": "T", "text": "The tower is in Rome."}\n{"id": "p2", "text": "A castle."}\n'
MORE = '{"qid": "r1", "question": "Who?", "positive_ids": ["p1"]}\n{"qid": "r2", "question": "What?", "positive_ids": ["p2"]}\n'
"""Questions without fault."""
SHARD = "--set corpus.shards=1"


def passages(content: str | bytes, *says: str, name: str = "p.jsonl") -> Command:
    """A file of passages, alone."""
    return Command(f"multiview inspect '{name}' {SHARD}", (name, *says), {name: content})


def questions(content: str | bytes, *says: str, name: str = "q.jsonl", settings: str = "") -> Command:
    """A file of questions beside intact passages, with more questions after the faulty rows."""
    files = {"p.jsonl": PASSAGES, name: content + MORE if isinstance(content, str) else content}
    return Command(f"multiview inspect p.jsonl {name} {settings}", (name, *says), files)


def answered(content: str, *says: str, settings: str = "") -> Command:
    """Like `questions`, in a file whose questions have answers."""
    more = "".join(
        row(qid=f"r{number}", question=f"Who {number}?", positive_ids=[f"p{number}"], answers=["a"])
        for number in (1, 2)
    )
    files = {"p.jsonl": PASSAGES, "q.jsonl": content + more}
    return Command(f"multiview inspect p.jsonl q.jsonl {settings}", ("q.jsonl", *says), files)


def judged(content: str | bytes, *says: str, name: str = "qrels.tsv") -> Command:
    """Judgements, or triples, beside intact passages and questions."""
    files = {"p.jsonl": PASSAGES, "q.jsonl": MORE, name: content}
    settings = f"--set corpus.source=p.jsonl --set 'questions.source=[q.jsonl, {name}]'"
    return Command(f"multiview inspect {settings}", (name, *says), files)


def squad(paragraph: object) -> str:
    return json.dumps({"data": [{"title": "T", "paragraphs": [paragraph]}]})


def row(**columns: object) -> str:
    return json.dumps({"qid": "q1", "question": "Where?", "positive_ids": ["p1"]} | columns) + "\n"


def asked(answers: object) -> dict[str, object]:
    return {"id": "q1", "question": "Where?", "answers": answers}


CASES = {
    # --- bytes and compressions
    "an empty file": passages("", "no passages in it", "corpus.source"),
    "blank lines alone": passages("\n \n", "no passages in it", "corpus.source"),
    "bytes that are not UTF-8": passages(b'{"id": "a", "text": "caf\xe9"}\n', "line 1", "not UTF-8", "convert"),
    "UTF-16": passages(PASSAGES.encode("utf-16"), "not UTF-8", "convert"),
    "UTF-32": passages(PASSAGES.encode("utf-32"), "not UTF-8", "convert"),
    "Latin-1 in a CSV": passages("id,text\na,café\n".encode("latin-1"), "line 2", "not UTF-8", "convert", name="p.csv"),
    "a NUL byte between objects": passages(b'{"id": "a", "text": "b"}\n\x00\n', "line 2", "not JSON"),
    "gzip that is damaged": passages(b"\x1f\x8b\x08 no more", "cannot be read", "is it complete", name="p.jsonl.gz"),
    "gzip cut short": passages(gzip.compress(PASSAGES.encode())[:-9], "is it complete", name="p.jsonl.gz"),
    "bzip2 that is damaged": passages(b"BZh91AY&SY no more", "cannot be read", name="p.jsonl.bz2"),
    "xz that is damaged": passages(b"\xfd7zXZ\x00 no more", "cannot be read", name="p.jsonl.xz"),
    "zstd that is damaged": passages(b"\x28\xb5\x2f\xfd no more", "cannot be read", name="p.jsonl.zst"),
    "Parquet that is none": passages(PASSAGES, "cannot be read", "of the format", name="p.parquet"),
    "Parquet of no byte": passages("", "cannot be read", name="p.parquet"),
    "an archive": passages(b"PK\x03\x04", "a zip archive", "unpack it", "compressed as .gz, .bz2, .xz, .zst", name="p.zip"),
    "an archive that is compressed": passages(gzip.compress(bytes(257) + b"ustar\0"), "an archive", "unpack it", name="p.tgz"),
    "semicolons in a CSV": passages("id;title;text\n1;T;x\n", "no column 'id'", "separated by ';'? A .csv has commas", name="p.csv"),
    "tabs in a CSV": passages("id\ttitle\ttext\n1\tT\tx\n", "no column 'id'", "separated by '\\t'?", name="p.csv"),
    "commas in a TSV of questions": questions("qid,question\n1,x\n", "separated by ','? A .csv has commas", name="q.tsv"),
    "a name without a format": passages(PASSAGES, "does not say its format", "corpus.format", name="p.data"),
    "a hidden file": passages(PASSAGES, "does not say its format", name=".p.jsonl"),
    "no such file": Command("multiview inspect none.jsonl", ("none.jsonl", "no such file"), {}),
    "a pattern that matches nothing": Command("multiview inspect '*.jsonl'", ("*.jsonl", "no"), {}),
    "a folder of nothing": Command("multiview inspect empty", ("empty", "no files there"), {"empty": None}),
    "a folder with the name of a file": Command("multiview inspect p.jsonl", ("p.jsonl", "no files there"), {"p.jsonl": None}),
    "no source": Command("multiview inspect", ("nothing is named", "give files"), {}),
    # --- JSON lines
    "a line that is cut": passages('{"id": "a", "text": "b"}\n{"id": "b", "te', "line 2", "not JSON"),
    "a list": passages('["a", "b"]\n', "row 1", "not a JSON object"),
    "a number": passages("5\n", "line 1", "not a JSON object"),
    "deep JSON": passages('{"id": "a", "text": "b", "more": ' + "[" * 100_000 + "]" * 100_000 + "}\n", "line 1", "nested too deeply"),
    "a lone surrogate": passages('{"id": "a", "text": "half \\ud83d of it"}\n', "half a character", "as UTF-8"),
    "a lone surrogate in an id": passages('{"id": "\\udc00", "text": "b"}\n', "half a character"),
    "a lone surrogate in bytes": passages(b'{"id": "a", "text": "\xed\xa0\xbd"}\n', "not UTF-8"),
    "a lone surrogate in a column of theirs": passages('{"id": "a", "text": "b", "more": {"x": "\\ud83d"}}\n', "half a character"),
    "a number of 5,000 digits": passages('{"id": ' + "9" * 5000 + ', "text": "b"}\n', "line 1", "4,300 digits", "as text"),
    "a number of 5,000 digits in DPR's JSON": passages(
        f'[{{"question": "?", "answers": ["a"], "positive_ctxs": [{{"psg_id": {"9" * 5000}, "text": "x"}}]}}]',
        "64 bits",
        "as text",
        name="t.json",
    ),
    "a key twice": passages('{"id": "a", "text": "b"}\n{"id": "c", "text": "d", "text": "e"}\n', "line 2", "'text' is given twice"),
    "a key twice within a column": passages('{"id": "a", "text": "b", "more": [{"x" : 1, "\\u0078": 2}]}\n', "line 1", "'x' is given twice"),
    "a question's key twice": questions('{"qid": "q1", "qid": "q2", "question": "Where?", "positive_ids": ["p1"]}\n', "line 1", "'qid'", "once"),
    "an id of 23 digits": passages('{"id": 12345678901234567890123, "text": "b"}\n', "column 'id'", "64 bits", "as text"),
    "an id of 23 digits beside a fraction": passages(
        '{"id": 1e9, "text": "b"}\n{"id": 12345678901234567890123, "text": "b"}\n',
        "column 'id'",
        "more than 53 bits beside fractions",
        "write them as text",
    ),
    "an id that lost its last digits": passages('{"id": 1234567890123456789.0, "text": "b"}\n', "column 'id' holds 1.2345678901234568e+18", "as text"),
    "a gold passage that lost its last digits": questions(row(positive_ids=1234567890123456789.0), "row 1", "positive_ids holds 1.2345678901234568e+18", "as text"),
    "an id beyond all numbers": passages('{"id": 1e400, "text": "b"}\n', "column 'id' holds infinite numbers, not text"),
    "a qid beyond all numbers": questions('{"qid": 1e400, "question": "Where?", "positive_ids": ["p1"]}\n', "row 1", "qid is a text, not inf"),
    "a gold passage beyond all numbers": questions('{"qid": "q1", "question": "Where?", "positive_ids": [1e400]}\n', "row 1", "positive_ids are texts"),
    "an integer beyond 64 bits": passages('{"id": "a", "text": "b", "n": ' + "9" * 30 + "}\n", "column 'n'", "64 bits", "as text"),
    "a whole number beyond 53 bits far from fractions": passages(
        "".join(f'{{"id": "{n}", "text": "b", "n": {2**60}}}\n' for n in range(1000))
        + '{"id": "z", "text": "b", "n": 0.5}\n',
        "rows 1-1000",
        "column 'n' has int64 values",
        "double",
        "as text",
    ),
    "an infinite number for a text": passages('{"id": "a", "text": Infinity}\n', "'text'", "not text"),
    "no id": passages('{"text": "b"}\n', "no column 'id'", "corpus.columns"),
    "no text": passages('{"id": "a", "lead": "b"}\n', "no column 'text' among id, lead", "corpus.columns={text: yours}"),
    "a text that is a number": passages('{"id": "a", "text": 5}\n', "'text' is int64, not text"),
    "a text that is a list": passages('{"id": "a", "text": ["b"]}\n', "'text'", "not text"),
    "an id that is a list": passages('{"id": ["a"], "text": "b"}\n', "'id'", "not text"),
    "a title that is true": passages('{"id": "a", "title": true, "text": "b"}\n', "'title'", "not text"),
    "texts and truth values": passages('{"id": "a", "text": "b"}\n{"id": "b", "text": true}\n', "'text'", "one type"),
    "an id twice": passages('{"id": "a", "text": "b"}\n{"id": "c", "text": "d"}\n{"id": "a", "text": "e"}\n', "row 3", "a"),
    "a null id": passages('{"id": null, "text": "b"}\n{"id": "a", "text": "b"}\n', "row 1"),
    "an empty id": passages('{"id": "", "text": "b"}\n{"id": "a", "text": "b"}\n', "row 1"),
    "an id with a NUL character": passages('{"id": "b", "text": "b"}\n{"id": "a\\u0000", "text": "b"}\n', "row 2", "NUL character", "write it without"),
    "a null text": passages('{"id": "b", "text": "b"}\n{"id": "a", "text": null}\n', "row 2"),
    "a text of white space": passages('{"id": "b", "text": "b"}\n{"id": "a", "text": " \\n"}\n', "row 2"),
    "a text that nobody sees": passages('{"id": "b", "text": "b"}\n{"id": "a", "text": "\u200b \ufeff"}\n', "row 2", "has no text"),
    "a title that nobody sees for a text": Command(
        f"multiview inspect p.jsonl {SHARD} --set corpus.empty_text=title",
        ("p.jsonl row 2", "has no text"),
        {"p.jsonl": '{"id": "b", "text": "b"}\n{"id": "a", "title": "\u200b", "text": ""}\n'},
    ),
    "one passage for two shards": Command("multiview inspect p.jsonl", ("corpus.shards=2", "only 1 passage;", "fewer"), {"p.jsonl": '{"id": "a", "text": "b"}\n'}),
    # --- CSV and TSV
    "a CSV without a row": passages("id,text\n", "no passages in it", name="p.csv"),
    "a row too short": passages("id,text\na,b\nc\n", "line 3", "1 cell under 2 columns", name="p.csv"),
    "a quote that does not end": passages('id,text\na,"b\nc,d\n', "line 3", "must end with one", name="p.csv"),
    "a column named twice": passages("id,text,text\na,b,c\n", "names a column twice", name="p.csv"),
    "a CSV without an id": passages("number,text\na,b\n", "no column 'id'", name="p.csv"),
    "a TSV of three columns without a header": passages("1\ta\tb\n2\tc\td\n", "no column 'id' among", name="p.tsv"),
    "MS MARCO's line without a tab": passages("1\tone\ntwo\n", "line 2", "separated by a tab", name="collection.tsv"),
    # --- questions
    "a question without an id": questions(row(qid=None), "row 1", "no qid or no question"),
    "a question with an empty id": questions(row(qid=""), "row 1", "no qid or no question"),
    "a qid with a NUL character": questions(row(qid="q\0"), "row 1", "NUL character", "write it without"),
    "a gold passage with a NUL character": questions(row(positive_ids=["p1\0"]), "row 1 (question q1)", "NUL character"),
    "a question of white space": questions(row(question=" \t"), "row 1", "no qid or no question"),
    "a question that nobody sees": questions(row(question="\u200b\u2060"), "row 1", "no qid or no question"),
    "a question that is a list": questions(row(question=["Where?"]), "row 1", "question is a text"),
    "a qid that is an object": questions(row(qid={"a": 1}), "row 1", "qid is a text"),
    "positives that are objects": questions(row(positive_ids=[{"id": "p1"}]), "row 1", "positive_ids"),
    "no positive": questions(row(positive_ids=[]), "row 1", "no positive passage"),
    "a positive that is not there": Command(
        "multiview inspect p.jsonl q.jsonl",
        ("question q1", "p9", "max_missing_gold"),
        {"p.jsonl": PASSAGES, "q.jsonl": row(positive_ids=["p9"]) + MORE},
    ),
    "neither answer nor gold": questions('{"qid": "q1", "question": "Where?"}\n', "row 1", "neither an answer nor a gold passage"),
    "a relevance too many": questions(row(relevance=[1, 2]), "row 1", "2 relevance for 1 positive id"),
    "a negative relevance": questions(row(relevance=[-1]), "row 1", "grades from 1", "not -1"),
    "a relevance that fills trec_eval's memory": questions(row(relevance=[999_999_999]), "row 1", "relevance", "to 10,000", "scale larger"),
    "a relevance beyond 32 bits": questions(row(relevance=[3_000_000_000]), "row 1", "relevance", "to 10,000"),
    "a relevance of words": questions(row(relevance=["much"]), "row 1", "relevance are whole numbers"),
    "answers that are empty": answered(row(answers=["", " "]), "row 1", "no answer"),
    "answers that nobody sees": answered(row(answers=["\u200b"]), "row 1", "no answer"),
    "answers that are objects": answered(row(answers=[{"text": "Rome"}]), "row 1", "answers"),
    "offsets that are words": answered(row(answers=["Rome"], answer_starts=["there"]), "row 1", "answer_starts"),
    "an offset beyond 32 bits": answered(row(answers=["Rome"], answer_starts=[99_999_999_999]), "row 1", "answer_starts", "2,147,483,647"),
    "an offset beyond 32 bits, without a gold passage": answered(
        '{"qid": "q1", "question": "Where?", "answers": ["Rome"], "answer_starts": [-99999999999]}\n',
        "row 1",
        "answer_starts",
    ),
    "an offset too many": answered(row(answers=["Rome"], answer_starts=[16, 2]), "row 1", "answer_starts"),
    "a qid twice": questions(row() + row(question="Who?"), "q1"),
    "half a character in a question": questions(row(question="\ud83d?"), "line 1", "half a character"),
    "half a character in a qid": questions(row(qid="\udc00"), "line 1", "half a character"),
    "half a character in an answer": answered(row(answers=["\ud83d"]), "line 1", "half a character"),
    "an answer that is no pattern": answered(row(answers=["(Rome"]), "row 1", "(Rome", "answer_matching", settings="--set questions.answer_matching=regex"),
    "columns of other names": questions('{"number": 1, "question": "Where?"}\n', "no column 'qid'", "questions.columns={qid: yours}"),
    "a mapping of no column": Command(
        "multiview inspect p.jsonl q.jsonl --set 'questions.columns={quid: qid}'",
        ("questions.columns", "no column 'quid' is known here", "positive_ids"),
        {"p.jsonl": PASSAGES, "q.jsonl": MORE},
    ),
    "a mapping to a column that no file has": Command(
        "multiview inspect p.jsonl q.jsonl --set 'questions.columns={relevance: grade}'",
        ("questions.columns={relevance: grade}", "no file of questions", "did you mean grades?"),
        {"p.jsonl": PASSAGES, "q.jsonl": row(grades=2) + MORE},
    ),
    "triples of texts": judged("q1\tp1\tp2\nwho?\tone text\tanother\n", "line 2: not three ids", name="triples.train.tsv"),
    "a triple of two": judged("q1\tp1\tp2\nq2\tp1\n", "line 2: not three ids", name="qidpidtriples.train.tsv"),
    "judgements of other digits": judged("q1 0 p1 1\nq2 0 p1 ²\n", "line 2", "not a judgement"),
    "judgements of 400 digits": judged(f"q1 0 p1 1\nq1 0 p1 {'9' * 400}\n", "line 2", "not a judgement"),
    "judgements that fill trec_eval's memory": judged("q1 0 p1 1\nq1 0 p1 999999999\n", "line 2", "up to 10,000", "rescale them"),
    "judgements beyond 32 bits": judged("q1 0 p1 1\nq1 0 p1 3000000000\n", "line 2", "not a judgement"),
    "judgements of one cell": judged("q1 0 p1 1\nq2\n", "line 2", "not a judgement"),
    "judgements that are not UTF-8": judged(b"q1 0 p1 1\nq\xff 0 p1 1\n", "line 2", "not UTF-8"),
    "offsets of 5,000 digits": answered(row(answers=["Rome"], answer_starts="9" * 5000), "row 1", "answer_starts"),
    "a relevance of 5,000 digits": questions(row(relevance=["9" * 5000]), "row 1", "relevance are whole numbers"),
    # --- SQuAD, DPR and tevatron
    "SQuAD cut short": passages(squad({"context": "a b", "qas": []})[:-4], "cannot be read", name="s.json"),
    "SQuAD without data": passages('{"version": "1.1",\n "date": []}', "data", name="s.json"),
    "SQuAD of a list": passages('{"data": [[]]}', "s.json", name="s.json"),
    "a context that is a number": passages(squad({"context": 5, "qas": []}), "context", name="s.json"),
    "a paragraph without context": passages(squad({"qas": []}), "context", name="s.json"),
    "questions that are no list": passages(squad({"context": "a b", "qas": {}}), "qas", name="s.json"),
    "an answer without text": passages(squad({"context": "In Rome.", "qas": [asked([{"answer_start": 3}])]}), "answer", name="s.json"),
    "an answer that is a text": passages(squad({"context": "In Rome.", "qas": [asked(["Rome"])]}), "answer", name="s.json"),
    "SQuAD with two contexts in a paragraph": passages(
        '{"data": [{"paragraphs": [{"context": "a b", "context": "c d", "qas": []}]}]}',
        "s.json",
        "'context' is given twice",
        name="s.json",
    ),
    "SQuAD with two lists of articles": passages('{"data": [], "data": []}', "s.json", "'data' is given twice", name="s.json"),
    "deep SQuAD": passages('{"data": ' + "[" * 200_000, "nested more than 500 deep", name="s.json"),
    "SQuAD with half a character": passages(squad({"context": "In \ud83d Rome.", "qas": []}), "half a character", name="s.json"),
    "DPR's list of numbers": passages("[1, 2]", "d.json", name="d.json"),
    "DPR's entry without question": passages('[{"answers": ["a"], "positive_ctxs": []}]', "question", name="d.json"),
    "DPR's contexts that are numbers": passages('[{"question": "q", "answers": ["a"], "positive_ctxs": [5]}]', "row 1", "a passage without text", name="d.json"),
    "DPR's list cut short": passages('[{"question": "q", "answers": ["a"], "positive_', "cannot be read", name="d.json"),
    "a .qa.csv of commas": passages("who?,['a']\n", "tab and list of answers", name="x.qa.csv"),
    "tevatron's passages that are texts": passages(
        '{"query_id": "1", "query": "q", "positive_passages": ["a"], "negative_passages": []}\n',
        "positive_passages that is no object",
        name="t.jsonl",
    ),
}  # fmt: skip
