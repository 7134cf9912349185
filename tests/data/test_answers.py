"""Answer matching: DPR's has_answer, where matches stand, and the answer's view."""

import re
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.config import Config, Corpus, Questions
from multiview.data import cjk
from multiview.data.answers import QuestionAnswers, answer_views, find_answers, has_answer, matching_mode
from multiview.data.tokens import TokenizedText, decompose
from multiview.errors import InputError
from tests.fixtures.answer_texts import answers, dpr_tokens, texts


def dpr_has_answer(text: str, answer: str) -> bool:
    words, wanted = dpr_tokens(text), dpr_tokens(answer)
    return bool(wanted) and any(
        words[i : i + len(wanted)] == wanted for i in range(len(words) - len(wanted) + 1)
    )


@pytest.mark.parametrize(
    ("text", "answer", "held"),
    [
        ("honest one", "one", True),
        ("honest", "one", False),
        ("one-day", "One", True),
        ("1one", "one", False),
        ("onely, ones", "one", False),
        ("Şone", "one", False),
        ("one\u0301", "one", False),
        ("\u212aone one", "one", True),
        ("\u212aone", "one", False),
        ("at one time", "One time", True),
        ("at one\n time", "one time", True),
        ("at one, time", "one time", False),
        ("at one times one\u0301 time", "one time", False),
        ("at U.S. one", "u.s. one", True),
        ("at US one", "u.s. one", False),
        ("at \u0395\u03a3 one", "\u03b5\u03c2 one", True),
        ("at \u03b5\u03c3 one", "\u03b5\u03c2 one", False),
        ("at one, one one time", "one one time", True),
        ("at one one-time", "one one time", False),
        ("one two", "one two three", False),
    ],
)
def test_a_part_of_a_word_is_no_answer(text, answer, held):
    assert has_answer(text, [answer]) == held == dpr_has_answer(text, answer)


@given(texts, answers)
@settings(max_examples=200, deadline=None)
def test_is_dprs_has_answer(text, answer):
    assert has_answer(text, [answer]) == dpr_has_answer(text, answer)


@given(
    st.lists(texts, min_size=1, max_size=4),
    st.lists(
        st.lists(answers | st.sampled_from(["a", "aA", "Aa\u0301", "\u03a3", "ab c"]), max_size=3), min_size=1
    ),
    st.sampled_from(["string", "characters", "regex"]),
)
@settings(max_examples=150, deadline=None)
def test_many_texts_and_questions_together_are_as_each_alone(some, answers, mode):
    """A pair may come more than once."""
    if mode == "regex":
        answers = [[regex.escape(answer) for answer in each] for each in answers]
    in_text, asking = np.random.default_rng(len(some)).integers(0, (len(some), len(answers)), (30, 2)).T
    in_text = np.sort(in_text)
    held = QuestionAnswers(answers, mode).answered(pa.array(some), in_text, asking)
    assert held.tolist() == [
        has_answer(some[text], answers[row], mode) for text, row in zip(in_text, asking, strict=True)
    ]
    if mode == "string":
        assert held.tolist() == [
            any(dpr_has_answer(some[text], answer) for answer in answers[row])
            for text, row in zip(in_text, asking, strict=True)
        ]


def test_sixty_thousand_random_pairs_are_answered_as_dpr_does():
    """Words that are parts of each other, marks, other letters and signs; half of the answers are cut out of texts."""
    rng = np.random.default_rng(0)
    words = ["one", "ones", "One", "onely", "at", "on", "U.S.", "US", "1", "12", "-one", "one-day", "(one)"]
    words += ["\u00e9n", "e\u0301n", "\u0395\u03a3", "\u03c2", "\u4e00\u4e8c"]
    between = [" ", " ", " ", "  ", "\n", "-", ", ", "\u00a0", ""]

    def drawn(most: int) -> str:
        count = rng.integers(1, most + 1)
        return "".join(rng.choice(words) + rng.choice(between) for _ in range(count))

    some = [drawn(30) for _ in range(600)]
    asked = [drawn(3).strip() for _ in range(1_000)]
    for row in range(0, len(asked), 2):
        text = some[rng.integers(len(some))]
        first = int(rng.integers(len(text)))
        asked[row] = text[first : first + int(rng.integers(1, 12))]
    in_text = np.repeat(np.arange(len(some)), 100)
    asking = rng.integers(len(asked), size=len(in_text))
    held = QuestionAnswers([[answer] for answer in asked]).answered(pa.array(some), in_text, asking)
    expected = [
        dpr_has_answer(some[text], asked[row])
        for text, row in zip(in_text.tolist(), asking.tolist(), strict=True)
    ]
    assert len(held) == 60_000 and 6_000 < sum(expected) < 54_000
    assert held.tolist() == expected


