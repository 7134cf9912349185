"""The split step, on small files of its own and on SQuAD where that is at hand."""

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.config import Corpus, Questions
from multiview.data.passages import (
    Passage,
    PassageLookup,
    content_hash,
    count_passages,
    read_passages,
    shard_files,
)
from multiview.data.questions import read_questions
from multiview.data.sentences import sentence_ends
from multiview.data.shards import shard_sizes
from multiview.data.split import fingerprint, split
from multiview.errors import InputError
from tests.recording import Recorder

OUTPUTS = ("passages", "train_questions", "dev_questions")


class Done:
    """One run of the step."""

    def __init__(self, folder: Path, corpus: Corpus, questions: Questions) -> None:
        self.tell = Recorder()
        self.output = {name: folder / name for name in OUTPUTS}
        for path in self.output.values():
            path.mkdir(parents=True)
        split(SimpleNamespace(corpus=corpus, questions=questions), {}, self.output, self.tell)
        self.passages = list(read_passages(self.output["passages"]))
        self.ids = [passage.id for passage in self.passages]
        self.train = read_questions(self.output["train_questions"])
        self.dev = read_questions(self.output["dev_questions"])

    def bytes(self) -> dict[str, bytes]:
        files = (file for path in self.output.values() for file in sorted(path.iterdir()))
        return {file.name + file.parent.name: file.read_bytes() for file in files}


def passage_rows(number: int) -> list[dict]:
    return [
        {
            "id": f"p{i}",
            "title": f"Title {i}",
            "text": f"Passage {i} is here. It says word{i}.",
            "year": 1900 + i,
        }
        for i in range(number)
    ]


def question_rows(name: str, number: int, passages: int) -> list[dict]:
    rows = []
    for i in range(number):
        text = f"Passage {i % passages} is here. It says word{i % passages}."
        answer = f"word{i % passages}"
        rows.append(
            {
                "qid": f"{name}{i}",
                "question": f"What does {i} say?",
                "answers": [answer],
                "answer_starts": [text.index(answer)],
                "positive_ids": [f"p{i % passages}"],
            }
        )
    return rows


def write(path: Path, rows: list[dict]) -> str:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


@pytest.fixture
def files(tmp_path) -> SimpleNamespace:
    """25 passages; 40 training questions about the first 20, 10 dev questions about the first 10."""
    return SimpleNamespace(
        corpus=write(tmp_path / "corpus.jsonl", passage_rows(25)),
        train=write(tmp_path / "train.jsonl", question_rows("t", 40, 20)),
        dev=write(tmp_path / "dev.jsonl", question_rows("d", 10, 10)),
    )


def settings(files: SimpleNamespace, **more) -> tuple[Corpus, Questions]:
    corpus = {name: more.pop(name) for name in list(more) if name in Corpus.model_fields and name != "seed"}
    return (
        Corpus(**{"source": files.corpus, "shards": 3, **corpus}),
        Questions(**{"source": files.train, "dev_source": files.dev, **more}),
    )


def test_passages_are_cut_in_order_into_nearly_equal_shards(tmp_path, files):
    done = Done(tmp_path / "out", *settings(files))
    assert done.ids == [f"p{i}" for i in range(25)]
    shards = shard_files(done.output["passages"])
    assert [file.name for file in shards] == ["shard-00.parquet", "shard-01.parquet", "shard-02.parquet"]
    assert [pq.read_metadata(file).num_rows for file in shards] == [9, 8, 8] == shard_sizes(25, 3)
    assert count_passages(done.output["passages"]) == 25


def test_a_shard_has_the_columns_of_the_contract_and_the_users_own(tmp_path, files):
    done = Done(tmp_path / "out", *settings(files))
    table = pq.read_table(shard_files(done.output["passages"])[0])
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
    assert done.passages[3] == Passage("p3", "Title 3", text, sentence_ends(text))


