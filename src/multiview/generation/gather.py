"""Gathering of the queries of all shards into one artifact."""

from __future__ import annotations

import shutil

from multiview.data.queries import FILE
from multiview.steps.context import StepContext
from multiview.steps.path import shard_file, shard_name


def gather_queries(context: StepContext) -> None:
    """Step: gathers the queries of all shards, `parts`, so that a step on one shard of the passages finds its queries.

    Output `queries`: one file per shard of the passages, with the same name.
    """
    shards = context.list_input("parts")
    for index, shard in enumerate(shards):
        shutil.copyfile(shard.path / FILE, context.output("queries") / shard_file(shard_name(index)))
        context.events.progress(index + 1, len(shards), "shards")
