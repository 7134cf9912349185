"""Readers of question files in the formats of SQuAD, DPR, tevatron and others, most of which also hold the passages.

- SQuAD (v1.1): articles of paragraphs with questions, or Hugging Face's row per question with its `context`.
- Training questions with passages: DPR's, tevatron's, FlagEmbedding's and sentence-transformers' (`anchor`).
- Questions with only answers: DPR's `*.qa.csv`, and NQ-open's.

Rows may come as Parquet, as a JSON list or one JSON object per line, whatever the file is called.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import TypeAlias

from multiview.config import JsonObject
from multiview.data.reading.delimited import cells, parse_list
from multiview.data.reading.files import base_name, head, is_parquet, plain_name
from multiview.data.reading.json_rows import json_items, rows_of
from multiview.data.reading.tables import Row
from multiview.data.reading.values import id_text
from multiview.errors import InputError

Entry: TypeAlias = tuple[list[Row], Iterable[Row]]
"""Passages, some of which may have come before, and the questions that name them."""

QUESTION = ("question", "query", "anchor")
POSITIVES = ("positive_ctxs", "positive_passages", "pos", "positive")
NEGATIVES = re.compile(r"hard_negative_ctxs|negative_passages|neg|(hard_)?negatives?(_?\d+)?")
CONTEXTS = ("positive_ctxs", "negative_ctxs", "hard_negative_ctxs")
QUESTION_ID = ("query_id", "qid", "question_id", "_id")
PASSAGE_ID = ("passage_id", "psg_id", "docid", "doc_id", "id", "_id")
"""Names in training files; the first one present counts, except that all that match `NEGATIVES` do."""
JUDGED = ("label", "labels", "score", "scores")
"""Names beside which sentence-transformers has negatives among the positives, where it mines pairs."""
SQUAD = {"context", "question", "answers"}
ANSWERED = ({"question", "answer"}, {"question", "answers"})
"""Names in files of questions that have only answers."""


def shape_of(names: Collection[str], mapped: Collection[str] = ()) -> str:
    """Returns the format of rows with these column names, if it is one that this module reads; else an empty string.

    Columns that are `mapped` to ours are not taken for a training file's passages, nor are rows with ids and
    `positive_ids`, which name passages of another file.
    """
    mapped_here = set(mapped) & set(names)
    has_ids = mapped_here or _named(names, ("qid", "_id"))
    if has_ids and "positive_ids" in names and not _named(names, POSITIVES):
        return ""
    if set(names) >= SQUAD and not mapped_here - SQUAD - {"id", "title"}:
        return "squad"
    if _named(names, CONTEXTS):
        return "dpr"
    if "positive_passages" in names and "query" in names:
        return "tevatron"
    if _named(names, QUESTION) and _named(set(names) - set(mapped), POSITIVES) and "qid" not in names:
        return "flagembedding"
    return "qa" if set(names) in ANSWERED else ""


def _named(names: Collection[str], wanted: Sequence[str]) -> str:
    return next((name for name in wanted if name in names), "")


TEXT_ID = "sq-"
"""What the ids begin with that `text_id` computes."""


def text_id(context: str) -> str:
    """Returns an id for a passage that has none, computed from its text alone, so that it is the same in every file."""
    return TEXT_ID + hashlib.sha1(context.encode("utf-8", "surrogatepass")).hexdigest()[:14]


def squad_entries(file: str) -> Iterator[Entry]:
    """Yields each paragraph with its questions, with one article in memory. Underscores in titles become spaces."""
    other = InputError(
        f"{file}: not SQuAD's JSON (data, paragraphs, context, qas); write other objects one per line, or as a list"
    )
    found = False
    for article in _squad_articles(file):
        try:
            title = (article.get("title") or "").replace("_", " ")
            paragraphs = [(paragraph["context"], paragraph["qas"]) for paragraph in article["paragraphs"]]
        except (KeyError, TypeError, AttributeError):
            raise other from None
        if not all(isinstance(text, str) and isinstance(asked, list) for text, asked in paragraphs):
            raise other
        for text, asked in paragraphs:
            id_ = text_id(text)
            yield [{"id": id_, "title": title, "text": text}], map(partial(_squad_question, file, id_), asked)
        found = True
    if not found:
        raise other


def _squad_articles(file: str) -> Iterator[JsonObject]:
    """Yields SQuAD's articles; in a file with a row per question, each row becomes an article with one question."""
    first = head(file, whole_line=False)
    names = first.partition("\n")[0].partition('"data"')[0]
    if is_parquet(first) or first.startswith("[") or '"context"' in names:
        for row in rows_of(file):
            yield {"title": row.get("title"), "paragraphs": [{"context": row.get("context"), "qas": [row]}]}
    else:
        yield from json_items(file, "data")


