"""The fast sentence splitter, which finds NLTK's spans."""

from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nltk.tokenize.punkt import PunktTokenizer

from multiview.data.punkt import FastTokenizer
from multiview.data.sentences import PUNKT

PIECES = (
    *(
        "Mr.",
        "Smith",
        "U.S.",
        "e.g.",
        "i.e.",
        "J.",
        "No",
        "Ph.D",
        "etc",
        "p.m",
        "3.5",
        "1990",
        "10,000",
        "-5",
    ),
    *("the", "The", "He", "In", "century", "war", "word", "don't", "e-mail", "Jan", "vs", "Bros"),
    *(
        ".",
        ".",
        ".",
        ". ",
        ". ",
        ".. ",
        "...",
        ". . .",
        "?",
        "!",
        "?!",
        "!?. ",
        ",",
        ", ",
        ";",
        ":",
        "--",
        "-",
    ),
    *(
        " ",
        " ",
        "  ",
        "\n",
        "\n\n",
        "\t",
        "\r\n",
        "\x0b",
        "\x0c",
        "\x1c",
        "\x1f",
        "\x85",
        "\xa0",
        "\u2028",
        "\u3000",
    ),
    *(
        '"',
        "'",
        ")",
        "(",
        "[",
        "]",
        "{",
        "}",
        "*",
        "@",
        "&",
        "#",
        "\u2018",
        "\u2019",
        "\u201c",
        "\u201d",
        "«",
        "»",
    ),
    *("é", "É", "ß", "½", "²", "…", "東", "e\u0301", "\u200b", "İ", "ς", "\0"),
)
TEXTS = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=40).map("".join),
    st.lists(st.sampled_from(PIECES), max_size=20).map(" ".join),
    st.text(max_size=40),
)


@cache
def both() -> tuple[FastTokenizer, PunktTokenizer]:
    return FastTokenizer("english"), PunktTokenizer("english")


@settings(max_examples=1500, deadline=None)
@given(TEXTS)
@example(" .A .B. C")
@example("a. b.c. D")
@example("One.) Two.\u201d Three.'' Four.")
@example("Was it?! He came. . . . They left.\n\n  ) Then")
@example("word.\n\nNext. ")
def test_spans_are_those_of_nltk(text):
    fast, plain = both()
    assert list(fast.span_tokenize(text)) == list(plain.span_tokenize(text))
    # Again, now that its words and pairs of words are remembered.
    assert list(fast.span_tokenize(text)) == list(plain.span_tokenize(text))


@pytest.mark.parametrize("language", sorted(PUNKT))
def test_so_are_those_of_other_languages(language):
    try:
        plain = PunktTokenizer(language)
    except LookupError:
        pytest.skip(f"no data of {language}")
    fast = FastTokenizer(language)
    text = "Am 3. Mai kam Dr. Meyer. Er ging z. B. nach Haus!? »Ja.« M. Dupont est venu. Il dit « oui ». El Sr. Díaz. No."
    assert list(fast.span_tokenize(text)) == list(plain.span_tokenize(text))
