"""ME-BERT: the first tokens are the views."""

from pathlib import Path

from multiview.data.passages import Passage
from tests.fixtures.laid_out import PASSAGE, make, view


def test_me_bert_has_the_first_k_tokens(base: Path) -> None:
    (sequence,) = make(base, "me-bert", views=3).passage(PASSAGE)
    (dpr,) = make(base, "dpr").passage(PASSAGE)
    assert sequence.input_ids == dpr.input_ids and sequence.position_ids is None
    assert sequence.views == (view((0, 1)), view((1, 2)), view((2, 3)))
    (short,) = make(base, "me-bert", views=8).passage(Passage("p", "", "Queen.", (6,)))
    assert len(short.views) == len(short.input_ids) == 4
