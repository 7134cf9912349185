"""Steps that encode passages and build indexes."""

from __future__ import annotations

from multiview import names
from multiview.steps.step import Step

STEPS = (
    Step(
        name="encode",
        version=6,
        function_path="multiview.encoding.encode:encode",
        settings=("encode",),
        inputs=("model", "passages"),
        outputs=(names.EMBEDDINGS,),
        sharded=True,
        gpu=True,
    ),
    Step(
        name="encode-with-queries",
        version=7,
        function_path="multiview.encoding.encode:encode",
        settings=("encode",),
        inputs=("model", "passages", "queries"),
        outputs=(names.EMBEDDINGS,),
        sharded=True,
        gpu=True,
    ),
    Step(
        name="index",
        version=8,
        function_path="multiview.index.build:build_index",
        settings=("index", "encode"),
        # The record names the model and passages itself, because embeddings are not kept for ever.
        inputs=("model", "passages", "embeddings"),
        recorded_inputs=("model", "passages"),
        list_inputs=("embeddings",),
        outputs=(names.INDEX,),
    ),
)
