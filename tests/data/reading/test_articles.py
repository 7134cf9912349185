"""Articles cut into passages, and questions about articles that find their passages."""

import gzip
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import Corpus, JsonObject, Questions
from multiview.data.passages import PassageRows, shard_files
from multiview.data.reading.articles import by_sentences, by_words, text_articles
from multiview.data.reading.training_files import text_id
from multiview.data.sentences import sentence_ends
from multiview.errors import InputError
from tests.fixtures.split_run import Done, write

TEXTS = st.text(alphabet=st.sampled_from("aB.!?\n\u00a0 é"), max_size=200)


@settings(deadline=None)  # the splitter is loaded first
@given(TEXTS, st.integers(1, 6), st.sampled_from(["words", "sentences"]))
def test_words_are_cut_as_dpr_cuts_them_and_sentences_packed_and_cut_only_when_too_long(text, length, how):
    ends = sentence_ends(text)
    spans = by_words(text, length) if how == "words" else by_sentences(text, ends, length)
    begun = [[m[0] for m in re.finditer(r"\S+", text) if a <= m.start() < b] for a, b in pairwise((0, *ends))]
    packed: list[list[str]] = [[]]
    for words in [text.split()] if how == "words" else begun:
        if len(packed[-1]) + len(words) > length:
            packed.append([])
        packed[-1] += words
    pieces = [group[i : i + length] for group in packed for i in range(0, len(group), length)]
    passages = [text[start:stop] for start, stop in spans]
    assert [passage.split() for passage in passages] == pieces
    assert all(passage == passage.strip() for passage in passages)


ARTICLE = (
    "Ada was born in 1815. She wrote to Babbage.\r\nIn 1843 she wrote notes.  They are famous. She died."
)


@pytest.fixture
def articles(tmp_path) -> str:
    folder = tmp_path / "articles"
    folder.mkdir()
    (folder / "Ada_Lovelace.txt").write_bytes(b"\xef\xbb\xbf" + ARTICLE.encode())
    (folder / "Zürich.txt").write_text("Zürich is a city. It lies by a lake.")
    return str(folder)


def asked(tmp_path, *rows: dict, gold: str = "Zürich-0") -> tuple[str, str]:
    base = {"qid": "q", "question": "Who?"}
    dev = {**base, "qid": "d", "answers": ["lake"], "positive_ids": gold}
    train = write(tmp_path / "t.jsonl", [{**base, "qid": str(i), **row} for i, row in enumerate(rows)])
    return train, write(tmp_path / "d.jsonl", [dev])


def write_squad(path: Path, *paragraphs: JsonObject) -> str:
    path.write_text(json.dumps({"data": [{"paragraphs": list(paragraphs)}]}))
    return str(path)


def test_a_folder_of_texts_is_cut_into_passages_of_100_words(tmp_path, articles):
    train, dev = asked(tmp_path, {"answers": ["1815"], "positive_ids": "Ada_Lovelace-0"})
    done = Done(
        tmp_path / "out", Corpus(source=(articles,), shards=1), Questions(source=(train,), dev_source=(dev,))
    )
    assert done.ids == ["Ada_Lovelace-0", "Zürich-0"]
    assert done.passages[0].title == "Ada Lovelace" and done.passages[0].text == ARTICLE.replace("\r\n", "\n")


@pytest.mark.parametrize(
    ("name", "id_"),
    [
        ("İstanbul.txt", "İstanbul"),  # of which lower case has a letter more
        ("İzmir.TXT.gz", "İzmir"),
        ("a.txt.txt", "a.txt"),
        ("notes", "notes"),
    ],
)
def test_an_article_s_id_is_its_file_s_name(tmp_path, name, id_):
    content = b"It is old."
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    (article,) = text_articles(str(tmp_path / name))
    assert article == {"id": id_, "title": id_, "text": "It is old."}


