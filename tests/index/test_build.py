"""Which embeddings make an index."""

import shutil
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Reference
from multiview.artifacts.staging import LocalArtifact
from multiview.artifacts.store import LocalStore
from multiview.config import Config, Encode, Index
from multiview.errors import InputError
from multiview.index.build import build_index
from multiview.steps.context import StepContext
from tests.fixtures.artifacts import passage, write_embeddings, write_passages
from tests.fixtures.events import RecordedEvents
from tests.fixtures.published_index import publish


def test_an_index_is_of_all_shards_of_its_passages_in_order(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    attempt, files = Attempt(store, "passages", "p"), [f"shard-{number:02d}.parquet" for number in range(3)]
    corpus = write_passages(tmp_path / "p", [passage(file, file) for file in files], shards=3)
    shutil.copytree(corpus, attempt.path, dirs_exist_ok=True)
    record, _ = attempt.publish(step="split", step_version=1, config={}, inputs={})
    passages, shards = Reference.to(store, record), []
    for number, file in enumerate(files):
        read = {"passages": [passages.model_copy(update={"file": file})]}
        made = publish(store, "embeddings", f"e{number}", read)
        folder = write_embeddings(tmp_path / f"e{number}", [f"p{number}"], [np.ones((2, 4))])
        shards.append(LocalArtifact(folder, file, made.address))
    for length in range(1, 4):
        for given in permutations(shards, length):
            (output := tmp_path / "-".join(["index", *(shard.path.name for shard in given)])).mkdir()
            inputs = {
                "model": Reference(address="", digest="model"),
                "passages": passages,
                "embeddings": [*given],
            }
            chosen = Config.partial({"index": Index(), "encode": Encode()})
            context = StepContext(chosen, inputs, {"index": output}, RecordedEvents())
            if [*given] == shards:
                build_index(context)
            else:
                with pytest.raises(InputError, match="give those of each shard once, in order"):
                    build_index(context)
