"""Collections with questions and judgements in separate files: BEIR and MS MARCO.

MS MARCO's files have neither header nor quoting. Its triples are the ids of a question, a relevant passage and a given
negative. Triples of texts (`triples.train.*.tsv`) are refused: nothing says which passages of the corpus they are.
"""

import csv
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Literal

from multiview.data.questions import LARGEST_GRADE
from multiview.data.reading.columns import PASSAGE_COLUMNS
from multiview.data.reading.files import COMPRESSIONS, base_name, head, is_parquet, lines, plain_name
from multiview.data.reading.json_rows import rows_of
from multiview.data.reading.parquet import refuse_rounded
from multiview.data.reading.tables import Row
from multiview.data.reading.values import NUL, check_ids, id_text, is_nan
from multiview.errors import InputError, Report

Use = Literal["corpus", "train", "dev"]
SETTING: dict[Use, str] = {
    "corpus": "corpus.source",
    "train": "questions.source",
    "dev": "questions.dev_source",
}
SPLITS: dict[Use, tuple[str, ...]] = {"train": ("train",), "dev": ("dev.small", "dev", "validation", "test")}
"""Splits per use; the first one for which a collection has judgements is used."""
EVALUATION_WORDS = {"dev", "test", "valid", "validation", "val", "eval"}
"""Words in a file name that mark its questions as not for training."""

CORPORA = ("corpus.jsonl", "collection.tsv")
"""Names of the file of passages of a collection."""
FOLDERS = ("corpus", "queries", "qrels")
"""Folders of a collection's files, as mteb has them."""

JUDGED = (
    {"queryid", "qid", "topic", "topicid", "query"},
    {"corpusid", "docid", "docno", "pid", "passageid"},
    {"score", "relevance", "rel", "label", "grade"},
)
"""Names of the question, the passage and the grade in the header of judgements, in any case, with and without hyphens."""
REGRADED = "pairs judged more than once with different grades, the last one counts"
FORMS = "query-id corpus-id score, or qid 0 pid relevance"
INTEGER = re.compile(r"-?[0-9]{1,9}(\.0)?")
"""A grade."""
RUN = re.compile(r"\S+\s+Q0\s+\S+\s+[0-9]+\s+[0-9.eE+-]+\s+\S+\s*")
"""A line of a TREC run, which ranks passages instead of judging them."""


def marco_rows(file: str, name: str) -> Iterator[Row]:
    """Yields the id and text of each line of a TSV without header or quoting; `name` is `text` or `question`."""
    for number, line in lines(file):
        id_, tab, text = line.partition("\t")
        if not line.strip():
            continue
        if not tab or re.search(r"\r[^\t]*\t", text):  # old Macs end lines with \r
            line = "not MS MARCO's id and text, separated by a tab, and a line end"
            raise InputError(f"{file} line {number}: {line}")
        yield {"id" if name == "text" else "qid": id_, name: text}


def is_qrels(line: str) -> bool:
    """Whether a file that begins with this line holds judgements: under a header, or in TREC's four columns.

    A TREC run counts as well, so that it is later refused as a run.
    """
    cells = _cells(line)
    named = judges(cells) or judges(_cells(line, by_commas=True))
    return named or _is_trec(cells) or bool(RUN.fullmatch(line))


def _is_trec(cells: Sequence[str]) -> bool:
    return len(cells) == 4 and cells[1].upper() in ("0", "Q0") and bool(INTEGER.fullmatch(cells[3]))


def says_qrels(file: str) -> bool:
    """Whether a file's name or folder says that it holds judgements (qrels); it is then read as nothing else."""
    return "qrels" in plain_name(file) or folder_of(file) == "qrels"


def judged_columns(names: Sequence[str]) -> list[int]:
    """Returns the positions of question, passage and grade among up to four column names; empty if any is missing."""
    plain = [re.sub("[-_ ]", "", name.lower()) for name in names]
    places = [next((n for n, name in enumerate(plain) if name in known), -1) for known in JUDGED]
    return [] if -1 in places or len(names) > 4 else places


def judges(names: Sequence[str]) -> bool:
    """Whether the rows of such columns are judgements, rather than passages or questions with a topic and a label."""
    with_text = {"question", "text", *PASSAGE_COLUMNS["text"]}
    return bool(judged_columns(names)) and with_text.isdisjoint(map(str.lower, names))