def test_positions_are_of_the_original_text_where_nfd_is_longer():
    text = "Café Élan: naïve façade, Zürich"
    for answer in ("elan", "Élan", "naïve façade", "ZÜRICH"):
        spans = find_answers(text, [answer])
        if answer == "elan":
            assert spans == []  # accents stay
        else:
            assert [text[start:stop].lower() for start, stop in spans] == [answer.lower()]


def test_marks_that_nfd_reorders_keep_their_positions():
    text = "xa\u0301\u0327"  # NFD puts the cedilla before the acute accent
    assert decompose(text) == ("xa\u0327\u0301", [0, 1, 3, 2])
    assert find_answers(text, [text]) == [(0, 4)]


def test_case_white_space_and_normal_form_do_not_matter_articles_and_punctuation_do():
    text = "The  Denver\nBroncos (AFC) won."
    assert has_answer(text, ["denver broncos"])
    assert find_answers(text, ["denver broncos"]) == [(5, 19)]
    assert has_answer("Beyonce\u0301 sang", ["Beyoncé"])
    assert not has_answer(text, ["a Denver Broncos"])
    assert not has_answer(text, ["Broncos AFC"])
    assert has_answer(text, ["broncos (afc)"])
    assert not has_answer(text, ["Denver Bronco"])  # whole tokens


@pytest.mark.parametrize(
    ("answer", "mode"),
    [("", "string"), (" ", "string"), ("\u200b", "string"), ("", "regex"), ("x*", "regex")],
)
def test_an_answer_without_tokens_or_a_match_of_nothing_never_counts(answer, mode):
    assert not has_answer("some tet", [answer], mode)
    assert find_answers("some tet", [answer], mode) == []


def test_any_answer_counts_and_matches_come_in_order_once():
    text = "b a b"
    assert has_answer(text, ["x", "a"])
    assert find_answers(text, ["b", "a", "B", "a b"]) == [(0, 1), (2, 3), (2, 5), (4, 5)]


def test_overlapping_matches():
    assert find_answers("a b a b a", ["a b a"]) == [(0, 5), (4, 9)]


def test_regex_mode_searches_the_text_with_the_pattern():
    text = "Café in 1984 and 85"
    assert find_answers(text, [r"(19)?8\d"], "regex") == [(8, 12), (17, 19)]
    assert find_answers(text, ["CAFÉ"], "regex") == [(0, 4)]
    assert has_answer(text, ["^café"], "regex") and not has_answer(text, ["^in"], "regex")
    assert has_answer("a\nin", ["^in"], "regex")
    assert has_answer(TokenizedText(text), [r"\d{4}"], "regex")


def test_an_invalid_pattern_is_named():
    with pytest.raises(InputError, match=r"'\(oops'"):
        has_answer("text", ["(oops"], "regex")


# --- the answer's view ---

TEXT = "Paris is big. Rome is old. Paris again."
SPANS = [None, (0, 14), (14, 27), (27, 39), None]


def test_with_an_offset_its_snippet_is_the_view():
    assert answer_views(SPANS, TEXT, ["Paris"], [27]) == ((3,), "offset")
    assert answer_views(SPANS, TEXT, ["Paris"], [0]) == ((1,), "offset")


def test_with_several_offsets_the_first_that_fits_decides():
    assert answer_views(SPANS, TEXT, ["Rome", "Paris"], [14, 0]) == ((2,), "offset")
    assert answer_views(SPANS, TEXT, ["big. Rome", "Rome"], [9, 14]) == ((2,), "offset")


def test_an_answer_that_spans_two_snippets_is_in_none():
    assert answer_views(SPANS, TEXT, ["big. Rome"], [9]) == ((), "none")
    assert answer_views(SPANS, TEXT, ["big. Rome"]) == ((), "none")


def test_without_offsets_every_snippet_with_a_whole_match():
    assert answer_views(SPANS, TEXT, ["rome"]) == ((2,), "one")
    assert answer_views(SPANS, TEXT, ["paris"]) == ((1, 3), "several")
    assert answer_views(SPANS, TokenizedText(TEXT), ["paris", "rome"]) == ((1, 2, 3), "several")
    assert answer_views(SPANS, TEXT, ["London"]) == ((), "none")
    assert answer_views(SPANS, TEXT, [r"Ro\w+"], None, "regex") == ((2,), "one")


def test_the_title_never_holds_an_answer():
    # The title's snippet has no span; merged with sentences it has the sentences' span.
    assert answer_views([None, (0, 39)], TEXT, ["Title"]) == ((), "none")


