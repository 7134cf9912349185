"""The split step, on small files of its own."""

import json
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.config import Config, Corpus, Questions
from multiview.data.inspection import inspect
from multiview.data.passages import (
    Passage,
    PassageRows,
    content_hash,
    count_passages,
    shard_files,
)
from multiview.data.question_selection import UNKNOWN_POSITIVES
from multiview.data.reading.readers import UNKNOWN_JUDGED
from multiview.data.sentences import sentence_ends
from multiview.data.split import sources_fingerprint
from multiview.errors import InputError
from tests.fixtures.format_files import put
from tests.fixtures.split_run import Done, passage_rows, question_rows, settings, small_files, write


@pytest.fixture(scope="module")
def usual(tmp_path_factory) -> Done:
    """The split of the small files."""
    folder = tmp_path_factory.mktemp("usual")
    return Done(folder / "out", *settings(small_files(folder)))


def test_passages_are_cut_in_order_into_shards_of_nearly_equal_length(usual):
    assert usual.ids == [f"p{i}" for i in range(25)]
    shards = shard_files(usual.output["passages"])
    assert [file.name for file in shards] == ["shard-00.parquet", "shard-01.parquet", "shard-02.parquet"]
    assert [pq.read_metadata(file).num_rows for file in shards] == [9, 8, 8]
    assert count_passages(usual.output["passages"]) == 25


@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
@pytest.mark.parametrize("cores", ["1", "2"])
def test_equal_input_gives_equal_bytes_whatever_its_format_and_on_any_number_of_cores(
    tmp_path, files, monkeypatch, usual, suffix, cores
):
    """With several, other processes have begun with the first passages before the questions are read."""
    monkeypatch.setenv("OMP_NUM_THREADS", cores)
    files.corpus = write(tmp_path / f"same.{suffix}", passage_rows(25))
    assert Done(tmp_path / "out", *settings(files)).bytes() == usual.bytes()


def test_the_first_fault_that_is_told_is_that_of_the_questions_on_any_number_of_cores(
    tmp_path, files, monkeypatch
):
    """Passages that were read ahead, to begin with them, have one too."""
    files.corpus = write(tmp_path / "corpus.parquet", [{"id": "p0", "text": ["no text"]}])
    write(Path(files.train), [{"qid": "t0", "question": ""}])
    for cores in ("1", "2"):
        monkeypatch.setenv("OMP_NUM_THREADS", cores)
        with pytest.raises(InputError, match="train"):
            Done(tmp_path / cores, *settings(files))


def test_a_shard_has_the_columns_of_the_contract_and_the_users_own(usual):
    table = pq.read_table(shard_files(usual.output["passages"])[0])
    assert table.schema.names == ["id", "title", "text", "sentence_ends", "content_hash", "year"]
    assert table.schema.field("sentence_ends").type == pa.list_(pa.int32())
    row = table.to_pylist()[3]
    text = "Passage 3 is here. It says word3."
    assert row == {
        "id": "p3",
        "title": "Title 3",
        "text": text,
        "sentence_ends": [19, len(text)],
        "content_hash": content_hash("Title 3", text),
        "year": 1903,
    }
    assert usual.passages[3] == Passage("p3", "Title 3", text, sentence_ends(text))


def test_questions_are_written_in_order_and_counts_reported(usual):
    done, facts = usual, dict(usual.events.facts)
    assert [q.qid for q in done.train] == [f"t{i}" for i in range(40)]
    assert [q.qid for q in done.dev] == [f"d{i}" for i in range(10)]
    assert facts.pop("nltk") == version("nltk"), "sentences are split as it does"
    assert facts.pop("columns") == {"year": "int64"}
    assert facts == {
        "passages": 25,
        "train_questions": 40,
        "dev_questions": 10,
        "dropped_questions": 0,
        "questions_without_gold": 0,
        "questions_with_lost_answers": 0,
        "questions_without_held_answers": 0,
        "moved_answers": 0,
        "passages_without_text": 0,
        "unknown_positives": 0,
        "unknown_judged_questions": 0,
        "avq": 2.0,
        "sentences_per_passage": 2.0,
    }
    assert {name: value for name, value, _ in done.events.metrics} == facts
    assert done.events.steps[-1] == (25, 25, "passages") and done.events.warnings == []


