"""A text is tokenised as one and cut into its parts, by the three kinds of tokenizers that encoders have."""

from itertools import chain, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import Model
from multiview.data.passages import Passage
from multiview.errors import InputError
from multiview.model.layouts import layout
from multiview.model.layouts.base import Layout
from tests.fixtures.tokenizers import tokenizer

KINDS = ("wordpiece", "bpe", "unigram")
LAYOUTS: dict[str, Layout] = {}

sentences = st.lists(
    st.lists(
        st.sampled_from(["The", "king", "built", "it,", "Warsaw's", "Öl", "東京", "a-b", "1066"]), min_size=1
    ).map(lambda words: " ".join(words) + "."),
    min_size=1,
    max_size=6,
)


def made(kind: str) -> Layout:
    if kind not in LAYOUTS:
        LAYOUTS[kind] = layout(Model(architecture="camvr", pooling="snippet"), tokenizer(kind))
    return LAYOUTS[kind]


def ids(kind: str, text: str) -> list[int]:
    return made(kind)._tokenizer(text, add_special_tokens=False)["input_ids"]


@pytest.mark.parametrize("kind", KINDS)
@given(sentences, st.sampled_from([" ", "\n", "  "]))
@settings(max_examples=60, deadline=None)
def test_the_pieces_of_the_parts_are_those_of_the_text(kind: str, texts: list[str], white: str) -> None:
    parts = [*(text + white for text in texts[:-1]), texts[-1], ""]
    cut = made(kind)._cut_tokens(parts)
    assert [*chain.from_iterable(cut)] == ids(kind, "".join(parts))
    if kind == "wordpiece":
        assert cut == [ids(kind, part) for part in parts]
    if kind == "bpe":  # which loses nothing
        decoded = [made(kind)._tokenizer.decode(pieces).strip() for pieces in cut]
        assert decoded == [part.strip() for part in parts]


@pytest.mark.parametrize(("kind", "space"), [("bpe", "Ġ"), ("unigram", "▁")])
@pytest.mark.parametrize("name", ["camvr", "sentence"])
def test_no_snippet_ends_in_a_stray_space_or_loses_that_of_its_first_word(
    kind: str, space: str, name: str
) -> None:
    text = "The tower was built. Oxygen is a gas. He died."
    passage = Passage("p", "Warsaw", text, (21, 38, 46))
    settings = Model(architecture=name, views=4, pooling="snippet" if name == "camvr" else "viewer")
    sequences = layout(settings, made(kind)._tokenizer).passage(passage)
    pieces = made(kind)._tokenizer.convert_ids_to_tokens
    firsts = {"camvr": [21, 38], "sentence": [21, 38]}[name]
    words = [text[start:].split()[0] for start in firsts]
    for sequence in sequences:
        found = pieces(sequence.input_ids)
        assert all(after.isalpha() for piece, after in pairwise(found) if piece == space)
        assert found[-2] == "."
    if name == "camvr":
        starts = [view.runs[-1][0] for view in sequences[0].views if view.span and view.span[0] in firsts]
        begun = ["".join(pieces(sequences[0].input_ids)[start : start + 9]) for start in starts]
    else:
        begun = ["".join(pieces(sequence.input_ids)).split("[SEP]")[1] for sequence in sequences[1:]]
    assert all(found.startswith(space + word) for found, word in zip(begun, words, strict=True))


def test_a_tokenizer_that_tells_no_positions_is_refused() -> None:
    slow = tokenizer("wordpiece")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(slow), "is_fast", False)
        with pytest.raises(InputError, match="tokenizer.json"):
            layout(Model(architecture="camvr"), slow)
