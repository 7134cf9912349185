"""`multiview lineage`: the tree, JSON, and what is found by MLflow's ids."""

import io
import json
import shutil
import sys

import pytest
from mlflow import MlflowClient

from multiview import tracking
from multiview.artifacts.record import split_address
from multiview.artifacts.store import LocalStore
from multiview.cli import app
from multiview.cli.console import Console
from multiview.cli.lineage import as_json, print_lineage
from multiview.cli.lookup import Lookup
from multiview.lineage.trace import Lineage
from tests.fixtures.evaluated_run import RUN, EvaluatedRun, remove_record, shorten_file
from tests.fixtures.servers import new_database


def printed(lineage: Lineage) -> str:
    console = Console(file=io.StringIO(), width=80)
    print_lineage(console, lineage)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_tree_shows_settings_sources_and_what_is_shared(evaluated_run):
    text = printed(evaluated_run.traced())
    lines = text.splitlines()
    for path, kind in (("compare", "comparison"), ("two/evaluate", "evaluation"), ("split", "passages")):
        record = evaluated_run.records[path][kind]
        line = next(line for line in lines if f"{kind}/{record.key}" in line)
        assert record.digest[:12] in line
    assert "bm25.k1=0.5" in text and text.count("evaluation.depth=5") == 2
    train = evaluated_run.records["split"]["passages"].sources["corpus"][0]["sha256"]
    assert f"corpus: train.json {train[:12]}, dev.json" in text
    passages = evaluated_run.records["split"]["passages"]
    whole = [line for line in lines if f"passages: passages/{passages.key}" in line]
    assert len(whole) == 2 and "rows" in whole[0] and whole[1].endswith("(above)")
    assert text.rstrip().splitlines()[-1].startswith("5 artifacts, ")


def test_json_has_every_record_and_can_be_walked(evaluated_run):
    found = json.loads(as_json(evaluated_run.traced(), []))
    artifacts = {artifact["address"]: artifact for artifact in found["artifacts"]}
    (root,) = found["roots"]
    read = artifacts[root["address"]]["inputs"]["evaluations"]
    assert [artifacts[evaluation["address"]]["config"]["bm25"] for evaluation in read] == [
        {"depth": 5},
        {"k1": 0.5},
    ]
    assert found["flaws"] == []


# What is meant, on the command line.


@pytest.fixture
def lineage_command(monkeypatch, capsys):
    """Runs `multiview lineage`: (status, standard output, standard error)."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["multiview", "lineage", *words])
        with pytest.raises(SystemExit) as ended:
            app.main()
        captured = capsys.readouterr()
        status = ended.value.code or 0
        assert isinstance(status, int)
        return status, captured.out, captured.err

    for name in ("MULTIVIEW_STORE", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    return run


def test_a_run_is_what_it_ends_with(evaluated_run, lineage_command):
    status, out, _ = lineage_command(RUN, "--store", evaluated_run.store.url)
    assert status == 0
    roots = [line for line in out.splitlines() if line.startswith(("negatives/", "comparison/"))]
    assert len(roots) == 2
    assert evaluated_run.records["split"]["train_questions"].folder in out, "which made the negatives"


def test_a_verification_ends_with_one_line(copied_run, lineage_command):
    address = copied_run.comparison
    status, out, _ = lineage_command(address, "--verify")
    assert status == 0 and out.splitlines()[-1] == "verified: 5 artifacts, every byte as it was written"
    shorten_file(copied_run)
    status, out, err = lineage_command(address, "--verify")
    assert status == 2 and "verified" not in out
    assert err.startswith("error: ") and "run.trec has" in err and err.count("\n") == 1
    assert lineage_command(address)[0] == 0, "records alone say nothing of files"
    remove_record(copied_run)
    status, out, _ = lineage_command(address, "--json", "--verify")
    assert status == 2 and len(json.loads(out)["flaws"]) == 2


def test_artifacts_that_only_another_store_has_are_named_by_it(evaluated_run, tmp_path, lineage_command):
    """As in a backup that lost one: the store that the records name still has it."""
    backup = EvaluatedRun(LocalStore(tmp_path / "backup"), evaluated_run.records)
    shutil.copytree(evaluated_run.store.root, backup.store.root)
    shutil.rmtree(backup.store.root / backup.records["split"]["passages"].folder)
    status, out, _ = lineage_command(backup.comparison, "--verify")
    assert status == 0
    said = f"verified: 5 artifacts, every byte as it was written; 1 of them in {evaluated_run.store.url}"
    assert out.splitlines()[-1] == said


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nothing-1", "has no run nothing-1"),
        ("m-0123456789abcdef0123456789abcdef", "m-0123456789abcdef0123456789abcdef"),
        ("models:/camvr@champion", "camvr"),
    ],
)
def test_what_is_not_there_is_one_line(name, says, shipped, lineage_command):
    status, out, err = lineage_command(name, "--tracking-uri", shipped)
    assert (status, out) == (2, "") and says in err and err.count("\n") == 1


@pytest.fixture(scope="module")
def shipped(evaluated_run, tmp_path_factory) -> str:
    """MLflow with the run in it."""
    uri = new_database(tmp_path_factory.mktemp("mlflow"))
    tracking.ship(evaluated_run.store, RUN, uri)
    return uri


def test_runs_and_their_steps_are_found_by_mlflow_s_ids(evaluated_run, shipped, tmp_path):
    found = tracking.find_run(shipped, RUN)
    lookup = Lookup(str(tmp_path), shipped)
    kinds = [split_address(artifact.address)[1] for artifact in lookup.artifacts(found.mlflow_id)]
    assert sorted(kinds) == ["comparison", "negatives"]
    client = MlflowClient(shipped)
    (step,) = client.search_runs(["1"], "tags.`multiview.path` = 'two/evaluate'")
    (artifact,) = lookup.artifacts(step.info.run_id)
    assert artifact.address == evaluated_run.address("two/evaluate", "evaluation")
