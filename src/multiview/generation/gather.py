"""One artifact of the queries of all shards."""

from __future__ import annotations

import shutil

from multiview.data.passages import shard_name
from multiview.data.queries import FILE
from multiview.steps.context import StepContext


def gather_queries(context: StepContext) -> None:
    """Step: the queries of all shards, `parts`, side by side, so that a step on one shard of the passages finds its own.

    Output `queries`: a file for each of the passages' shards, of the same name.
    """
    shards = context.list_input("parts")
    for number, shard in enumerate(shards):
        shutil.copyfile(shard.path / FILE, context.output("queries") / shard_name(number))
        context.events.progress(number + 1, len(shards), "shards")
