"""DPR: one view of the whole passage."""

from pathlib import Path

from tests.fixtures.laid_out import PASSAGE, make, tokens, view


def test_dpr(base: Path) -> None:
    made = make(base, "dpr")
    (sequence,) = made.passage(PASSAGE)
    assert (
        tokens(made, sequence.input_ids)
        == "[CLS] old e ##u ##r ##o ##p ##e [SEP] the king won . it was in paris . queen . [SEP]"
    )
    assert sequence.position_ids is None
    assert sequence.views == (view((0, 1), span=(0, 37)),)
    assert tokens(made, made.question("Who won?").input_ids) == "[CLS] who won ? [SEP]"
