"""Records: the versions that are read, what the digest covers, and their addresses."""

import pytest

from multiview.artifacts.record import digest_of, load_record, read_record, split_address
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from tests.fixtures.published import publish


def test_a_record_of_another_version_is_not_called_damaged(tmp_path):
    store = LocalStore(tmp_path)
    store.create("passages/k/artifact.json", b'{"schema_version": 99, "news": true}')
    with pytest.raises(InputError, match="later version of multiview"):
        read_record(store, "passages", "k")
    store.create("passages/l/artifact.json", b'{"schema_version": 1}')
    with pytest.raises(
        InputError, match="version of multiview that this one does not read: remove the folder"
    ):
        read_record(store, "passages", "l")
    store.create("passages/m/artifact.json", b'{"schema_version": "1"}')
    with pytest.raises(InputError, match="is damaged: remove the folder"):
        read_record(store, "passages", "m")


@pytest.mark.parametrize("place", ["..", "../../victim", "/etc", "a/../../b", "a//b", ".", "", "a\x1b]0;b"])
@pytest.mark.parametrize("where", ["kind", "key", "digest", "attempt", "file"])
def test_a_record_that_names_a_place_outside_its_folder_is_damaged(tmp_path, where, place):
    """`multiview repair` of another person's store would remove that place."""
    store = LocalStore(tmp_path)
    record, _ = publish(store, "k", "text")
    wrong = (
        {where: place} if where != "file" else {"files": [record.files[0].model_copy(update={"path": place})]}
    )
    (tmp_path / "passages/k/artifact.json").write_bytes(record.model_copy(update=wrong).to_json())
    with pytest.raises(InputError, match="is damaged: remove the folder"):
        read_record(store, "passages", "k")


def test_the_digest_is_over_paths_and_contents_alone(tmp_path):
    one, _ = publish(LocalStore(tmp_path / "one"), "k", "same")
    two, _ = publish(LocalStore(tmp_path / "two"), "other", "same")
    three, _ = publish(LocalStore(tmp_path / "two"), "third", "different")
    assert one.digest == two.digest == digest_of(reversed(one.files)) != three.digest
    assert [file.path for file in one.files] == ["a.txt", "deep/b.txt"]
    assert [file.bytes for file in one.files] == [4, 8]


def test_addresses(tmp_path):
    record, _ = publish(LocalStore(tmp_path), "k", "text")
    assert split_address("gs://bucket/folder/model/abc") == ("gs://bucket/folder", "model", "abc")
    assert load_record(f"{tmp_path}/passages/k")[1] == record
    for address in (f"{tmp_path}/passages/none", "nonsense"):
        with pytest.raises(InputError):
            load_record(address)