def test_questions_are_written_in_order_and_counts_told(tmp_path, files):
    done = Done(tmp_path / "out", *settings(files))
    assert [q.qid for q in done.train] == [f"t{i}" for i in range(40)]
    assert [q.qid for q in done.dev] == [f"d{i}" for i in range(10)]
    assert done.tell.facts == {
        "passages": 25,
        "train_questions": 40,
        "dev_questions": 10,
        "dropped_questions": 0,
        "avq": 2.0,
        "sentences_per_passage": 2.0,
    }
    assert {name: value for name, value, _ in done.tell.metrics} == done.tell.facts
    assert done.tell.steps[-1] == (25, 25, "passages") and done.tell.warnings == []


def test_equal_input_gives_equal_bytes_whatever_its_format(tmp_path, files):
    first = Done(tmp_path / "1", *settings(files)).bytes()
    assert Done(tmp_path / "2", *settings(files)).bytes() == first
    other = write(tmp_path / "corpus.parquet", passage_rows(25))
    assert Done(tmp_path / "3", Corpus(source=(other,), shards=3), settings(files)[1]).bytes() == first


def test_a_corpus_in_several_files_may_have_different_columns(tmp_path, files):
    write(tmp_path / "a.jsonl", [{"id": f"p{i}", "text": f"Same text. word{i}"} for i in range(10)])
    write(tmp_path / "b.parquet", [{"id": "z", "text": "Text.", "year": 7, "url": "u"}])
    train = write(
        tmp_path / "t.jsonl", [{**row, "answer_starts": None} for row in question_rows("t", 20, 10)]
    )
    corpus = Corpus(source=(str(tmp_path / "a.jsonl"), str(tmp_path / "b.parquet")), shards=2)
    done = Done(tmp_path / "out", corpus, Questions(source=(train,), dev_share=0.2))
    lookup = PassageLookup(done.output["passages"])
    rows = lookup.rows(["p1", "z"], ["year", "url"])
    assert rows == {"p1": {"id": "p1", "year": None, "url": None}, "z": {"id": "z", "year": 7, "url": "u"}}


def test_without_a_dev_source_passages_are_held_out(tmp_path, files):
    done = Done(tmp_path / "out", *settings(files, dev_source=(), dev_share=0.25))
    gold = {q.positive_ids[0] for q in done.dev}
    assert len(gold) == 5 and len(done.dev) == 10 and len(done.train) == 30
    assert not gold & {q.positive_ids[0] for q in done.train}


def test_limits_and_one_question_a_passage(tmp_path, files):
    done = Done(tmp_path / "1", *settings(files, limit=7, dev_limit=3))
    assert (len(done.train), len(done.dev), len(done.passages)) == (7, 3, 25)
    done = Done(tmp_path / "2", *settings(files, one_per_passage=True))
    assert (len(done.train), len(done.dev)) == (20, 10)  # dev questions stay


def test_keep_gold_keeps_passages_of_chosen_training_and_of_all_dev_questions(tmp_path, files):
    done = Done(tmp_path / "out", *settings(files, keep="gold", limit=4, dev_limit=2))
    gold = {q.positive_ids[0] for q in done.train} | {f"p{i}" for i in range(10)}
    assert done.ids == [f"p{i}" for i in range(25) if f"p{i}" in gold]
    assert len(done.dev) == 2


def test_questions_without_a_gold_passage_are_dropped_and_counted(tmp_path, files):
    files.train = write(tmp_path / "t.jsonl", question_rows("t", 27, 27))  # two passages too many
    done = Done(tmp_path / "out", *settings(files))
    assert len(done.train) == 25 and done.tell.facts["dropped_questions"] == 2
    assert done.tell.warnings and "2 questions were dropped" in done.tell.warnings[0]
    with pytest.raises(InputError, match=r"questions\.source: .* 2 of 27 .*first: question t25, passage p25"):
        Done(tmp_path / "no", *settings(files, max_missing_gold=0.05))


def test_a_question_of_both_sets_is_told(tmp_path, files):
    done = Done(tmp_path / "out", *settings(files, dev_source=(files.train,)))
    assert any("40 dev questions are training questions too" in text for text in done.tell.warnings)


# --- SQuAD's own form ---


