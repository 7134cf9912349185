"""One artifact of the queries of all shards."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from multiview.data.passages import shard_name
from multiview.data.queries import FILE


def gather_queries(settings: Any, inputs: dict[str, Any], output: dict[str, Path], tell: Any) -> None:
    """Step: the queries of all shards, `parts`, side by side, so that a step on one shard of the passages finds its own.

    Output `queries`: a file for each of the passages' shards, of the same name.
    """
    shards = inputs["parts"]
    for number, shard in enumerate(shards):
        shutil.copyfile(shard.path / FILE, output["queries"] / shard_name(number))
        tell.progress(number + 1, len(shards), "shards")
