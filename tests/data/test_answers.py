"""Answer matching: DPR's has_answer, where matches stand, and the answer's view."""

import re
import unicodedata
from functools import lru_cache

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

tokens = lru_cache(2_000)(dpr_tokens)


def dpr_has_answer(text: str, answer: str) -> bool:
    words, wanted = tokens(text), tokens(answer)
    return bool(wanted) and any(
        words[i : i + len(wanted)] == wanted for i in range(len(words) - len(wanted) + 1)
    )


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
    words += [
        "\u00e9n",
        "e\u0301n",
        "\u0395\u03a3",
        "\u03b5\u03c3",
        "\u03c2",
        "\u4e00\u4e8c",
        "\u0301",
        "\u212a",
        "\u015e",
    ]
    between = [" ", " ", " ", "  ", "\n", "-", ", ", "\u00a0", ".", ""]

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
    for answer in ("Élan", "naïve façade", "ZÜRICH"):
        ((start, stop),) = find_answers(text, [answer])
        assert text[start:stop].lower() == answer.lower()
    assert not has_answer(text, ["elan"]), "accents stay"


def test_marks_that_nfd_reorders_keep_their_positions():
    text = "xa\u0301\u0327"  # NFD puts the cedilla before the acute accent
    assert decompose(text) == ("xa\u0327\u0301", [0, 1, 3, 2])
    assert find_answers(text, [text]) == [(0, 4)]


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


def test_with_an_offset_its_snippet_is_the_view_and_with_several_the_first_that_fits_decides():
    assert answer_views(SPANS, TEXT, ["Paris"], [27]) == ((3,), "offset")
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
    assert answer_views([*SPANS, (15, 27)], TEXT, [r"Ro\w+"], None, "regex") == ((2,), "one")


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


CJK = st.lists(st.sampled_from([*"東京はガ서울가A1é. 。-", "ｶﾞ"]), max_size=20).map("".join)


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


@given(CJK, st.text("東京ガ서A1", min_size=1, max_size=3) | st.just("ｶﾞ"))
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
    found = list(re.finditer(r"\w+|[^\w\s]", text.lower()))
    wanted = answer.split()
    plain = [
        (found[first].start(), found[first + len(wanted) - 1].end())
        for first in range(len(found) - len(wanted) + 1)
        if [token[0] for token in found[first : first + len(wanted)]] == wanted
    ]
    assert find_answers(text, [answer]) == plain