def judgements(files: Iterable[str], report: Report) -> dict[str, dict[str, int]]:
    """Returns, per judged question, its relevant passages (grade above 0; maybe none) with grades, the highest first.

    If a pair is judged again with another grade, the last one counts, with a remark. Raises InputError for a line that
    is not a judgement.
    """
    judged: dict[str, dict[str, int]] = {}
    for file in files:
        for place, (qid, passage, relevance) in _judged_rows(file):
            if not INTEGER.fullmatch(relevance):
                fault = f"the grade {relevance!r:.80} is no whole number"
                raise InputError(f"{place}: not a judgement ({FORMS}): {fault}")
            if not (qid and passage):
                raise InputError(f"{place}: not a judgement ({FORMS}): an id is empty")
            check_ids((qid, passage), f"{place}: id")
            grades, grade = judged.setdefault(qid, {}), int(float(relevance))
            if grade > LARGEST_GRADE:
                raise InputError(f"{place}: grades go up to {LARGEST_GRADE:,}, not {grade:,}; rescale them")
            if grades.get(passage, grade) != grade:
                pair = f"question {qid} and passage {passage}"
                report.remark(REGRADED, f"{place}: {pair} have grade {grade}, and {grades[passage]} before")
            grades[passage] = grade
    return {
        qid: dict(sorted(((id_, n) for id_, n in grades.items() if n > 0), key=lambda graded: -graded[1]))
        for qid, grades in judged.items()
    }


