"""Values of files: texts that show nothing count as empty, and ids that trec_eval would cut are refused."""

import unicodedata
from decimal import Decimal

import pyarrow as pa
import pytest

from multiview.data.reading.readers import passage_tables
from multiview.data.reading.values import check_ids, is_blank, number_texts
from multiview.errors import InputError

CHARACTERS = [chr(code) for code in range(0x110000) if not 0xD800 <= code <= 0xDFFF]


def test_white_space_and_controls_show_nothing_and_letters_do():
    for character in CHARACTERS:
        if character.isspace() or unicodedata.category(character) in ("Cc", "Zs", "Zl", "Zp"):
            assert is_blank(character), hex(ord(character))
        elif unicodedata.category(character)[0] in "NP" or unicodedata.category(character) in (
            "Lu",
            "Ll",
            "Lm",
        ):
            assert not is_blank(character), hex(ord(character))


@pytest.mark.parametrize("text", ["", " ", "\u200b", "\ufeff\u2060\n", "\u3164", "\u00ad", "\U000e0020"])
def test_invisible_texts_are_blank_and_with_a_letter_they_are_not(text):
    assert is_blank(text) and not is_blank(text + "a")


def test_a_decimal_as_text_has_its_digits_and_no_exponent():
    """The type is that of BigQuery's NUMERIC."""
    ids = pa.array(
        [Decimal("0"), Decimal("12"), Decimal("-1.50"), Decimal("0.000000001"), None], pa.decimal128(38, 9)
    )
    assert number_texts(ids).to_pylist() == ["0", "12", "-1.500000000", "0.000000001", None]


def test_a_title_that_nobody_sees_is_no_title(tmp_path):
    file = tmp_path / "p.jsonl"
    file.write_text(
        '{"id": "a", "title": "\u200b", "text": "One."}\n{"id": "b", "title": "T", "text": "Two."}\n'
    )
    (table,) = passage_tables(str(file))
    assert table.column("title").to_pylist() == ["", "T"]


def test_an_id_that_would_be_cut_is_named_and_any_other_is_taken():
    check_ids(("", "a b", "50%", "Zürich", "a\n\x01"), "q.jsonl row 1: id")
    with pytest.raises(InputError, match=r"^q\.jsonl row 1: id 'a\\x00b' holds a NUL character, .*without$"):
        check_ids(("a", "a\0b"), "q.jsonl row 1: id")