def _squad_question(file: str, passage: str, entry: JsonObject) -> Row:
    try:
        answers = entry["answers"]
        if isinstance(answers, dict):  # Hugging Face's, a list per name
            answers = [dict(zip(answers, each, strict=True)) for each in zip(*answers.values(), strict=True)]
        return {
            "qid": entry["id"],
            "question": entry["question"],
            "answers": [answer["text"] for answer in answers],
            "answer_starts": [answer["answer_start"] for answer in answers],
            "positive_ids": passage,
        }
    except (KeyError, TypeError, ValueError):
        raise InputError(
            f"{file}: question {str(entry)[:80]!r} is not SQuAD's (id, question, answers with text and answer_start); for "
            "other objects set questions.format=jsonl"
        ) from None


def training_entries(file: str) -> Iterator[Entry]:
    """Yields each question with its passages; a question without id gets one from the file's name and its row number.

    `negative_ids` are the hard negatives; DPR's `negative_ctxs`, on which it does not train, become passages only.
    `positive_ids` may be empty.
    """
    for number, entry in enumerate(rows_of(file), 1):
        place = f"{base_name(file)} row {number}"
        asked, positive = _named(entry, QUESTION), _named(entry, POSITIVES)
        if not asked or not (positive or "answers" in entry):
            raise InputError(
                f"{place}: no training question (question, answers, positive_ctxs; query_id, query, positive_passages; query, "
                "pos, neg); for other objects set questions.format=jsonl"
            )
        hard = [*filter(NEGATIVES.fullmatch, entry)]
        judged = _named([name for name, value in entry.items() if value is not None], JUDGED)
        if judged and positive in ("pos", "positive") and not hard:
            raise InputError(
                f"{place}: judged pairs ({judged}), so that {positive} may hold negatives too; write positives and negatives "
                f"apart, as mine_hard_negatives(output_format='n-tuple') does, or leave {judged} out if all are positives"
            )
        positives, others = (_passages(entry, name, place) for name in (positive, "negative_ctxs"))
        negatives = [passage for name in hard for passage in _passages(entry, name, place)]
        # Where positives are texts, a question may have a row for each, in which its id under other names repeats.
        id_names = QUESTION_ID[:1] if positive in ("pos", "positive") else QUESTION_ID
        own_id = _named([name for name in entry if name == "query_id" or entry[name] is not None], id_names)
        question = {
            "qid": entry[own_id] if own_id else f"{_stem(file)}-{number}",
            "question": entry[asked],
            "positive_ids": [passage["id"] for passage in positives],
            "negative_ids": [passage["id"] for passage in negatives],
        }
        # MS MARCO's have an empty list of answers, or no such field.
        answers = {"answers": entry["answers"]} if entry.get("answers") else {}
        yield [*positives, *others, *negatives], [question | answers]


def _stem(file: str) -> str:
    """Returns a file's name without suffixes, the prefix of ids for questions that have none."""
    return re.sub(r"(\.qa)?\.(jsonl?|ndjson|csv|tsv|parquet|pq)$", "", plain_name(file))


def qa_questions(file: str) -> Iterator[Row]:
    """Yields questions with answers and without passages; ids are the file's name and the row number."""
    if plain_name(file).endswith((".csv", ".tsv")) and not is_parquet(head(file, whole_line=False)):
        pairs = _answered_cells(file)
    else:
        pairs = ((row.get("question"), row.get("answer", row.get("answers"))) for row in rows_of(file))
    for number, (question, answers) in enumerate(pairs, 1):
        yield {"qid": f"{_stem(file)}-{number}", "question": question, "answers": answers}


def _answered_cells(file: str) -> Iterator[tuple[str, object]]:
    for line, row in cells(file, "\t"):
        place = f"{file} line {line}"
        answers = parse_list(row[-1], f"{place}: answers")
        if len(row) != 2 or not isinstance(answers, list):
            raise InputError(f"{place}: not DPR's question, tab and list of answers, as in who?\t['a', 'b']")
        yield row[0], answers


def _passages(entry: JsonObject, name: str, place: str) -> list[Row]:
    """Returns the passages that an entry at `place` has under a name. Raises InputError for anything else."""
    passages = entry.get(name)
    if name in ("pos", "neg", "negatives"):  # lists, in a cell too
        passages = parse_list(passages, f"{place}: {name}")
    if not isinstance(passages, list | None):
        if name.endswith(("_ctxs", "_passages")):  # under other names one may stand alone
            raise InputError(f"{place}: {name} is no list of passages")
        passages = [passages] if passages or not NEGATIVES.fullmatch(name) else []
    rows: list[Row] = []
    for passage in passages or ():
        if not isinstance(passage, dict):
            if name.endswith("_passages"):
                raise InputError(f"{place}: a passage in {name} that is no object with docid, title and text")
            passage = {"text": passage}
        id_ = next((passage[each] for each in PASSAGE_ID if passage.get(each) is not None), None)
        text = passage.get("text")
        if id_ is not None:
            id_ = id_text(id_, f"{place}: id of a passage")
        elif isinstance(text, str):
            id_ = text_id(text)
        else:
            raise InputError(f"{place}: a passage without text or id in {name}")
        rows.append({"id": id_, "title": passage.get("title"), "text": text})
    return rows
