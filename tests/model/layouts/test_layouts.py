"""Where tokens and views stand, architecture by architecture."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from multiview.config import Model, Train
from multiview.data.passages import Passage
from multiview.errors import InputError
from multiview.model.layouts import LAYOUTS, architecture, check, layout
from multiview.model.layouts.base import Part
from tests.fixtures.laid_out import PASSAGE, make, tokens, view
from tests.fixtures.tokenizers import tokenizer


def test_dpr_has_one_view_of_the_whole_passage(base: Path) -> None:
    made = make(base, "dpr")
    (sequence,) = made.passage(PASSAGE)
    text = "[CLS] old e ##u ##r ##o ##p ##e [SEP] the king won . it was in paris . queen . [SEP]"
    assert tokens(made, sequence.input_ids) == text and sequence.position_ids is None
    assert sequence.views == (view((0, 1), span=(0, 37)),)
    assert tokens(made, made.question("Who won?").input_ids) == "[CLS] who won ? [SEP]"


def test_me_bert_has_the_first_k_tokens(base: Path) -> None:
    (sequence,) = make(base, "me-bert", views=3).passage(PASSAGE)
    (dpr,) = make(base, "dpr").passage(PASSAGE)
    assert sequence.input_ids == dpr.input_ids and sequence.position_ids is None
    assert sequence.views == (view((0, 1)), view((1, 2)), view((2, 3)))
    (short,) = make(base, "me-bert", views=8).passage(Passage("p", "", "Queen.", (6,)))
    assert len(short.views) == len(short.input_ids) == 4


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


@pytest.mark.parametrize("pooling", ["viewer", "snippet", "both", "last"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_the_parts_of_views_are_those_of_the_sequences(base: Path, name: str, pooling: str) -> None:
    try:
        made = make(base, name, pooling=pooling)
    except InputError:
        pytest.skip("a pooling that does not suit")
    long = Passage("p", "A title", "The king won. " * 200, tuple(range(14, 2801, 14)))
    odd = Passage("p", "", "\u200b", (1,))
    queries = ("Who won?", "Who lost?", "Who won?") if made.reads_queries else ()
    for passage in (PASSAGE, long, odd):
        for read in {queries, ()}:
            views = [view for sequence in made.passage(passage, read) for view in sequence.views]
            assert made.parts(passage, read) == [Part(view.span, view.padding) for view in views]


def test_an_empty_title_has_no_sep_of_its_own(base: Path) -> None:
    untitled = Passage("p", "", "The king won.", (13,))
    made = make(base, "dpr")
    assert tokens(made, made.passage(untitled)[0].input_ids) == "[CLS] the king won . [SEP]"


def test_text_that_spells_a_special_token_is_text(base: Path) -> None:
    made = make(base, "camvr")
    tricky = Passage("p", "", "[SEP] the [VIE1] king [CLS] [VIE].", (34,))
    ids = made.passage(tricky)[0].input_ids
    special = ["[SEP]", "[CLS]", "[VIE]", "[VIE1]", "[VIE2]", "[VIE3]", "[VIE4]"]
    found = [token for token in made._tokenizer.convert_ids_to_tokens(ids) if token in special]
    assert found == ["[VIE1]", "[VIE2]", "[VIE3]", "[VIE4]", "[SEP]"]


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"architecture": "camvrr"}, "did you mean camvr"),
        ({"architecture": "splade"}, "there are: dpr, me-bert"),
        ({"architecture": "mvr", "pooling": "snippet"}, "model.pooling"),
        ({"architecture": "mvr", "init": "snippet-mean"}, "model.init: snippet-mean .*architecture mvr"),
        ({"architecture": "dpr", "init": "snippet-mean"}, "architecture dpr .*use random or cls"),
        ({"architecture": "camvr", "init": "snippet-mean", "pooling": "snippet"}, "model.pooling=snippet"),
        ({"architecture": "camvr", "pooling": "last"}, "use viewer, snippet or both"),
        ({"architecture": "meta", "pooling": "last"}, "model.pooling"),
        ({"architecture": "camvr", "views": 40, "passage_length": 64}, "at most 31 views"),
        (
            {"architecture": "camvr", "pooling": "snippet", "views": 63, "passage_length": 64},
            "at most 62 views",
        ),
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
    for name in ("mvr", "me-bert", "meta"):
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


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_says_whether_its_views_depend_on_sentences(base: Path, name: str) -> None:
    text = "It was built by the king. He died."
    made = make(base, name)
    whole, split = (Passage("p0", "Tower", text, ends) for ends in ((34,), (26, 34)))
    assert (made.passage(whole) != made.passage(split)) == made.reads_sentences


def test_layouts_import_without_torch_or_transformers() -> None:
    code = "import sys, multiview.model.layouts, multiview.model.base_model.checkpoint, multiview.plans.system; sys.exit(bool({'torch', 'transformers'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


WORDS = "the king won a castle in the north, and lost it. "


@pytest.mark.parametrize("unit", [WORDS, "won\n", "k" * 5000 + " won ", "k" * 5000, "東京 ", " ", "\u0301 a"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_of_a_long_text_a_beginning_is_tokenised_and_the_sequence_is_the_same(
    base: Path, name: str, unit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = unit * (12_000 // len(unit))
    long = Passage("p", "A title", text, (len(WORDS), len(text) // 2, len(text)))
    made = make(base, name, passage_length=32, question_length=32)
    queries = ("Who won?", "Who lost?") if made.reads_queries else ()
    read: list[int] = []
    whole = made._encode
    monkeypatch.setattr(
        made,
        "_encode",
        lambda texts, **options: [read.append(max(map(len, texts))), whole(texts, **options)][1],
    )
    found = made.passage(long, queries), made.question(text)
    if unit == WORDS:
        assert max(read) < 10_000
    monkeypatch.setattr("multiview.model.layouts.base.CHARACTERS", 10**9)
    assert (made.passage(long, queries), made.question(text)) == found
    assert max(read) >= len(text)


PROMPT, BEGIN = "the battle, ", "thebattle,"
LONG = Passage("p", "Old Europe", "The king won. " * 200, tuple(range(14, 2801, 14)))


@pytest.mark.parametrize("pooling", ["viewer", "snippet"])
@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_prompt_begins_the_text_and_is_never_cut(
    tmp_path: Path, name: str, kind: str, pooling: str
) -> None:
    """It stands behind [CLS] and MVR's viewer tokens, before CAMVR's first one, and belongs to no snippet."""
    tokenizer(kind).save_pretrained(tmp_path)
    try:
        made, plain = (
            make(tmp_path, name, pooling=pooling, question_prompt=prompt, passage_prompt=prompt)
            for prompt in (PROMPT, None)
        )
    except InputError:
        pytest.skip("a pooling that does not suit")
    special = {*made._tokenizer.all_special_ids, *made._viewers}
    before = {"mvr": 4, "camvr": 0 if made._viewers else 1, "sentence-transformer": 0}.get(name, 1)

    def text(ids: list[int]) -> str:
        return made._tokenizer.decode([i for i in ids if i not in special]).replace(" ", "")

    untitled = Passage("p", "", PASSAGE.text, PASSAGE.sentence_ends)
    queries = ("Who won?", "Who’s she?") if made.reads_queries else ()
    for passage in (PASSAGE, untitled, LONG):
        both = zip(made.passage(passage, queries), plain.passage(passage, queries), strict=True)
        for sequence, bare in both:
            ids = sequence.input_ids
            assert len(ids) <= made.settings.passage_length
            assert {*ids[:before]} <= special and text(ids[before : before + 12]).startswith(BEGIN)
            assert passage is LONG or text(ids) == BEGIN + text(bare.input_ids)
            assert [view.span for view in sequence.views] == [view.span for view in bare.views]
            runs = [ids[start:stop] for view in sequence.views for start, stop in view.runs]
            assert all(runs)
            first = text([i for run in runs for i in run])
            assert name != "me-bert" or (first and text(bare.input_ids).startswith(first))
            assert name not in ("camvr", "me-bert") or not any("battle" in text(run) for run in runs)
    for question in ("Who’s she?", "", "who won " * 200):
        ids = made.question(question).input_ids
        assert len(ids) <= made.settings.question_length
        whole = BEGIN + text(plain.question(question).input_ids)
        assert text(ids) == whole or (
            len(question) > 200 and whole.startswith(text(ids)) and BEGIN in text(ids)
        )


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_prompt_that_leaves_no_room_or_spells_a_special_token_is_refused(base: Path, name: str) -> None:
    for side in ("question", "passage"):
        lengths: dict[str, Any] = {"question_length": 32, "passage_length": 32, "views": 2}
        for prompt, line in (
            ("king " * 28, rf"model.{side}_prompt: it has 28 tokens, .* model.{side}_length 32; shorten"),
            ("[SEP] king: ", rf"model.{side}_prompt: '\[SEP\] king: ' spells a special token"),
        ):
            with pytest.raises(InputError, match=f"^{line}"):
                make(base, name, **lengths, **{f"{side}_prompt": prompt}).check_prompts()
        make(base, name, **lengths, **{f"{side}_prompt": "king " * 12}).check_prompts()