def test_a_corpus_in_several_files_may_have_different_columns(tmp_path, files):
    write(tmp_path / "a.jsonl", [{"id": f"p{i}", "text": f"Same text. word{i}"} for i in range(10)])
    write(tmp_path / "b.parquet", [{"id": "z", "text": "Text.", "year": 7, "url": "u"}])
    train = write(
        tmp_path / "t.jsonl", [{**row, "answer_starts": None} for row in question_rows("t", 20, 10)]
    )
    corpus = Corpus(source=(str(tmp_path / "a.jsonl"), str(tmp_path / "b.parquet")), shards=2)
    done = Done(tmp_path / "out", corpus, Questions(source=(train,), dev_share=0.2))
    rows = PassageRows(shard_files(done.output["passages"])).records([1, 10])
    assert [(row["id"], row["year"], row["url"]) for row in rows.values()] == [
        ("p1", None, None),
        ("z", 7, "u"),
    ]


def test_without_a_dev_source_passages_are_held_out(tmp_path, files):
    done = Done(tmp_path / "out", *settings(files, dev_source=(), dev_share=0.25))
    gold = {q.positive_ids[0] for q in done.dev}
    assert len(gold) == 5 and len(done.dev) == 10 and len(done.train) == 30
    assert not gold & {q.positive_ids[0] for q in done.train}


def test_limits_one_question_a_passage_and_gold_passages_alone(tmp_path, files):
    done = Done(tmp_path / "1", *settings(files, limit=7, dev_limit=3))
    assert (len(done.train), len(done.dev), len(done.passages)) == (7, 3, 25)
    done = Done(tmp_path / "2", *settings(files, one_per_passage=True))
    assert (len(done.train), len(done.dev)) == (20, 10)  # dev questions stay
    done = Done(tmp_path / "3", *settings(files, keep="gold", limit=4, dev_limit=2))
    gold = {q.positive_ids[0] for q in done.train} | {f"p{i}" for i in range(10)}  # of all dev questions
    assert done.ids == [f"p{i}" for i in range(25) if f"p{i}" in gold]
    assert len(done.dev) == 2


def test_judgements_of_what_is_not_there_are_counted_and_reported(tmp_path, files):
    """Of a question's three positives one is not in the corpus, and one judged question is not among them."""
    queries = put(tmp_path / "queries.tsv", "q1\twho?\nq2\twhat?\n")
    qrels = put(
        tmp_path / "qrels.tsv", "q1 0 p1 1\nq1 0 gone 3\nq1 0 p2 2\nq1 0 far 0\nq2 0 p3 1\nq3 0 p3 1\n"
    )
    corpus, asked = settings(files, dev_source=(queries, qrels))
    done = Done(tmp_path / "out", corpus, asked)
    assert [q.grades for q in done.dev] == [{"p2": 2, "p1": 1}, {"p3": 1}]
    assert done.events.facts["unknown_positives"] == 1 and done.events.facts["unknown_judged_questions"] == 1
    assert done.events.warnings == [
        "judged questions that are in no file of questions: 1, the first: "
        "qrels.tsv: no file of questions has 'q3'",
        "gold passages that are not in the corpus, of questions that have others, left out: 1, the first: "
        "question q1, passage gone",
    ]
    config = Config.model_validate({"corpus": corpus.model_dump(), "questions": asked.model_dump()})
    found = inspect(config, lambda number: None)
    assert not found.problems.counts and found.remarks.counts == {UNKNOWN_JUDGED: 1, UNKNOWN_POSITIVES: 1}
    put(tmp_path / "qrels.tsv", "q1 0 gone 1\nq2 0 away 1\n")
    with pytest.raises(
        InputError, match=r"questions\.dev_source: the gold passages of 2 of 2 questions are not"
    ):
        Done(tmp_path / "none", corpus, asked)


def test_questions_without_a_gold_passage_are_dropped_and_counted(tmp_path, files):
    files.train = write(tmp_path / "t.jsonl", question_rows("t", 27, 27))  # two passages too many
    done = Done(tmp_path / "out", *settings(files))
    assert len(done.train) == 25 and done.events.facts["dropped_questions"] == 2
    assert done.events.warnings == [
        "questions whose gold passages are not in the corpus, left out: 2, the first: question t25, passage p25"
    ]
    with pytest.raises(
        InputError, match=r"questions\.source: .* 2 of 27 .*first: question t25, passage 'p25'"
    ):
        Done(tmp_path / "no", *settings(files, max_missing_gold=0.05))
    gone = [row | {"positive_ids": ["p30"]} for row in question_rows("t", 3, 3)]
    files.train = write(tmp_path / "none.jsonl", gone)
    with pytest.raises(InputError, match=r" 3 of 3 .*; mend the ids$"):
        Done(tmp_path / "none", *settings(files, max_missing_gold=1.0))


