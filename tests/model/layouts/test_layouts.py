"""Where tokens and views stand, architecture by architecture."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from multiview.config import Model, Train
from multiview.data.passages import Passage
from multiview.errors import InputError
from multiview.model.layouts import LAYOUTS, Layout, View, architecture, check, layout
from multiview.model.layouts.camvr import cut_longest

PASSAGE = Passage("p", "Old Europe", "The king won. It was in Paris. Queen.", (14, 31, 37))


def make(base: Path, name: str, **options: Any) -> Layout:
    chosen = Model(architecture=name, **{"views": 4, "passage_length": 64, **options})
    tokenizer = AutoTokenizer.from_pretrained(base)
    tokenizer.add_tokens(architecture(name).viewers(chosen), special_tokens=True)
    return layout(chosen, tokenizer)


def tokens(made: Layout, ids: list[int]) -> str:
    return " ".join(made._tokenizer.convert_ids_to_tokens(ids))


def view(*places: tuple[int, int], span: tuple[int, int] | None = None, padding: bool = False) -> View:
    return View(places, span, padding)


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
    assert [place.runs for place in both.views] == [
        ((0, 1), (1, 8)),
        ((8, 9), (9, 13)),
        ((13, 14), (14, 19)),
        ((19, 20), (20, 22)),
        ((22, 23),),
    ]
    assert both.views[-1].padding


def test_single_vectors_and_questions_pool_all_their_tokens(base: Path) -> None:
    made = make(base, "dpr", pooling="snippet")
    (sequence,) = made.passage(PASSAGE)
    assert sequence.views[0].runs == ((0, len(sequence.input_ids)),)
    assert made.question("Who won?").views[0].runs == ((0, 5),)
    assert make(base, "dpr", pooling="both").question("Who won?").views[0].runs == ((0, 1), (0, 5))


def test_a_text_without_word_pieces_still_has_a_view(base: Path) -> None:
    odd = Passage("p", "", "\u200b", (1,))
    for name in LAYOUTS:
        assert make(base, name).passage(odd)[0].views
    (sequence,) = make(base, "camvr", pooling="snippet").passage(odd)
    assert len(sequence.views) == 1


def test_an_empty_title_has_no_sep_of_its_own(base: Path) -> None:
    untitled = Passage("p", "", "The king won.", (13,))
    made = make(base, "dpr")
    assert tokens(made, made.passage(untitled)[0].input_ids) == "[CLS] the king won . [SEP]"


def test_text_that_spells_a_special_token_is_text(base: Path) -> None:
    made = make(base, "camvr")
    tricky = Passage("p", "", "[SEP] the [VIE1] king [CLS] [VIE].", (34,))
    ids = made.passage(tricky)[0].input_ids
    special = {
        made._tokenizer.convert_tokens_to_ids(t)
        for t in ("[SEP]", "[CLS]", "[VIE]", "[VIE1]", "[VIE2]", "[VIE3]", "[VIE4]")
    }
    assert [made._tokenizer.convert_ids_to_tokens(i) for i in ids if i in special] == [
        "[VIE1]",
        "[VIE2]",
        "[VIE3]",
        "[VIE4]",
        "[SEP]",
    ]


def test_a_curly_apostrophe_in_a_question_is_read_as_a_plain_one(base: Path) -> None:
    made = make(base, "dpr")
    assert made.question("the king’s year").input_ids == made.question("the king's year").input_ids


@pytest.mark.parametrize("name", ["dpr", "mvr", "me-bert", "sentence"])
def test_the_end_of_a_long_text_is_cut_and_the_last_sep_kept(base: Path, name: str) -> None:
    made = make(base, name, passage_length=20)
    for title, text in (("Old", "king " * 50), ("king " * 50, "queen")):
        (sequence,) = made.passage(Passage("p", title, text, (len(text),)))
        assert len(sequence.input_ids) == 20
        assert tokens(made, sequence.input_ids).endswith("king [SEP]")
    assert len(made.question("king " * 300).input_ids) == 128


def loop_cut(lengths: list[int], room: int) -> list[int]:
    """One token at a time from the longest snippet, the later of equals."""
    lengths = list(lengths)
    while sum(lengths) > room:
        longest = max(range(len(lengths)), key=lambda i: (lengths[i], i))
        lengths[longest] -= 1
    return lengths


@given(st.lists(st.integers(0, 40), min_size=1, max_size=12), st.integers(0, 200))
@settings(max_examples=200, deadline=None)
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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "camvrr"}, "did you mean 'camvr'"),
        ({"architecture": "splade"}, "choose one of"),
        ({"architecture": "mvr", "pooling": "snippet"}, "model.pooling"),
        ({"architecture": "camvr", "views": 40, "passage_length": 64}, "at most 31 views"),
        ({"architecture": "me-bert", "pooling": "both"}, "model.pooling"),
        ({"architecture": "me-bert", "views": 65, "passage_length": 64}, "at most 64 views"),
        ({"architecture": "mvr", "views": 60, "passage_length": 64}, "at most 56 views"),
    ],
)
def test_settings_that_do_not_fit_are_refused_with_a_way_out(
    base: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        chosen = Model(**options)
        architecture(chosen.architecture).check(chosen)


def test_answer_views_need_views_that_stand_for_text() -> None:
    answer = Train(positive="answer")
    for name in ("dpr", "camvr"):
        check(Model(architecture=name), answer)
    for name in ("mvr", "me-bert"):
        check(Model(architecture=name), Train())
        for positive in ("answer", "each"):
            with pytest.raises(InputError, match=rf"train\.positive: {positive}"):
                check(Model(architecture=name), Train.model_validate({"positive": positive}))


def test_lengths_beyond_the_base_models_positions_are_refused() -> None:
    with pytest.raises(InputError, match=r"passage_length.*128 or less"):
        architecture("dpr").check(Model(question_length=64), max_positions=128)


def test_a_tokenizer_without_the_viewers_is_of_another_model(base: Path) -> None:
    with pytest.raises(InputError, match="VIE"):
        layout(Model(architecture="camvr"), AutoTokenizer.from_pretrained(base))


def test_layouts_import_without_torch_or_transformers() -> None:
    code = "import sys, multiview.model.layouts, multiview.model.bases, multiview.plans.training; sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
