"""Mappings of columns; those that readers require are in the readers' tests."""

import pytest

from multiview.data.checks import check_mapped
from multiview.errors import InputError, Problems


def test_a_mapped_column_is_in_some_file():
    mapped = {"relevance": "grade", "answers": "short"}
    check_mapped(mapped, {"qid", "grade", "short"})
    check_mapped(mapped, ())  # no file names its columns
    with pytest.raises(
        InputError, match=r"^questions\.columns=\{relevance: grade\}: .*; did you mean grades\?$"
    ):
        check_mapped(mapped, {"qid", "grades", "short"})
    problems = Problems()
    check_mapped(mapped, {"qid", "question"}, problems)
    assert problems.counts == {"settings that do not suit the data": 2}
    assert problems.first.popitem()[1].endswith(
        "no file of questions has this column; there are: qid, question"
    )