def test_questions_about_an_article_find_the_passages_that_hold_their_answer(tmp_path, articles):
    text = ARTICLE.replace("\r\n", "\n")
    train, dev = asked(
        tmp_path,
        {"answers": ["wrote"], "positive_ids": "Ada_Lovelace", "relevance": 2},  # in two passages
        {"answers": ["wrote"], "positive_ids": "Ada_Lovelace", "answer_starts": text.rindex("wrote")},
        {"answers": ["nothing"], "positive_ids": "Ada_Lovelace"},
    )
    corpus = Corpus(source=(articles,), cut="sentences", cut_length=9, shards=1)
    questions = Questions(source=(train,), dev_source=(dev,), max_missing_gold=0.5)
    done = Done(tmp_path / "out", corpus, questions)
    found = PassageRows(shard_files(done.output["passages"])).records(range(len(done.ids)))
    rows = {row["id"]: row for row in found.values()}
    assert [rows[id_]["text"] for id_ in done.ids[:3]] == [
        "Ada was born in 1815. She wrote to Babbage.",
        "In 1843 she wrote notes.  They are famous.",
        "She died.",
    ]
    for id_ in done.ids[:3]:
        start = rows[id_]["article_start"]
        assert text[start:].startswith(rows[id_]["text"]) and rows[id_]["article_id"] == "Ada_Lovelace"
    assert [(q.positive_ids, q.answer_starts) for q in done.train] == [
        (("Ada_Lovelace-0", "Ada_Lovelace-1"), None),
        (("Ada_Lovelace-1", "Ada_Lovelace-0"), None),
    ]
    assert done.train[0].relevance == (2, 2), "the article's grade is that of both"
    assert done.events.facts["dropped_questions"] == 1


def test_an_article_that_is_called_like_a_piece_of_another_is_refused_where_questions_name_it(tmp_path):
    """Its answer would be looked for in the other one's piece, or that one taken for gold."""
    rows = [{"id": "r", "text": "one two three"}, {"id": "r-1", "text": "four"}]
    corpus = Corpus(source=(write(tmp_path / "p.jsonl", rows),), cut="words", cut_length=2, shards=1)
    train, dev = asked(tmp_path, {"answers": ["yes"], "positive_ids": "r-1"}, gold="r-0")
    questions = Questions(source=(train,), dev_source=(dev,), free_answers=True)
    with pytest.raises(InputError, match=r"piece 2: 'r-1' is also the id of an article that questions name"):
        Done(tmp_path / "out", corpus, questions)
    train, dev = asked(tmp_path, {"answers": ["four"], "positive_ids": "r-1-0"}, gold="r-0")
    again = Done(tmp_path / "again", corpus, Questions(source=(train,), dev_source=(dev,), free_answers=True))
    assert again.ids == ["r-0", "r-1", "r-1-0"]


def test_long_texts_of_a_table_are_cut_when_asked(tmp_path):
    rows = [{"id": "a", "text": "one two three four five", "year": 7}, {"id": "b", "text": "six"}]
    table = write(tmp_path / "p.jsonl", rows)
    train, dev = asked(tmp_path, {"answers": ["three"], "positive_ids": "a-1"}, gold="b-0")
    questions = Questions(source=(train,), dev_source=(dev,), free_answers=True)
    done = Done(tmp_path / "out", Corpus(source=(table,), cut="words", cut_length=2, shards=1), questions)
    assert [(p.id, p.text) for p in done.passages] == [
        ("a-0", "one two"),
        ("a-1", "three four"),
        ("a-2", "five"),
        ("b-0", "six"),
    ]


def test_long_paragraphs_in_squads_form_are_cut_and_their_questions_find_the_part_at_the_offset(tmp_path):
    """As COVID-QA has them: one paragraph per article, and answers by their offset in it."""
    context = "A virus spreads. It is small. A virus mutates. It is new."
    answer = {"text": "virus", "answer_start": context.rindex("virus")}
    asked = {"id": 262, "question": "What mutates?", "answers": [answer], "is_impossible": False}
    squad = write_squad(tmp_path / "s.json", {"context": context, "document_id": 630, "qas": [asked]})
    again = write_squad(tmp_path / "again.json", {"context": context, "qas": [{**asked, "id": 263}]})
    corpus = Corpus(cut="sentences", cut_length=6, shards=1)
    done = Done(tmp_path / "out", corpus, Questions(source=(squad,), dev_source=(again,)))
    assert [p.text for p in done.passages] == ["A virus spreads. It is small.", "A virus mutates. It is new."]
    article = text_id(context)
    assert done.ids == [f"{article}-0", f"{article}-1"]
    assert [q.positive_ids for q in (*done.train, *done.dev)] == [(done.ids[1],)] * 2


def test_passages_that_come_with_training_questions_are_not_cut(tmp_path):
    passage = {"title": "T", "text": "A b.", "passage_id": "1"}
    dpr = {"question": "?", "answers": ["A"], "positive_ctxs": [passage], "negative_ctxs": []}
    file = tmp_path / "d.json"
    file.write_text(json.dumps([{**dpr, "hard_negative_ctxs": []}]))
    with pytest.raises(
        InputError, match=r"corpus\.cut=words: d\.json holds passages that are cut already, .*=none"
    ):
        Done(tmp_path / "no", Corpus(cut="words"), Questions(source=(str(file),)))


