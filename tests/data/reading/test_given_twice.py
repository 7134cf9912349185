"""Keys that are given twice."""

import io
import json

import ijson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multiview.data.reading.given_twice import GivenTwice, first_twice, noting, once

PAIRS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9)), max_size=5)


@given(PAIRS)
def test_an_object_is_that_of_the_parser_or_refused_with_both_parsers_alike(pairs):
    text = "{" + ", ".join(f"{json.dumps(key)}: {value}" for key, value in pairs) + "}"
    found: list[GivenTwice] = []
    (by_ijson,) = ijson.items(io.BytesIO(text.encode()), "", map_type=noting(found))
    if len({key for key, _ in pairs}) == len(pairs):
        assert json.loads(text, object_pairs_hook=once) == by_ijson == json.loads(text)
        assert not found
        return
    with pytest.raises(GivenTwice) as caught:
        json.loads(text, object_pairs_hook=once)
    assert (str(caught.value), caught.value.before) == (str(found[0]), found[0].before)


@given(st.lists(st.sampled_from("abcdef")))
def test_the_first_that_came_before(keys):
    twice = [key for number, key in enumerate(keys) if key in keys[:number]]
    assert first_twice(keys) == (twice[0] if twice else None)
