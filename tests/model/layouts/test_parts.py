"""Layouts of a sequence per part of the text: sentences, and runs of words."""

from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import Model, Train
from multiview.data.passages import Passage
from multiview.data.sentences import sentence_ends
from multiview.model.layouts import architecture, check
from multiview.model.layouts.parts import EqualSplits
from tests.fixtures.laid_out import PASSAGE, make, tokens, view


def test_a_sentence_is_a_sequence_after_the_title(base: Path) -> None:
    made = make(base, "sentence")
    sequences = made.passage(PASSAGE)
    assert [tokens(made, sequence.input_ids) for sequence in sequences] == [
        "[CLS] old e ##u ##r ##o ##p ##e [SEP] the king won . [SEP]",
        "[CLS] old e ##u ##r ##o ##p ##e [SEP] it was in paris . [SEP]",
        "[CLS] old e ##u ##r ##o ##p ##e [SEP] queen . [SEP]",
    ]
    assert [sequence.views for sequence in sequences] == [
        (view((0, 1), span=(0, 14)),),
        (view((0, 1), span=(14, 31)),),
        (view((0, 1), span=(31, 37)),),
    ]


@given(st.text(alphabet=st.sampled_from("ab. \n"), max_size=60), st.integers(1, 9))
@settings(max_examples=100, deadline=None)
def test_equal_splits_partition_the_text_into_runs_that_differ_by_a_word(text: str, number: int) -> None:
    made = EqualSplits.__new__(EqualSplits)
    made.settings = Model(architecture="equal-splits", views=number)
    spans = made.spans(Passage("p", "", text, sentence_ends(text)))
    assert "".join(text[start:stop] for start, stop in spans) == text
    words = [text[start:stop].split() for start, stop in spans]
    expected = np.array_split(text.split(), max(1, min(number, len(text.split()))))
    assert words == [part.tolist() for part in expected]


def test_parts_train_on_each_part_that_holds_an_answer() -> None:
    for name in ("sentence", "equal-splits"):
        kind = architecture(name)
        assert kind.defaults == {"train": {"positive": "each"}}
        check(Model(architecture=name), Train(positive="each"))
