"""Row groups whose sentences are begun ahead of the one that is written."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from multiview.data.passages import ROW_GROUP
from multiview.data.sentences import ENDS
from multiview.data.shards import AHEAD, begin_groups, write_shards


def test_sentences_are_begun_at_once_and_written_in_order(tmp_path: Path) -> None:
    count, begun = (AHEAD + 3) * ROW_GROUP, [0]

    def sentences_of(texts: Sequence[str], hashes: Sequence[str]) -> Callable[[], pa.Array]:
        begun[0] += 1
        return lambda: pa.array([[len(text)] for text in texts], ENDS)

    ids = [f"p{i}" for i in range(count)]
    table = pa.table({"id": ids, "title": [""] * count, "text": ids})
    groups = begin_groups([table], count, 1, sentences_of)
    assert begun == [AHEAD], "before any group is taken"
    assert write_shards(groups, count, 1, tmp_path, lambda done, total, what: None) == count
    assert begun == [AHEAD + 3]
    (file,) = tmp_path.iterdir()
    assert pq.read_table(file)["id"].to_pylist() == ids