def squad(path: Path, *paragraphs: tuple[str, str], name: str = "q") -> str:
    articles = [
        {
            "title": title,
            "paragraphs": [
                {
                    "context": text,
                    "qas": [
                        {
                            "id": f"{name}{i}",
                            "question": "Which?",
                            "answers": [{"text": text[:3], "answer_start": 0}],
                        }
                    ],
                }
            ],
        }
        for i, (title, text) in enumerate(paragraphs)
    ]
    path.write_text(json.dumps({"version": "1.1", "data": articles}))
    return str(path)


def test_squad_brings_its_passages_each_once(tmp_path):
    train = squad(tmp_path / "train.json", ("A_b", "One text."), ("C", "Two texts."), ("A_b", "One text."))
    dev = squad(tmp_path / "dev.json", ("C", "Two texts."), ("D", "Three texts."), name="d")
    done = Done(tmp_path / "out", Corpus(shards=1), Questions(source=(train,), dev_source=(dev,)))
    assert [(p.title, p.text) for p in done.passages] == [
        ("A b", "One text."),
        ("C", "Two texts."),
        ("D", "Three texts."),
    ]
    assert done.train[0].positive_ids == done.train[2].positive_ids == (done.ids[0],)


# --- what is wrong ---


def fails(tmp_path: Path, message: str, corpus: Corpus, questions: Questions) -> None:
    with pytest.raises(InputError, match=message) as error:
        Done(tmp_path / "failed", corpus, questions)
    assert "\n" not in str(error.value)
    assert not [file for file in (tmp_path / "failed").rglob("*") if file.is_file()], "nothing is written"


def test_an_id_used_twice_names_both_rows(tmp_path, files):
    other = write(tmp_path / "more.jsonl", [{"id": "z", "text": "x"}, {"id": "p4", "text": "y"}])
    corpus, questions = settings(files)
    fails(
        tmp_path,
        r"more\.jsonl row 2: passage id 'p4' .* corpus\.jsonl row 5",
        Corpus(source=(files.corpus, other)),
        questions,
    )
    files.train = write(tmp_path / "t.jsonl", [question_rows("t", 1, 1)[0]] * 2)
    fails(tmp_path / "q", r"t\.jsonl row 2: question id 't0' .* t\.jsonl row 1", corpus, settings(files)[1])


def test_empty_text_or_id_names_the_row(tmp_path, files):
    questions = settings(files)[1]
    for row, message in (
        ({"id": "z", "text": " \n"}, "row 2: passage 'z' has no text"),
        ({"id": "", "text": "x"}, "row 2: .* id is empty"),
    ):
        bad = write(tmp_path / "bad.jsonl", [passage_rows(1)[0], row])
        fails(tmp_path / row["id"], message, Corpus(source=(bad,)), questions)


def test_an_empty_corpus(tmp_path, files):
    empty = write(tmp_path / "empty.jsonl", [])
    fails(tmp_path, r"empty\.jsonl: no passages", Corpus(source=(empty,)), settings(files)[1])
    fails(
        tmp_path / "q",
        r"empty\.jsonl: no questions",
        Corpus(source=(files.corpus,)),
        Questions(source=(empty,)),
    )


@pytest.mark.parametrize("shift", [1, -1, 1000, -100])
def test_an_offset_that_does_not_fit_says_what_stands_there(tmp_path, files, shift):
    rows = question_rows("t", 3, 3)
    rows[2]["answer_starts"][0] += shift
    files.train = write(tmp_path / "t.jsonl", rows)
    fails(tmp_path, r"question t2: answer 'word2' should stand at .* of passage p2", *settings(files))


def test_a_negative_offset_does_not_count_from_the_end(tmp_path, files):
    rows = question_rows("t", 1, 1)
    rows[0]["answer_starts"] = [-len("word0.")]
    files.train = write(tmp_path / "t.jsonl", rows)
    fails(tmp_path, r"question t0: answer 'word0' should stand at -6", *settings(files))


def test_fewer_passages_than_shards(tmp_path, files):
    fails(tmp_path, r"corpus\.shards=26: there are only 25", *settings(files, shards=26))


