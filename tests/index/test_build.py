"""Which embeddings make an index."""

import shutil
from collections.abc import Sequence
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

FILES = [f"shard-{number:02d}.parquet" for number in range(3)]


def test_an_index_is_of_all_shards_of_its_passages_in_order(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    passages = split(store, tmp_path / "p", FILES)
    shards = encoded(store, tmp_path, passages)
    for length in range(1, 4):
        for given in permutations(shards, length):
            if [*given] == shards:
                build(tmp_path / "index", passages, given)
            else:
                with pytest.raises(InputError, match="give those of each shard of .* once, in order$"):
                    build(tmp_path / "-".join(["of", *(shard.path.name for shard in given)]), passages, given)


def test_an_index_is_of_the_contents_of_shards_whatever_their_names(tmp_path: Path) -> None:
    """A shard that another corpus has too, in another place, is encoded once; another text of the same place is not it."""
    store = LocalStore(tmp_path / "store")
    shards = encoded(store, tmp_path, split(store, tmp_path / "p", FILES))
    build(tmp_path / "reversed", split(store, tmp_path / "q", FILES[::-1]), shards[::-1])
    other = split(store, tmp_path / "r", [*FILES[:2], "another text"])
    with pytest.raises(InputError, match=f"give those of each shard of {other.address} once, in order$"):
        build(tmp_path / "other", other, shards)
    store.remove(f"passages/{other.key}")
    store.remove("passages/p")
    build(tmp_path / "gone", split(store, tmp_path / "s", FILES), shards)


def split(store: LocalStore, folder: Path, texts: Sequence[str]) -> Reference:
    """A corpus of one passage a shard, each with its text as id."""
    attempt = Attempt(store, "passages", folder.name)
    corpus = write_passages(folder, [passage(text, text) for text in texts], shards=len(texts))
    shutil.copytree(corpus, attempt.path, dirs_exist_ok=True)
    return Reference.to(store, attempt.publish(step="split", step_version=1, config={}, inputs={})[0])


def encoded(store: LocalStore, folder: Path, passages: Reference) -> list[LocalArtifact]:
    shards = []
    for number, file in enumerate(FILES):
        read = {"passages": [passages.model_copy(update={"file": file})]}
        made = publish(store, "embeddings", f"e{number}", read)
        views = write_embeddings(folder / f"e{number}", [f"p{number}"], [np.ones((2, 4))])
        shards.append(LocalArtifact(views, file, made.address))
    return shards


def build(output: Path, passages: Reference, shards: Sequence[LocalArtifact]) -> None:
    output.mkdir()
    inputs = {"model": Reference(address="", digest="model"), "passages": passages, "embeddings": [*shards]}
    chosen = Config.partial({"index": Index(), "encode": Encode()})
    build_index(StepContext(chosen, inputs, {"index": output}, RecordedEvents()))
