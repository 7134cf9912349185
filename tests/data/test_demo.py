"""The demo's corpus: what is promised about it, and its file system."""

import json
from collections import Counter

import fsspec
import pytest

from multiview.config import Bm25
from multiview.data.demo.corpus import demo_files
from multiview.data.passages import Passage
from multiview.data.reading.sources import expand_source, fingerprints
from multiview.data.sentences import sentence_ends
from multiview.errors import InputError
from multiview.index.bm25 import Bm25Index


@pytest.fixture(scope="module")
def articles() -> list[dict]:
    return [article for part in demo_files().values() for article in json.loads(part)["data"]]


def paragraphs(articles: list[dict]) -> list[dict]:
    return [paragraph for article in articles for paragraph in article["paragraphs"]]


def test_every_answer_stands_at_its_offset_and_in_another_sentence(articles):
    for paragraph in paragraphs(articles):
        text, ends = paragraph["context"], sentence_ends(paragraph["context"])
        sentences = []
        for question in paragraph["qas"]:
            (answer,) = question["answers"]
            start = answer["answer_start"]
            assert text[start : start + len(answer["text"])] == answer["text"] != ""
            sentences.append(sum(end <= start for end in ends))
        assert len(set(sentences)) == len(sentences) >= 3


def test_passages_have_four_to_eight_sentences_and_some_more(articles):
    counts = Counter(len(sentence_ends(p["context"])) for p in paragraphs(articles))
    assert min(counts) == 4 and 9 <= max(counts) <= 11
    assert 0.08 < sum(n for length, n in counts.items() if length > 8) / counts.total() < 0.25
    assert 250 <= counts.total() <= 400


def test_ids_and_texts_are_unique_while_names_are_shared(articles):
    ids = [question["id"] for p in paragraphs(articles) for question in p["qas"]]
    assert len(ids) == len(set(ids))
    texts = [p["context"] for p in paragraphs(articles)]
    assert len(texts) == len(set(texts))
    titles = Counter(article["title"] for article in articles)
    assert sum(n > 1 for n in titles.values()) >= 10, "namesakes"
    last = Counter(title.split()[-1] for title in titles)
    assert sum(n > 2 for n in last.values()) >= 10, "families, and works of one kind of name"


def test_bm25_is_good_but_not_perfect(articles):
    passages = [
        Passage(str(i), a["title"], p["context"], ())
        for i, (a, p) in enumerate((a, p) for a in articles for p in a["paragraphs"])
    ]
    asked = [(q["question"], i) for i, p in enumerate(paragraphs(articles)) for q in p["qas"]]
    top = Bm25Index.of(passages, Bm25()).search([question for question, _ in asked], 20)
    ids = top.passages
    first = sum(ids[row, 0] == gold for row, (_, gold) in enumerate(asked)) / len(asked)
    twenty = sum(gold in ids[row] for row, (_, gold) in enumerate(asked)) / len(asked)
    assert 0.4 < first < 0.9
    assert twenty > 0.9


def test_a_seed_gives_the_same_bytes_and_another_seed_others():
    assert demo_files(1) == demo_files(1)
    assert demo_files(1) != demo_files(2)


def test_the_files_are_read_through_fsspec_as_any_other():
    assert expand_source("demo://train.json", "train") == ["demo://train.json"]
    with fsspec.open("demo://dev.json") as file:
        content = file.read()  # type: ignore[attr-defined]
    assert content == demo_files()["dev.json"]
    assert set(json.loads(content)) == {"version", "data"}
    (train,), (dev,) = fingerprints(["demo://train.json"]), fingerprints(["demo://dev.json"])
    assert train != dev and train == fingerprints(["demo://train.json"])[0]
    with pytest.raises(InputError, match="no such file"):
        expand_source("demo://test.json", "train")
    with pytest.raises(OSError, match="read-only"):
        fsspec.open("demo://dev.json", "wb").open()  # type: ignore[union-attr]
