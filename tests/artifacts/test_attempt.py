"""Of several attempts at an artifact the first wins, and a failed one is no obstacle."""

from multiview.artifacts.attempt import Attempt
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


def test_who_may_read_the_store_may_read_all_of_an_artifact(tmp_path):
    """safetensors writes its files for their owner alone."""
    attempt = Attempt(LocalStore(tmp_path), "passages", "k")
    (attempt.path / "part").mkdir()
    for name, mode in (("weights", 0o600), ("part/weights", 0o600), ("program", 0o755)):
        (attempt.path / name).write_text("text")
        (attempt.path / name).chmod(mode)
    attempt.path.chmod(0o755)
    record, _ = attempt.publish(**DESCRIPTION)
    modes = {
        name: (tmp_path / record.data / name).stat().st_mode & 0o777
        for name in (file.path for file in record.files)
    }
    assert modes == {"weights": 0o644, "part/weights": 0o644, "program": 0o755}


def test_what_is_published_survives_a_failure_that_comes_after(tmp_path):
    """If a step's second output cannot be written, the data of its first output stay."""
    store = LocalStore(tmp_path)
    attempt = Attempt(store, "passages", "k")
    (attempt.path / "a.txt").write_text("text")
    record, _ = attempt.publish(**DESCRIPTION)
    attempt.abandon()
    verify(store, record)
