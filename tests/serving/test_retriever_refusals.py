"""What `multiview.load` says of an index that is gone, damaged or of another version: the artifact, and the way out."""

import time

import pytest

import multiview
from multiview.artifacts.staging import SETTLED
from multiview.errors import InputError


def test_what_is_no_index_is_refused_before_anything_is_loaded(indexes):
    model = indexes.record("camvr/initial-model", "model")
    with pytest.raises(InputError, match="is the address of model, not of an index$"):
        multiview.load(f"{indexes.store.url}/{model.folder}")
    with pytest.raises(InputError, match=r"there is no artifact at .*/index/none: run the step"):
        multiview.load(f"{indexes.store.url}/index/none")
    with pytest.raises(InputError, match="is no artifact address"):
        multiview.load("index")
    with pytest.raises(InputError, match="torch has no device 'tpux' here"):
        multiview.load(indexes.index("dpr"), device="tpux")


def test_a_question_that_utf_8_cannot_write_is_refused(indexes):
    loaded = multiview.load(indexes.index("dpr"))
    for asked in (lambda: loaded.search(["whole", "a\ud800"]), lambda: loaded.question_vector("a\ud800")):
        with pytest.raises(InputError, match=r"question 'a\\ud800' holds half a character"):
            asked()


@pytest.mark.parametrize(("path", "kind"), [("camvr/initial-model", "model"), ("split", "passages")])
def test_an_index_whose_source_is_gone_names_it(indexes, tmp_path, path, kind):
    broken = indexes.copy(tmp_path / "store")
    record = indexes.record(path, kind)
    broken.store.remove(record.folder)
    with pytest.raises(InputError) as error:
        multiview.load(broken.index("camvr"))
    # Its records name the store where it was made.
    assert str(error.value) == (
        f"index {broken.index('camvr')}: there is no artifact at {indexes.store.root.parent}/first/{record.folder}: "
        "run the step that makes it again"
    )


@pytest.mark.parametrize(
    ("system", "path", "kind", "files"),
    [
        ("pooled", "pooled/round-0/index", "index", ["index.faiss", "views.f16"]),
        ("camvr", "camvr/round-0/index", "index", ["views.f16", "index.json", "passages.parquet"]),
        ("camvr", "camvr/initial-model", "model", ["question/model.safetensors", "question/tokenizer.json", "multiview.json"]),
        ("camvr", "split", "passages", ["shard-01.parquet"]),
    ],
)  # fmt: skip
def test_a_damaged_file_is_named_with_the_way_out(indexes, tmp_path, system, path, kind, files):
    broken = indexes.copy(tmp_path / "store")
    record = indexes.record(path, kind)
    address = f"{broken.store.url}/{record.folder}"
    way_out = f"remove the folder {address} (multiview repair {address}) and run again to rebuild it (step {record.step})"

    def said(verify: bool = False) -> str:
        with pytest.raises(InputError) as error:
            multiview.load(broken.index(system), verify=verify)
        return str(error.value)

    for target in (broken.files(record) / file for file in files):
        whole = target.read_bytes()
        target.write_bytes(whole[:-1])
        assert said() == f"{target} has {len(whole) - 1} bytes instead of {len(whole)}: {way_out}"
        target.write_bytes(b"\0" * len(whole))
        # Views of zeros look like any others until every byte is read.
        altered = said(verify=target.name == "views.f16")
        assert altered == f"{target} was altered (its sha256 differs): {way_out}"
        target.unlink()
        assert said() == f"{target} is missing: {way_out}"
        target.write_bytes(whole)


def test_a_file_that_was_written_to_since_it_was_found_whole_is_read(indexes, tmp_path):
    broken = indexes.copy(tmp_path / "store")
    record = indexes.record("camvr/round-0/index", "index")
    target = broken.files(record) / "views.f16"
    time.sleep(SETTLED / 1e9)
    multiview.load(broken.index("camvr"), verify=True)  # which remembers what was found whole
    content = bytearray(target.read_bytes())
    content[-1] ^= 1
    target.write_bytes(content)
    with pytest.raises(InputError, match=r"views\.f16 was altered"):
        multiview.load(broken.index("camvr"))


def test_texts_damaged_after_loading_are_named(indexes, tmp_path):
    broken = indexes.copy(tmp_path / "store")
    loaded = multiview.load(broken.index("camvr"))
    for shard in broken.files(indexes.record("split", "passages")).iterdir():
        shard.write_bytes(b"\0" * shard.stat().st_size)
    with pytest.raises(InputError, match=r"shard-00\.parquet was altered"):
        loaded.search(["Tesla?"])


def test_a_source_that_was_rebuilt_with_other_bytes_is_refused(indexes, tmp_path):
    broken = indexes.copy(tmp_path / "store")
    record = indexes.record("camvr/initial-model", "model")
    other = record.model_copy(update={"digest": "0" * 64})
    broken.store.replace(f"{record.folder}/artifact.json", other.to_json())
    # It is not what is meant here, and where it was made there is none.
    with pytest.raises(InputError, match=f"first/{record.folder}: run the step"):
        multiview.load(broken.index("camvr"))