def test_questions_that_name_no_gold_passage_are_left_out_whatever_their_share(tmp_path, files):
    """DPR's files have many: TriviaQA's a fifth."""
    rows = [
        {
            "question": f"What does {i} say?",
            "answers": [f"word{i}"],
            "positive_ctxs": [{"psg_id": f"p{i}"}] if i % 2 else [],
        }
        for i in range(20)
    ]
    files.train = str(tmp_path / "biencoder.json")
    Path(files.train).write_text(json.dumps(rows))
    done = Done(tmp_path / "out", *settings(files))
    assert len(done.train) == 10 and done.events.facts["questions_without_gold"] == 10
    assert done.events.facts["dropped_questions"] == 0
    line = "training questions without a gold passage, left out: 10, the first: question biencoder-1"
    assert line in done.events.warnings


def test_passages_without_text_are_left_out_or_have_their_title(tmp_path, files):
    more = write(
        tmp_path / "more.jsonl",
        [
            {"id": "e", "title": "Only a title", "text": ""},
            {"id": "n", "title": "", "text": None},
            {"id": "n", "title": "", "text": "Later."},
        ],
    )
    corpus, asked = settings(files, source=(files.corpus, more), empty_text="drop", shards=1)
    done = Done(tmp_path / "drop", corpus, asked)
    assert done.ids[25:] == ["n"] and done.passages[-1].text == "Later."
    assert done.events.facts["passages_without_text"] == 2
    more = write(tmp_path / "more.jsonl", [{"id": "e", "title": "Only a title", "text": " "}])
    done = Done(tmp_path / "title", corpus.model_copy(update={"empty_text": "title"}), asked)
    assert (done.passages[-1].title, done.passages[-1].text) == ("", "Only a title")


def test_other_questions_of_the_same_ids_are_not_reported(tmp_path, files):
    """Ids that count from 1, and those of DPR's files, which hold none."""
    rows = [row | {"question": f"And {row['question']}"} for row in question_rows("t", 40, 20)]
    done = Done(
        tmp_path / "out", *settings(files, dev_source=(write(tmp_path / "dev" / "train.jsonl", rows),))
    )
    assert {q.qid for q in done.dev} == {q.qid for q in done.train} and not done.events.warnings


def test_the_key_sees_content_and_no_place(tmp_path, files):
    def fingerprint(files: SimpleNamespace) -> dict:
        return sources_fingerprint(
            Config.partial(dict(zip(("corpus", "questions"), settings(files), strict=True)))
        )

    before = fingerprint(files)
    (tmp_path / "moved").mkdir()
    moved = SimpleNamespace(
        **{n: str(Path(f).rename(tmp_path / "moved" / Path(f).name)) for n, f in vars(files).items()}
    )
    assert fingerprint(moved) == before and str(tmp_path) not in json.dumps(before)
    Path(moved.corpus).write_text("")
    assert fingerprint(moved) != before


def test_given_negatives_are_kept_where_they_are_wanted(tmp_path, files):
    corpus, asked = settings(files)
    rows = question_rows("t", 40, 20)
    rows[0]["negative_ids"], rows[1]["negative_ids"] = ["p7", "p24", "gone", "p7"], ["gone"]
    source = write(tmp_path / "negatives" / "train.jsonl", rows)
    done = {}
    for wanted in ("bm25", "given", "both"):
        section = asked.model_copy(update={"source": (source,), "hard_negatives": wanted})
        done[wanted] = Done(tmp_path / wanted, corpus, section)
    for wanted in ("given", "both"):
        assert [q.negative_ids for q in done[wanted].train][:2] == [("p7", "p24"), ()]
        line = "given negatives that are not in the corpus, left out: 2, the first: question t0, passage gone"
        assert line in done[wanted].events.warnings
    assert not any(q.negative_ids for q in done["bm25"].train)
    unused = "given negatives of training questions, not used with questions.hard_negatives=bm25: 2"
    [warning] = done["bm25"].events.warnings
    assert warning.startswith(unused)
    without = Done(tmp_path / "without", corpus, asked)
    assert done["bm25"].bytes() == without.bytes(), "a file without them is as it was"

    gold = corpus.model_copy(update={"keep": "gold"})
    section = asked.model_copy(update={"source": (source,), "hard_negatives": "given"})
    assert set(Done(tmp_path / "gold", gold, section).ids) - set(Done(tmp_path / "g", gold, asked).ids) == {
        "p24"
    }


def test_a_corpus_without_questions_is_split_where_questions_are_made(tmp_path, files, usual):
    done = Done(tmp_path / "made", settings(files)[0], Questions(origin="crop"))
    assert done.train == done.dev == []
    assert done.passages == usual.passages and done.events.warnings == []