def _judged_rows(file: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the place of each judgement, and its question, passage and grade, from Parquet, JSON objects or lines."""
    beginning = head(file, whole_line=False)
    if is_parquet(beginning) or beginning.lstrip().startswith(("{", "[")):
        if re.match(r"\s*\{\s*\n", beginning):
            raise InputError(f"{file} row 1: not a judgement ({FORMS}) but an object of several lines")
        kinds: set[tuple[int, type]] = set()
        for number, row in enumerate(rows_of(file), 1):
            values = list(row.values())
            found = [values[place] for place in judged_columns(list(row))]
            if number == 1 and is_parquet(beginning):
                refuse_rounded(file, [list(row)[place] for place in judged_columns(list(row))[:2]])
            if not found or any(
                isinstance(each, bool | list | dict | None) or is_nan(each) for each in found[:2]
            ):
                raise InputError(f"{file} row {number}: not a judgement ({FORMS})")
            kinds |= {(column, type(value)) for column, value in enumerate(found[:2])}
            if any(kinds >= {(column, int), (column, float)} for column in range(2)):
                raise InputError(f"{file} row {number}: ids like 1 and 1.0 are one id; write them as texts")
            yield f"{file} row {number}", [id_text(value, file) for value in found]
        return
    header, columns, by_commas = list[int](), 0, False
    for number, line in lines(file):
        cells = _cells(line, by_commas)
        three = "\t" in line and len(cells) == 3 and bool(INTEGER.fullmatch(cells[2]))
        is_judgement = _is_trec(cells) or three  # an id may begin with #
        if not any(cells) or (line.startswith("#") and not is_judgement):
            continue
        if named := judged_columns(cells) or ("," in line and judged_columns(_cells(line, by_commas=True))):
            header, columns, by_commas = named, len(_cells(line, by_commas="," in line)), "," in line
            continue
        places = header or ([0, 2, 3] if len(cells) == 4 else [0, 1, 2])
        too_many = any(cells[columns:]) if header else len(cells) not in (3, 4)
        if too_many or max(places) >= len(cells):
            kind = "a run's ranking, not a judgement" if RUN.fullmatch(line) else "not a judgement"
            raise InputError(f"{file} line {number}: {kind} ({FORMS})")
        yield f"{file} line {number}", [cells[place] for place in places]


def _cells(line: str, by_commas: bool = False) -> list[str]:
    """Returns the cells of a line of judgements, which tabs, commas or white space separate, stripped.

    `by_commas`: commas, if there are any, come before white space, as in the header above the line.
    """
    if "\t" in line:
        return [cell.strip() for cell in line.split("\t")]
    cells = [] if by_commas and "," in line else line.split()
    if len(cells) in (3, 4) and not cells[0].endswith(","):
        return cells
    return [cell.strip() for cell in next(csv.reader([line.replace("\r", " ")], skipinitialspace=True), [""])]


def is_corpus(file: str) -> bool:
    """Whether a file's name or folder is that of a collection's passages."""
    return plain_name(file) in CORPORA or folder_of(file) == "corpus"


def folder_of(file: str) -> str:
    """Returns the name of a file's folder."""
    return base_name(file.rpartition("/")[0])


def collection_files(names: Sequence[str], use: Use) -> list[str] | None:
    """Returns a collection's files for a use, from the names in its folder and its `FOLDERS`; None if it is none.

    Raises InputError if the collection lacks a file that the use needs.
    """
    qrels: dict[str, list[str]] = {}
    for name in names:
        if found := split_of(name):
            qrels.setdefault(found, []).append(name)
    corpus = [name for name in names if plain_name(name) in CORPORA][:1]
    queries = {plain_name(name): name for name in names if plain_name(name).startswith("queries.")}
    if not (corpus or queries):
        corpus, others = ([n for n in names if folder_of(n) == folder] for folder in FOLDERS[:2])
        corpus, queries = _of_splits(corpus, qrels), {plain_name(name): name for name in others}
    if not queries or not (corpus or qrels):
        return None
    if use == "corpus":
        if not corpus:
            raise InputError(f"{names[0]}: no corpus.jsonl or collection.tsv beside it")
        return corpus
    split = next((split for split in SPLITS[use] if split in qrels), None)
    if split is None:
        raise InputError(
            f"{qrels[min(qrels)][0] if qrels else names[0]}: the collection has no judgements of {' or '.join(SPLITS[use])} "
            f"({'only of ' + ', '.join(sorted(qrels)) if qrels else 'none'}); "
            f"name other questions as {SETTING[use]}"
        )
    candidates = (f"queries.{split}.tsv", "queries.jsonl", "queries.tsv")
    query_files = [queries[name] for name in candidates if name in queries][:1]
    return [*(query_files or _of_splits(queries.values(), {split})), *qrels[split]]


def of_use(files: list[str], use: Use) -> list[str]:
    """Returns the files of the first split that a use has, where each is named by a split; else all.

    Raises InputError where other names speak of training and of another split: their questions would be mixed.
    """
    of_splits = (_of_splits(files, {split}) for split in SPLITS[use])
    if found := next((found for found in of_splits if len(found) < len(files)), None):
        return found
    named = {named_use(file): file for file in reversed(files)}
    if use == "train" and {*named} == {"dev"}:
        raise InputError(
            f"{named['dev']}: not for training by its name, and nothing else is there; name the file as {SETTING[use]} if that "
            "is meant"
        )
    # Triples name the training questions by themselves.
    triples = use == "train" and any("triples" in plain_name(file) for file in files)
    if {*SPLITS} <= {*named} and not triples:
        raise InputError(
            f"{named['dev']}: a split beside {base_name(named['train'])}: name the files for {SETTING[use]}, not the "
            "folder, or name each by its split alone, as train.jsonl or test.jsonl"
        )
    return files


def named_use(file: str) -> Use | None:
    """Returns the use that a file's name speaks of, if any, as `nq-train.jsonl` or `my_test.jsonl`."""
    words = set(re.split(r"[^a-z]+", plain_name(file)))
    return "train" if "train" in words else "dev" if words & EVALUATION_WORDS else None


def _of_splits(files: Collection[str], splits: Collection[str]) -> list[str]:
    """Returns the files of the splits where each is named by a split, as `test-00000-of-00002.parquet` or
    `dev-v1.1.json`; else all."""
    named = {
        name: re.sub(r"(-v?[\d.]+(-of-\d+(-[0-9a-f]{16})?)?)?\.\w+$", "", plain_name(name)) for name in files
    }
    if not {*named.values()} <= {*splits, *SPLITS["train"], *SPLITS["dev"]}:
        return [*files]
    return [name for name in files if named[name] in splits] or [*files]


def names_beside(file: str, use: Use) -> list[str]:
    """Returns candidate paths of the passages or the queries for a BEIR `qrels/*.tsv`; none for other files."""
    if not (found := re.fullmatch(r"(|.*/)qrels/[^/]+", file, re.DOTALL)):
        return []
    neighbour = "corpus.jsonl" if use == "corpus" else "queries.jsonl"
    return [f"{found[1]}{neighbour}{suffix}" for suffix in ("", *COMPRESSIONS)]


def split_of(file: str) -> str:
    """Returns the split of a file of judgements, taken from its name; empty for other files."""
    named = re.fullmatch(
        r"(qrels\.)?(.+?)(-\d+-of-\d+(-[0-9a-f]{16})?)?\.(tsv|csv|txt|jsonl|parquet)", plain_name(file)
    )
    return named[2] if named and (named[1] or folder_of(file) == "qrels") else ""


MOST_NEGATIVES = 100
"""Negatives that are kept per question, the first ones of the files: MS MARCO's have up to a thousand."""
MORE_NEGATIVES = f"triples beyond the first {MOST_NEGATIVES} negatives of a question, left out"


def is_triples(file: str, line: str) -> bool:
    """Whether a file of this name that begins with this line holds triples."""
    return "triples" in plain_name(file) and line.count("\t") == 2


def read_triples(
    files: Iterable[str], report: Report
) -> tuple[dict[str, dict[str, int]], dict[str, list[str]]]:
    """Returns, by question, its relevant passages, each with grade 1, and its first `MOST_NEGATIVES` negatives.

    Raises InputError for a line that is not a triple of ids.
    """
    positives: dict[str, dict[str, int]] = {}
    negatives: dict[str, list[str]] = {}
    for file in files:
        for number, line in lines(file):
            if not line:
                continue
            cells = line.split("\t")
            if len(cells) != 3 or " " in line or not all(cells):
                raise InputError(
                    f"{file} line {number}: not three ids separated by tabs; where there are texts (triples.train.*.tsv), "
                    "name MS MARCO's qidpidtriples.*.tsv instead"
                )
            if NUL in line:
                check_ids(cells, f"{file} line {number}: id")
            qid, positive, negative = map(sys.intern, cells)
            positives.setdefault(qid, {})[positive] = 1
            kept = negatives.setdefault(qid, [])
            if negative not in kept and len(kept) < MOST_NEGATIVES:
                kept.append(negative)
            elif negative not in kept:
                report.remark(MORE_NEGATIVES, f"{file} line {number}: question {qid}")
    return positives, negatives