def test_a_wrong_offset_into_an_article_and_an_answer_that_was_cut_are_told_apart(tmp_path, articles):
    text = ARTICLE.replace("\r\n", "\n")
    corpus = Corpus(source=(articles,), cut="words", cut_length=3, shards=1)

    def fails(message: str, **row) -> None:
        train, dev = asked(tmp_path, {"positive_ids": "Ada_Lovelace", **row}, gold="Zürich-3")
        questions = Questions(source=(train,), dev_source=(dev,))
        with pytest.raises(InputError, match=message):
            Done(tmp_path / str(len(list(tmp_path.iterdir()))), corpus, questions)

    wrong = text.rindex("wrote") + 1
    train, dev = asked(
        tmp_path,
        {"positive_ids": "Ada_Lovelace", "answers": ["wrote"], "answer_starts": wrong},
        gold="Zürich-0",
    )
    done = Done(tmp_path / "moved", corpus, Questions(source=(train,), dev_source=(dev,), free_answers=True))
    assert set(done.train[0].positive_ids) == {p.id for p in done.passages if "wrote" in p.text.split()}
    (warning,) = (line for line in done.events.warnings if "not at its offset" in line)
    assert "answer 'wrote' should stand at" in warning and "of article Ada_Lovelace, where 'rote" in warning
    message = "no passage that article Ada_Lovelace was cut into holds its answer whole"
    fails(message, answers=["absent"], answer_starts=wrong)
    fails(message, answers=["famou"], answer_starts=wrong)
    for starts in (None, text.index("born in")):  # on both sides of a cut
        fails(message, answers=["born in"], answer_starts=starts)


@pytest.mark.parametrize("other", ["king", "king z", "a b king"])
def test_an_offset_is_of_the_first_gold_article_and_any_piece_with_the_answer_is_of_the_others(
    tmp_path, other
):
    corpus = write(tmp_path / "p.jsonl", [{"id": "a", "text": "a b king d"}, {"id": "b", "text": other}])
    train, _ = asked(tmp_path, {"answers": ["king"], "answer_starts": [4], "positive_ids": ["a", "b"]})
    dev = write(tmp_path / "d.jsonl", [{"qid": "d", "question": "?", "positive_ids": "b"}])
    cut = Corpus(source=(corpus,), cut="words", cut_length=2, shards=1)
    done = Done(tmp_path / "out", cut, Questions(source=(train,), dev_source=(dev,)))
    assert done.train[0].positive_ids == ("a-1", f"b-{len(other.split()) // 3}")
    assert not done.events.warnings and done.events.facts["moved_answers"] == 0


@pytest.mark.parametrize("moved", [0, 1])
def test_questions_of_both_sets_that_share_an_id_find_their_own_passages(tmp_path, articles, moved):
    text = ARTICLE.replace("\r\n", "\n")

    def about(name: str, answer: str) -> str:
        row = {"qid": "1", "question": "?", "answers": [answer], "answer_starts": text.index(answer) + moved}
        return write(tmp_path / name, [{**row, "positive_ids": "Ada_Lovelace"}])

    questions = Questions(source=(about("t.jsonl", "Babbage"),), dev_source=(about("d.jsonl", "famous"),))
    corpus = Corpus(source=(articles,), cut="sentences", cut_length=9, shards=1)
    done = Done(tmp_path / "out", corpus, questions)
    assert [q.positive_ids for q in (*done.train, *done.dev)] == [("Ada_Lovelace-0",), ("Ada_Lovelace-1",)]


def test_without_answers_every_passage_of_a_gold_article_is_a_positive(tmp_path, articles):
    train, dev = asked(tmp_path, {"positive_ids": "Ada_Lovelace"})
    corpus = Corpus(source=(articles,), cut="words", cut_length=9, shards=1)
    dev = write(tmp_path / "d.jsonl", [{"qid": "d", "question": "?", "positive_ids": "Zürich"}])
    done = Done(tmp_path / "out", corpus, Questions(source=(train,), dev_source=(dev,)))
    assert done.train[0].positive_ids == tuple(id_ for id_ in done.ids if id_.startswith("Ada"))


def test_an_article_without_words_is_named(tmp_path, articles):
    (tmp_path / "articles" / "Empty.txt").write_text(" \n")
    train, dev = asked(tmp_path, {"answers": ["1815"], "positive_ids": "Ada_Lovelace-0"})
    with pytest.raises(InputError, match=re.escape("Empty.txt piece 1: passage 'Empty-0' has no text")):
        Done(
            tmp_path / "out",
            Corpus(source=(articles,), shards=1),
            Questions(source=(train,), dev_source=(dev,)),
        )
