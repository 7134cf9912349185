"""What each row of an index stands for, beside what the papers say of each architecture."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from transformers import AutoTokenizer

from multiview.config import Model
from multiview.data.passages import Passage, PassageRows, shard_files
from multiview.encoding.embeddings import QUERIES_FIELD
from multiview.errors import InputError
from multiview.index.indexed_passages import IndexedPassages
from multiview.index.view_index import ViewIndex
from multiview.model.layouts import architecture, layout
from multiview.model.layouts.base import Layout
from tests.fixtures.analysed_model import hand_index
from tests.fixtures.artifacts import write_passages

PASSAGES = [
    Passage("b", "Old Europe", "The king won. It was in Paris. Queen.", (14, 31, 37)),
    Passage("a", "", "One sentence alone.", (19,)),
    Passage("c", "Warsaw", "Chopin lived there. It rained.", (20, 30)),
    Passage("d", "Not retrieved", "Nobody reads this.", (18,)),
]
QUERIES = {"a": ["what is alone?"], "b": ["who won?", "where was it?"], "c": [], "d": []}

View = tuple[int, tuple[int, int] | None, str | None, str | None]
"""Number, span, snippet and query of a view."""

EMPTY: list[View] = [(number, None, "", None) for number in range(4)]
BY_SNIPPETS: dict[str, list[View]] = {
    "b": [
        (0, None, "Old Europe", None),
        (1, (0, 14), "The king won. ", None),
        (2, (14, 31), "It was in Paris. ", None),
        (3, (31, 37), "Queen.", None),
    ],
    "a": [(0, (0, 19), "One sentence alone.", None), *EMPTY[1:]],
    "c": [
        (0, None, "Warsaw", None),
        (1, (0, 20), "Chopin lived there. ", None),
        (2, (20, 30), "It rained.", None),
        *EMPTY[3:],
    ],
}
"""CAMVR 3.2 with four views: the title, the sentences, and empty snippets."""


def snippets(passage: Passage) -> list[View]:
    return BY_SNIPPETS[passage.id]


def sentences(passage: Passage) -> list[View]:
    spans = enumerate(pairwise((0, *passage.sentence_ends)))
    return [(number, (start, stop), passage.text[start:stop], None) for number, (start, stop) in spans]


def whole(passage: Passage, *queries: str) -> list[View]:
    asked = enumerate(queries or [None])
    return [(number, (0, len(passage.text)), passage.text, query) for number, query in asked]


CASES: dict[str, Callable[[Passage], list[View]]] = {
    "camvr": snippets,
    "camvr without padding": lambda passage: [view for view in snippets(passage) if view[2] != ""],
    "camvr merged": lambda passage: snippets(passage)[::2],
    "mvr": lambda passage: [(number, None, None, None) for number in range(4)],
    "dpr": whole,
    "sentence": sentences,
    "dual-cross": lambda passage: whole(passage, *QUERIES[passage.id]),
}


def make_layout(base: Path, name: str) -> Layout:
    chosen = Model.model_validate({"architecture": name, "views": 4, "passage_length": 96})
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.add_tokens(architecture(name).viewers(chosen), special_tokens=True)
    return layout(chosen, tokenizer)


def make_index(counts: list[int], folder: Path | None = None) -> ViewIndex:
    """An index over `PASSAGES` with so many views each; with their queries, where there is a folder for them."""
    index = hand_index([np.ones((count, 2)) for count in counts], [passage.id for passage in PASSAGES])
    if folder:
        asked = pa.table([[QUERIES[passage.id] for passage in PASSAGES]], schema=pa.schema([QUERIES_FIELD]))
        pq.write_table(asked, folder / "queries.parquet")
        index._queries = PassageRows([folder / "queries.parquet"])
    return index


def as_views(indexed: Any) -> list[View]:
    return [(view.number, view.span, view.snippet, view.query) for view in indexed.views]


@pytest.mark.parametrize("case", CASES)
def test_each_row_stands_for_a_view_of_its_passage(base: Path, tmp_path: Path, case: str) -> None:
    expected = {passage.id: CASES[case](passage) for passage in PASSAGES[:3]}
    counts = [len(expected[passage.id]) for passage in PASSAGES[:3]] + [1]
    index = make_index(counts, tmp_path if case == "dual-cross" else None)
    if case == "camvr merged":
        index.kept = pa.array([[True, False, True, False]] * 3 + [[True]])
    made = make_layout(base, case.split()[0])
    corpus = PassageRows(shard_files(write_passages(tmp_path / "corpus", PASSAGES, shards=2)))
    found = {p.row: p for p in IndexedPassages(index, made, corpus).read(np.array([[2, 0], [1, -1], [0, 2]]))}
    assert {row: indexed.passage for row, indexed in found.items()} == dict(enumerate(PASSAGES[:3]))
    for row, passage in enumerate(PASSAGES[:3]):
        assert as_views(found[row]) == expected[passage.id]
        padding = [snippet == "" for _, _, snippet, _ in expected[passage.id]]
        assert [view.padding for view in found[row].views] == padding
        assert found[row].queries == tuple(QUERIES[passage.id] if case == "dual-cross" else ())
        assert len(found[row].parts) == (4 if case.startswith("camvr") else len(expected[passage.id]))


def test_passages_come_once_and_in_order_with_the_corpus_s_own_columns(base: Path, tmp_path: Path) -> None:
    (file,) = shard_files(write_passages(tmp_path / "corpus", PASSAGES))
    urls = [f"https://example.org/{passage.id}" for passage in PASSAGES]
    pq.write_table(pq.read_table(file).append_column("url", pa.array(urls)), file)
    passages = IndexedPassages(make_index([1, 1, 1, 1]), make_layout(base, "dpr"), PassageRows([file]))
    found = [(each.row, each.columns) for each in passages.read(np.array([[3, 0, -1], [3, 2, 0]]))]
    assert found == [(row, {"url": urls[row]}) for row in (0, 2, 3)]
    assert list(passages.read(np.array([-1, -1]))) == []


def test_another_corpus_or_layout_than_the_index_s_is_refused(base: Path, tmp_path: Path) -> None:
    index = make_index([4, 1, 3, 1])
    backwards = PassageRows(shard_files(write_passages(tmp_path / "backwards", PASSAGES[::-1])))
    line = "its passage 0 is 'b', but the corpus has 'd' there; build the index"
    with pytest.raises(InputError, match=line):
        list(IndexedPassages(index, make_layout(base, "camvr"), backwards).read(np.array([0])))
    less = PassageRows(shard_files(write_passages(tmp_path / "less", PASSAGES[1:])))
    with pytest.raises(InputError, match="it has 4 passages, but its corpus 3: build the index again"):
        IndexedPassages(index, make_layout(base, "camvr"), less)
    corpus = PassageRows(shard_files(write_passages(tmp_path / "corpus", PASSAGES)))
    (indexed,) = IndexedPassages(index, make_layout(base, "dpr"), corpus).read(np.array([0]))
    line = r"passage 'b': the embeddings hold 4 views where the layout makes 1: encode"
    with pytest.raises(InputError, match=line):
        _ = indexed.views