WORDS = st.lists(
    st.sampled_from(["king", "King", "roi", "ß", "Σ", "İ", "é", "1", ",", ".", " ", " ", "東京", "東"])
)


@given(
    st.one_of(texts, WORDS.map("".join)),
    st.lists(st.one_of(answers, WORDS.map("".join)), max_size=3),
    st.tuples(st.integers(0, 30), st.integers(0, 30)),
    st.sampled_from(["string", "characters"]),
)
@settings(max_examples=300, deadline=None)
def test_a_span_holds_an_answer_where_it_contains_a_whole_match(text, answers, bounds, mode):
    start, stop = sorted(min(bound, len(text)) for bound in bounds)
    expected = any(start <= first and last <= stop for first, last in find_answers(text, answers, mode))
    views, _ = answer_views([None, (start, stop)], TokenizedText(text, mode), answers, mode=mode)
    assert views == ((1,) if expected else ())


def test_a_span_holds_an_answer_by_a_pattern():
    spans = [(14, 27), (15, 27)]
    assert answer_views(spans, TokenizedText(TEXT), [r"Ro\w+"], mode="regex") == ((0,), "one")


CJK = st.text("東京はガ서울가A1é. 。-", max_size=20)


def characters(text: str) -> list[str]:
    """The tokens by plain steps: each letter of these scripts with its marks, other letters and digits in runs."""
    found: list[tuple[bool, str]] = []
    for cluster in regex.findall(r"\X", unicodedata.normalize("NFD", text)):
        joins = bool(regex.match(r"[\p{L}\p{N}\p{M}]", cluster)) and not cjk.LETTER.search(cluster)
        if joins and found and found[-1][0]:
            found[-1] = (True, found[-1][1] + cluster)
        elif regex.search(r"[^\p{Z}\p{C}]", cluster):
            found.append((joins, cluster))
        else:
            found.append((False, ""))
    return [token.lower() for _, token in found if token]


@given(CJK, st.text("東京ガ서A1", min_size=1, max_size=3))
@settings(max_examples=200, deadline=None)
def test_by_characters_an_answer_needs_no_spaces_around_it(text, answer):
    words, wanted = characters(text), characters(answer)
    starts = [i for i in range(len(words)) if words[i : i + len(wanted)] == wanted]
    assert has_answer(text, [answer], "characters") == bool(starts)
    spans = find_answers(TokenizedText(text, "characters"), [answer], "characters")
    assert len(spans) == len(starts)
    assert all(characters(text[start:stop]) == wanted for start, stop in spans)


@given(st.text("aB1é .-", max_size=20), st.text("aB1é .-", max_size=4))
def test_by_characters_other_languages_are_matched_by_words(text, answer):
    assert has_answer(text, [answer], "characters") == has_answer(text, [answer])


@pytest.mark.parametrize(
    ("text", "answer", "by_words"),
    [
        ("東京タワーは港区にある。", "港区", False),
        ("完成は1958年である", "1958年", False),
        ("서울은 대한민국의 수도이다.", "서울", False),
        ("A東B", "東", False),
        ("窓はｶﾞﾗｽです", "ｶﾞﾗｽ", False),
        ("答えは 東京 です", "東京", True),
    ],
)
def test_dprs_tokens_find_no_answer_inside_a_run_of_letters(text, answer, by_words):
    assert has_answer(text, [answer]) == by_words
    assert has_answer(text, [answer], "characters")
    (span,) = find_answers(text, [answer], "characters")
    assert text[slice(*span)] == answer


@pytest.mark.parametrize(
    ("language", "matching", "mode"),
    [
        ("english", "string", "string"),
        ("japanese", "string", "characters"),
        ("korean", "string", "characters"),
        ("chinese", "regex", "regex"),
    ],
)
def test_the_language_decides_how_answers_are_matched(language, matching, mode):
    chosen = Config(corpus=Corpus(language=language), questions=Questions(answer_matching=matching))
    assert matching_mode(chosen) == mode


@pytest.mark.parametrize("answer", ["won", "won won", "the king", "king won . ", "nobody"])
@pytest.mark.parametrize("unit", ["the king won won won. ", "won, ", "the Kïng won. won "])
def test_an_answer_that_stands_in_a_text_many_times_is_found_each_time(unit, answer):
    text = unit * 300
    tokens = list(re.finditer(r"\w+|[^\w\s]", text.lower()))
    wanted = answer.split()
    plain = [
        (tokens[first].start(), tokens[first + len(wanted) - 1].end())
        for first in range(len(tokens) - len(wanted) + 1)
        if [token[0] for token in tokens[first : first + len(wanted)]] == wanted
    ]
    assert find_answers(text, [answer]) == plain
