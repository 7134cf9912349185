"""Passages that are laid out ahead of the model."""

from __future__ import annotations

import pytest

from multiview.config import Model
from multiview.data.passages import Passage
from multiview.encoding.ahead import BLOCK, laid_out_ahead
from multiview.errors import InputError
from multiview.model.encoder import BiEncoder
from tests.fixtures import training_material

PASSAGES = [training_material.passage(i, sentences=1 + i % 8) for i in range(3 * BLOCK + 5)]


@pytest.fixture(scope="module")
def layout(base: object):
    return BiEncoder.create(Model(base=str(base), architecture="dual-cross", tied=True)).layout


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_passages_keep_their_order_and_their_queries(layout, workers: int) -> None:
    asked = [(passage, (f"{passage.id}?",)) for passage in PASSAGES]
    found = list(laid_out_ahead(layout, asked, workers))
    assert [(passage, queries) for passage, queries, _ in found] == asked
    for passage, queries, sequences in found[:: BLOCK - 1]:
        assert sequences == layout.passage(passage, queries)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_in_reading_is_raised_as_it_is(layout, workers: int) -> None:
    def broken():
        yield PASSAGES[0], ()
        raise InputError("row 1: no text")

    with pytest.raises(InputError, match=r"^row 1: no text$"):
        list(laid_out_ahead(layout, broken(), workers))


def test_this_process_reads_no_further_than_a_block(layout) -> None:
    taken: list[Passage] = []

    def watched():
        for passage in PASSAGES:
            taken.append(passage)
            yield passage, ()

    next(laid_out_ahead(layout, watched(), 0))
    assert len(taken) == BLOCK