def test_no_source_of_passages_or_questions(tmp_path, files):
    fails(tmp_path, r"corpus\.source: name the passages; train\.jsonl", Corpus(), settings(files)[1])
    fails(tmp_path / "q", r"questions\.source", settings(files)[0], Questions())


def test_a_column_of_two_types(tmp_path, files):
    other = write(tmp_path / "more.jsonl", [{"id": "z", "text": "x", "year": ["a"]}])
    fails(tmp_path, r"more\.jsonl: a column's type", Corpus(source=(files.corpus, other)), settings(files)[1])


def test_the_data_of_a_language_are_looked_for_first(tmp_path, files):
    fails(tmp_path, "corpus.language=klingon", *settings(files, language="klingon"))


def test_the_key_sees_content_and_no_place(tmp_path, files):
    before = fingerprint(SimpleNamespace(**dict(zip(("corpus", "questions"), settings(files), strict=True))))
    (tmp_path / "moved").mkdir()
    moved = SimpleNamespace(
        **{n: str(Path(f).rename(tmp_path / "moved" / Path(f).name)) for n, f in vars(files).items()}
    )
    after = fingerprint(SimpleNamespace(**dict(zip(("corpus", "questions"), settings(moved), strict=True))))
    assert before == after and str(tmp_path) not in json.dumps(before)
    Path(moved.corpus).write_text("")
    assert (
        fingerprint(SimpleNamespace(**dict(zip(("corpus", "questions"), settings(moved), strict=True))))
        != before
    )


# --- looking passages up ---


def test_lookup_reads_passages_by_id_over_shards_and_row_groups(tmp_path):
    corpus = write(tmp_path / "c.parquet", passage_rows(2500))
    train = write(tmp_path / "t.jsonl", question_rows("t", 20, 20))
    done = Done(tmp_path / "out", Corpus(source=(corpus,), shards=2), Questions(source=(train,)))
    assert [pq.read_metadata(f).num_row_groups for f in shard_files(done.output["passages"])] == [2, 2]
    (done.output["passages"] / "stray.txt").write_text("not a shard")
    lookup = PassageLookup(done.output["passages"])
    assert len(lookup) == 2500
    asked = ["p2499", "p0", "p999", "p1000", "p1249", "p1250", "p0"]
    by_id = {passage.id: passage for passage in done.passages}
    assert lookup.passages(asked) == {id_: by_id[id_] for id_ in asked}
    assert lookup.texts(["p7"]) == {"p7": ("Title 7", "Passage 7 is here. It says word7.")}
    assert lookup.passages([]) == {}
    with pytest.raises(InputError, match=r"1 of 2 passages .*'nobody'"):
        lookup.passages(["p1", "nobody"])


def test_no_shards(tmp_path):
    with pytest.raises(InputError, match="no shards"):
        list(read_passages(tmp_path))


# --- real data ---


@pytest.fixture(scope="module")
def data() -> Path:
    folder = Path(os.environ.get("MULTIVIEW_DATA") or Path(__file__).parents[3] / "shared" / "data") / "squad"
    if not folder.is_dir():
        pytest.skip("no SQuAD here: MULTIVIEW_DATA names no folder with squad/ in it")
    return folder


def test_squads_json_and_parquet_forms_are_one_and_the_same(tmp_path, data):
    json_form = Questions(source=(str(data / "rebuilt/dev-v1.1.rebuilt.json.gz"),), dev_share=0.5)
    from_json = Done(tmp_path / "json", Corpus(shards=2), json_form)
    parquet_form = Questions(
        source=(str(data / "dev.parquet"),), columns={"positive_ids": "positive_passage_id"}, dev_share=0.5
    )
    corpus = Corpus(source=(str(data / "passages.parquet"),), keep="gold", shards=2)
    from_parquet = Done(tmp_path / "parquet", corpus, parquet_form)
    assert len(from_json.passages) == 2067
    assert len(from_json.train) + len(from_json.dev) == 10_570
    assert from_json.train == from_parquet.train and from_json.dev == from_parquet.dev
    assert set(from_json.passages) == set(from_parquet.passages)
