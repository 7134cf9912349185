"""MVR: viewers at position 0."""

from pathlib import Path

from tests.fixtures.laid_out import PASSAGE, make, tokens, view


def test_mvr_viewers_stand_at_position_0_and_the_text_counts_on_from_1(base: Path) -> None:
    made = make(base, "mvr")
    (sequence,) = made.passage(PASSAGE)
    text = tokens(made, sequence.input_ids).split()
    assert text[:5] == ["[VIE1]", "[VIE2]", "[VIE3]", "[VIE4]", "old"] and text[-1] == "[SEP]"
    assert sequence.position_ids == [0, 0, 0, 0, *range(1, len(text) - 3)]
    assert sequence.views == tuple(view((i, i + 1)) for i in range(4))
    question = made.question("Who won?")
    assert tokens(made, question.input_ids) == "[VIE] who won ? [SEP]"
    assert question.views == (view((0, 1)),)
