"""CAMVR: a viewer before each snippet, pooling, and the cut of long passages."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.data.passages import Passage
from multiview.model.layouts.camvr import cut_longest
from tests.fixtures.laid_out import PASSAGE, make, tokens, view
from tests.fixtures.tokenizers import tokenizer


def test_camvr_puts_a_viewer_before_each_snippet(base: Path) -> None:
    made = make(base, "camvr", views=5)
    (sequence,) = made.passage(PASSAGE)
    assert (
        tokens(made, sequence.input_ids)
        == "[VIE1] old e ##u ##r ##o ##p ##e [VIE2] the king won . [VIE3] it was in paris . [VIE4] queen . [VIE5] [SEP]"
    )
    assert sequence.position_ids is None
    assert sequence.views == (
        view((0, 1)),
        view((8, 9), span=(0, 14)),
        view((13, 14), span=(14, 31)),
        view((19, 20), span=(31, 37)),
        view((22, 23), padding=True),
    )


def test_camvr_pools_snippets(base: Path) -> None:
    made = make(base, "camvr", views=5, pooling="snippet")
    (pooled,) = made.passage(PASSAGE)
    # No view needs a viewer token, and the empty snippet gives none.
    assert (
        tokens(made, pooled.input_ids)
        == "[CLS] old e ##u ##r ##o ##p ##e the king won . it was in paris . queen . [SEP]"
    )
    assert pooled.views == (
        view((1, 8)),
        view((8, 12), span=(0, 14)),
        view((12, 17), span=(14, 31)),
        view((17, 19), span=(31, 37)),
    )
    assert tokens(made, made.question("Who won?").input_ids) == "[CLS] who won ? [SEP]"
    assert made.question("Who won?").views == (view((0, 5)),)
    both = make(base, "camvr", views=5, pooling="both").passage(PASSAGE)[0]
    assert [view.runs for view in both.views] == [
        ((0, 1), (1, 8)),
        ((8, 9), (9, 13)),
        ((13, 14), (14, 19)),
        ((19, 20), (20, 22)),
        ((22, 23),),
    ]
    assert both.views[-1].padding


def test_viewers_know_the_snippets_that_they_start_from(base: Path) -> None:
    for pooling in ("viewer", "both"):
        made = make(base, "camvr", views=5, pooling=pooling, init="snippet-mean")
        (sequence,) = made.passage(PASSAGE)
        assert sequence.snippets == ((1, 8), (9, 13), (14, 19), (20, 22), (23, 23))
        asked = made.question("Who won?")
        assert tokens(made, asked.input_ids) == "[VIE] who won ? [SEP]"
        assert asked.snippets == ((1, 4),)
    assert make(base, "camvr", views=5, init="cls").passage(PASSAGE)[0].snippets == ()


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_the_snippet_of_a_question_begins_behind_its_prompt(tmp_path: Path, kind: str) -> None:
    """Whose last space may belong to the question's first word."""
    tokenizer(kind).save_pretrained(tmp_path)
    for prompt in ("", "king:", "king: "):
        made = make(tmp_path, "camvr", init="snippet-mean", question_prompt=prompt)
        asked = made.question("the battle")
        ((start, stop),) = asked.snippets
        assert made._tokenizer.decode(asked.input_ids[start:stop]).split() == ["the", "battle"], prompt


def loop_cut(lengths: list[int], room: int) -> list[int]:
    """One token at a time from the longest snippet, the later of equals."""
    lengths = list(lengths)
    while sum(lengths) > room:
        longest = max(range(len(lengths)), key=lambda i: (lengths[i], i))
        lengths[longest] -= 1
    return lengths


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(0, 200))
@settings(max_examples=100, deadline=None)
def test_cutting_by_level_is_cutting_one_token_at_a_time(lengths: list[int], room: int) -> None:
    assert cut_longest(lengths, room) == loop_cut(lengths, room)


def test_truncation_never_drops_a_viewer(base: Path) -> None:
    made = make(base, "camvr", passage_length=16)
    text = "king " * 40 + ". Queen. " + "war " * 9 + "."
    passage = Passage("p", "Old", text, (202, 209, len(text)))
    (sequence,) = made.passage(passage)
    assert tokens(made, sequence.input_ids) == (
        "[VIE1] old [VIE2] king king king king [VIE3] queen . [VIE4] war war war war [SEP]"
    )
    assert len(sequence.views) == 4
    (pooled,) = make(base, "camvr", passage_length=16, pooling="snippet").passage(passage)
    assert [stop - start for view in pooled.views for start, stop in view.runs] == [1, 6, 2, 5]
    assert len(pooled.input_ids) == 16
