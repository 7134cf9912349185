"""Of several attempts at an artifact the first wins, and a failed one is no obstacle."""

import pytest

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import read_record
from multiview.artifacts.staging import verify
from multiview.artifacts.store import LocalStore
from tests.fixtures.published import DESCRIPTION, publish


def test_of_two_attempts_the_first_wins_and_the_other_leaves_nothing(tmp_path):
    store = LocalStore(tmp_path)
    first, ours = publish(store, "k", "first")
    second, theirs = publish(store, "k", "second")
    assert ours and not theirs
    assert second == first
    assert store.folders("passages/k/attempts") == [first.attempt]


@pytest.mark.parametrize("point", ["save", "record"])
def test_a_crash_before_any_write_leaves_no_artifact_and_no_obstacle(tmp_path, point):
    store = LocalStore(tmp_path)

    def crash(reached: str) -> None:
        if reached == point:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        publish(store, "k", "text", crash=crash)
    assert read_record(store, "passages", "k") is None
    assert publish(store, "k", "text")[1]


def test_what_is_published_survives_a_failure_that_comes_after(tmp_path):
    """If a step's second output cannot be written, the data of its first output stay."""
    store = LocalStore(tmp_path)
    attempt = Attempt(store, "passages", "k")
    (attempt.path / "a.txt").write_text("text")
    record, _ = attempt.publish(**DESCRIPTION)
    attempt.abandon()
    verify(store, record)
