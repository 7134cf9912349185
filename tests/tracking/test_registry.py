"""Registered models: versions that stand for indexes, and aliases that mirror a mapping."""

import shutil
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient

from multiview import tracking
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Reference, load_record
from multiview.artifacts.store import LocalStore
from multiview.cli import app
from multiview.cli.lookup import Lookup
from multiview.errors import InputError
from tests.fixtures.published_index import publish, publish_index
from tests.fixtures.servers import new_database


@pytest.fixture(scope="module")
def store(tmp_path_factory) -> LocalStore:
    return LocalStore(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def uri(store) -> str:
    return new_database(store.root)


@pytest.fixture(scope="module")
def indexes(store, uri) -> list[Reference]:
    """Three indexes; MLflow has the run of the first one."""
    made = [publish_index(store, key) for key in ("one", "two", "three")]
    tracking.ship(store, "one", uri)
    return made


def aliases(uri: str, name: str) -> dict[str, str]:
    return {alias: str(of) for alias, of in MlflowClient(uri).get_registered_model(name).aliases.items()}


def test_an_index_is_one_version_however_often_it_is_registered(indexes, uri):
    name = tracking.model_name(indexes[0])
    assert name == "multiview-my-passages.parquet"
    assert [tracking.register(uri, index, name) for index in indexes[:2]] == ["1", "2"]
    assert tracking.register(uri, indexes[0], name, ["champion"]) == "1"
    assert len(MlflowClient(uri).search_model_versions(f"name = '{name}'")) == 2
    assert tracking.registered_index(uri, f"models:/{name}@champion") == indexes[0].address
    assert tracking.registered_index(uri, f"models:/{name}/2") == indexes[1].address


def test_a_version_names_the_run_that_built_it(indexes, uri):
    tracking.register(uri, indexes[0], "of-run")
    version = MlflowClient(uri).get_model_version("of-run", "1")
    assert version.run_id is not None
    tags = MlflowClient(uri).get_run(version.run_id).data.tags
    assert (tags["multiview.run"], tags["multiview.step"]) == ("one", "index")
    assert version.source == f"runs:/{version.run_id}/index"
    assert version.tags == {"multiview.index": indexes[0].address, "sha256": indexes[0].digest}
    assert version.description == "1,200 passages, 4,000 views of width 8"


def test_aliases_are_repaired_from_a_mapping_and_others_left_alone(indexes, uri):
    one, two, three = indexes
    client = MlflowClient(uri)
    assert tracking.repair(uri, "mirror", {"champion": one}) == {"champion": "1"}
    client.set_registered_model_alias("mirror", "mine", "1")
    assert tracking.repair(uri, "mirror", {"champion": two, "previous": one, "challenger": three}) == {
        "champion": "2",
        "previous": "1",
        "challenger": "3",
    }
    # As somebody's hand, or a crash between two calls, may leave them.
    client.set_registered_model_alias("mirror", "champion", "3")
    client.delete_registered_model_alias("mirror", "previous")
    wanted = {"champion": two, "previous": one}
    for _ in range(2):
        tracking.repair(uri, "mirror", wanted)
        assert aliases(uri, "mirror") == {"champion": "2", "previous": "1", "mine": "1"}
    tracking.repair(uri, "mirror", {})
    assert aliases(uri, "mirror") == {"mine": "1"}


def test_indexes_of_the_same_bytes_over_other_passages_are_two_versions(indexes, uri, store):
    attempt = Attempt(store, "index", "i-twin")
    (attempt.path / "data").write_bytes(
        (store.root / load_record(indexes[0].address)[1].data / "data").read_bytes()
    )
    facts = {"passages": 1200, "views": 4000, "dim": 8}
    attempt.publish(step="index", step_version=0, config={}, inputs={}, facts=facts)
    same = indexes[0].model_copy(update={"address": f"{store.url}/index/i-twin"})
    for _ in range(2):
        versions = tracking.repair(uri, "twins", {"champion": same, "previous": indexes[0]})
        assert len(set(versions.values())) == 2
        assert tracking.registered_index(uri, "models:/twins@champion") == same.address
        assert tracking.registered_index(uri, "models:/twins@previous") == indexes[0].address


def test_a_store_that_was_moved_is_followed(indexes, uri, store, tmp_path):
    tracking.register(uri, indexes[0], "moved", ["champion"])
    shutil.copytree(store.root / "index", tmp_path / "index")
    moved = indexes[0].model_copy(update={"address": f"{tmp_path}/index/i-one"})
    assert tracking.register(uri, moved, "moved") == "1"
    assert tracking.registered_index(uri, "models:/moved@champion") == moved.address


def test_what_is_no_index_is_not_registered(indexes, uri, store):
    passages = publish(store, "passages", "alone")
    with pytest.raises(InputError, match="is the address of passages"):
        tracking.register(uri, passages, "wrong")
    with pytest.raises(InputError, match="it was rebuilt since"):
        tracking.register(uri, indexes[0].model_copy(update={"digest": "0" * 64}), "wrong")
    with pytest.raises(InputError, match="^MLflow at .*alias"):
        tracking.register(uri, indexes[0], "alias", ["v1"])


def test_an_address_alone_is_registered_in_the_mlflow_of_its_own_store(
    indexes, store, tmp_path, monkeypatch, capsys
):
    shutil.copytree(store.root / "index", tmp_path / "copy" / "index")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for name in ("MULTIVIEW_STORE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    address = f"{tmp_path}/copy/index/i-one"
    monkeypatch.setattr(sys, "argv", ["multiview", "register", address, "--name", "alone"])
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert (ended.value.code, capsys.readouterr().out) == (0, "models:/alone/1\n")
    assert not list((tmp_path / "here").iterdir())
    uri = f"sqlite:///{tmp_path}/copy/mlflow.db"
    assert tracking.registered_index(uri, "models:/alone/1") == address


def test_the_command_registers_and_says_what_to_ask(indexes, uri, store, monkeypatch, capsys):
    client = MlflowClient(uri)
    (experiment,) = client.search_experiments(filter_string="name = 'multiview'")
    tracking.ship(store, "two", uri)
    (step,) = client.search_runs(
        [experiment.experiment_id],
        f"tags.`output.index` = '{indexes[1].address}'",
    )
    assert Lookup(store.url, uri).index(step.info.run_id) == indexes[1].address
    for words, said in (
        (["register", indexes[2].address, "--alias", "champion", "--name", "by-hand"], ["1", "@champion"]),
        (["register", "three", "--store", store.url, "--name", "by-hand"], ["1"]),
    ):
        monkeypatch.setattr(sys, "argv", ["multiview", *words, "--tracking-uri", uri])
        with pytest.raises(SystemExit) as ended:
            app.main()
        assert not ended.value.code
        expected = [f"models:/by-hand{'' if of.startswith('@') else '/'}{of}" for of in said]
        assert capsys.readouterr().out.splitlines() == expected
    assert Path(tracking.registered_index(uri, "models:/by-hand@champion")).name == "i-three"
