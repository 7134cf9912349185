"""`write_views`: public files that appear whole or not at all."""

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from multiview.artifacts.record import load_record
from multiview.errors import InputError
from multiview.export import files
from multiview.export import views as index_views
from multiview.export.files import write_views
from multiview.export.views import IndexViews
from tests.fixtures.system_indexes import SYSTEMS


def bytes_of(folder: Path) -> dict[str, str]:
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.iterdir()}


@pytest.mark.parametrize("system", SYSTEMS)
def test_files_hold_the_rows_of_the_index(indexes, system, tmp_path):
    views = IndexViews.open(indexes.index(system))
    manifest = write_views(views, tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / "views-00000.parquet")
    rows = pa.Table.from_batches(views.batches())
    assert table.schema.remove_metadata() == views.schema, "types survive, the vector's length too"
    assert table.replace_schema_metadata(None).equals(rows)
    assert manifest["views"] == len(views.index.views) == table.num_rows


def test_the_schema_says_what_the_rows_are(indexes, tmp_path):
    address = indexes.index("camvr")
    write_views(IndexViews.open(address), tmp_path / "out")
    record = load_record(address)[1]
    metadata = pq.read_schema(tmp_path / "out" / "views-00000.parquet").metadata
    assert {key.decode(): value.decode() for key, value in metadata.items()} == {
        "multiview.format": "views",
        "multiview.version": "1",
        "multiview.index": record.folder,
        "multiview.digest": record.digest,
        "multiview.model": record.inputs["model"][0].digest,
        "multiview.passages": record.inputs["passages"][0].digest,
        "multiview.dimension": "64",
        "multiview.similarity": "dot product",
        "multiview.score": "the max over a passage's views of the dot product with the question's vector",
    }
    assert json.loads((tmp_path / "out" / "export.json").read_text())["digest"] == record.digest


def test_equal_indexes_give_equal_bytes_in_bounded_row_groups_and_files(indexes, tmp_path, monkeypatch):
    """Also in a store that lies elsewhere."""
    monkeypatch.setattr(index_views, "VIEWS_AT_ONCE", 5)
    monkeypatch.setattr(files, "GROUPS_PER_FILE", 2)
    moved = indexes.copy(tmp_path / "store")
    for number, each in enumerate((indexes, moved)):
        write_views(IndexViews.open(each.index("camvr")), tmp_path / str(number))
    assert bytes_of(tmp_path / "0") == bytes_of(tmp_path / "1")
    parts = sorted((tmp_path / "0").glob("*.parquet"))
    groups = [pq.read_metadata(part) for part in parts]
    assert [each.num_row_groups for each in groups[:-1]] == [2] * (len(parts) - 1) and len(parts) > 1
    assert all(each.row_group(0).num_rows <= 5 for each in groups)
    rows = pa.Table.from_batches(IndexViews.open(indexes.index("camvr")).batches())
    assert pa.concat_tables(map(pq.read_table, parts)).replace_schema_metadata(None).equals(rows)


def test_a_whole_number_of_files_has_no_empty_one_and_no_view_is_one_empty_file(
    indexes, tmp_path, monkeypatch
):
    views = IndexViews.open(indexes.index("mvr"))
    batch = next(views.batches())
    for groups, rows in ((files.GROUPS_PER_FILE, [batch.num_rows * files.GROUPS_PER_FILE]), (0, [0])):
        folder = tmp_path / str(groups)
        monkeypatch.setattr(views, "batches", lambda groups=groups: iter([batch] * groups))
        manifest = write_views(views, folder)
        assert list(manifest["files"].values()) == rows
        assert pq.read_schema(folder / "views-00000.parquet").remove_metadata() == views.schema


def test_a_folder_that_is_filled_or_cannot_be_replaced_is_refused_before_the_work(
    indexes, tmp_path, monkeypatch
):
    views = IndexViews.open(indexes.index("mvr"))
    (tmp_path / "here").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "broken").symlink_to(tmp_path / "gone")
    for out, way in (
        (Path(), "name one inside it"),
        (tmp_path / "link", "name one inside it"),
        (tmp_path / "broken", "remove the link"),
    ):
        with pytest.raises(InputError, match=f"cannot be replaced by the finished folder: {way}"):
            write_views(views, out)
    assert not any((tmp_path / "here").iterdir())
    (tmp_path / "empty").mkdir()
    write_views(views, tmp_path / "empty")
    with pytest.raises(InputError, match="exists and is not an empty folder"):
        write_views(views, tmp_path / "empty")


def test_what_was_begun_is_not_left_behind(indexes, tmp_path, monkeypatch):
    views = IndexViews.open(indexes.index("mvr"))

    class EndsEarly(IndexViews):
        def batches(self, rows=None):
            assert (tmp_path / "out").exists() is False, "nothing is seen before the end"
            yield next(super().batches())
            raise OSError(28, "No space left on device")

    views = EndsEarly(views.name, views.index, views.layout, views.corpus)
    with pytest.raises(OSError, match="No space left"):
        write_views(views, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
