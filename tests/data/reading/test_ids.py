"""Ids that trec_eval would cut; each reader's own lines are in its tests."""

import pytest

from multiview.data.reading.ids import check_ids
from multiview.errors import InputError


def test_an_id_that_would_be_cut_is_named_and_any_other_is_taken():
    check_ids(("", "a b", "50%", "Zürich", "a\n\x01"), "q.jsonl row 1: id")
    with pytest.raises(InputError, match=r"^q\.jsonl row 1: id 'a\\x00b' holds a NUL character, .*without$"):
        check_ids(("a", "a\0b"), "q.jsonl row 1: id")
