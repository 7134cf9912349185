"""Files, models and texts of strangers: nothing that is read is run, no id is a file's name, and every text is text."""

from __future__ import annotations

import ast
import json
import pickle
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import multiview
from multiview.artifacts.local_store import LocalStore
from multiview.errors import InputError
from multiview.evaluation.tables import escaped
from multiview.generation import generators
from multiview.model.encoder import BiEncoder
from multiview.names import CHAMPION, INDEX, MODEL, PASSAGES
from multiview.steps.runs import Run, StepState
from multiview.tracking import shipment
from tests.fixtures import inprocess
from tests.fixtures.encoded import settings as model_settings
from tests.fixtures.hostile_texts import HOSTILE
from tests.fixtures.payload import Payload
from tests.fixtures.project import ROOT
from tests.fixtures.system_indexes import SystemIndexes, make
from tests.fixtures.tiny import tiny_bert

SOURCES = sorted(
    path for folder in ("src", "pipelines", "components", "images") for path in (ROOT / folder).rglob("*.py")
)
UNPICKLING = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
RUNNING = {"eval", "exec", "compile", "system", "popen"}


# --- nothing that is read is run ---------------------------------------------------------------


def name_of(node: ast.expr) -> str:
    """`torch.load` of a call's function."""
    return ast.unparse(node) if isinstance(node, ast.Name | ast.Attribute) else ""


def flaws(source: str) -> Iterator[str]:
    """Calls and imports that may run what a file holds."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            names = {module or ""} | {alias.name for alias in node.names}
            yield from (f"import {name}" for name in names if name.partition(".")[0] in UNPICKLING)
        if not isinstance(node, ast.Call):
            continue
        name, given = name_of(node.func), {word.arg: ast.unparse(word.value) for word in node.keywords}
        if name == "torch.load" and given.get("weights_only") != "True":
            yield "torch.load without weights_only=True"
        if name in ("np.load", "numpy.load") and given.get("allow_pickle", "False") != "False":
            yield "np.load with allow_pickle"
        if re.match(r"yaml\.(?!safe_)\w*load", name) and given.get("Loader") not in ("UniqueKeys", "loader"):
            yield f"{name} without a safe loader"
        if re.search(r"\bAuto\w+\.from_pretrained$", name) and "Config" not in name:
            if given.get("trust_remote_code") != "False":
                yield f"{name} without trust_remote_code=False"
            if "Model" in name and given.get("use_safetensors") != "True":
                yield f"{name} without use_safetensors=True"
        if (isinstance(node.func, ast.Name) and name in RUNNING) or name in ("os.system", "os.popen"):
            yield name
        if given.get("shell") == "True":
            yield f"{name} with a shell"


def test_no_source_unpickles_or_runs_what_it_reads():
    assert len(SOURCES) > 200
    found = {str(path.relative_to(ROOT)): [*flaws(path.read_text(encoding="utf-8"))] for path in SOURCES}
    # A component's function is written from the table of steps, and from nothing that is read.
    assert found.pop("components/steps.py") == ["exec", "compile"]
    assert {file: lines for file, lines in found.items() if lines} == {}


SERVED = {
    CHAMPION: {"model": {"architecture": "camvr"}},
    "approximate": {"model": {"architecture": "camvr"}, "index": {"kind": "compact"}},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> SystemIndexes:
    return make(tmp_path_factory.mktemp("served"), SERVED)


@pytest.mark.parametrize(
    "name", ["p.jsonl", "p.json", "p.csv", "p.tsv", "p.parquet", "p.txt", "p.jsonl.gz", "p.qa.csv", "f.yaml"]
)
def test_a_pickle_in_place_of_a_file_is_not_run(name, tmp_path, monkeypatch, capsys):
    (tmp_path / name).write_bytes(pickle.dumps(Payload(tmp_path / "mark")))
    monkeypatch.chdir(tmp_path)
    words = ["config", "--preset", name] if name == "f.yaml" else ["inspect", name]
    with suppress(AssertionError):  # a text file is an article
        inprocess.multiview_command(monkeypatch, capsys, *words)
    assert not (tmp_path / "mark").exists()


def test_a_pickle_in_place_of_any_file_of_an_artifact_is_not_run(served, tmp_path):
    """Each file that a search reads is replaced by a pickle of the same size, where it has room for one."""
    mark = tmp_path / "mark"
    payload = pickle.dumps(Payload(mark))
    pickle.loads(payload)
    mark.rmdir()  # so it works where it is run
    copied = served.copy(tmp_path / "store")
    exact, tried = copied.files(copied.record(f"{CHAMPION}/round-0/index", INDEX)), 0
    for path in sorted(copied.store.root.rglob("attempts/**/*")):
        content = path.read_bytes() if path.is_file() else b""
        kind = path.relative_to(copied.store.root).parts[0]
        if len(content) < len(payload) or kind not in (INDEX, MODEL, PASSAGES):
            continue
        path.write_bytes(payload.ljust(len(content), b"."))
        with suppress(Exception):
            system = CHAMPION if path.is_relative_to(exact) else "approximate"
            multiview.load(copied.index(system)).search(["Who?"], 3)
        assert not mark.exists(), f"{path} was unpickled"
        path.write_bytes(content)
        tried += 1
    assert tried > 10


def test_code_of_a_model_s_folder_is_not_run(tmp_path):
    """Neither that of a base, nor that of a model of the store, nor that of a generator."""
    base, mark = tiny_bert(tmp_path / "base"), tmp_path / "mark"
    classes = {
        "AutoConfig": "evil.Config",
        "AutoModel": "evil.Model",
        "AutoTokenizer": ["evil.Tokenizer", None],
    }
    seen = 0
    for folder in (base, tmp_path / "model"):
        if folder != base:
            with suppress(Exception):
                BiEncoder.create(model_settings(base)).save(folder)
        for file in [*folder.rglob("config.json"), *folder.rglob("tokenizer_config.json")]:
            plain = {"is_causal": False}  # else it is refused before it is loaded
            auto_map = classes if file.name == "config.json" else {"AutoTokenizer": classes["AutoTokenizer"]}
            file.write_text(json.dumps(json.loads(file.read_text()) | plain | {"auto_map": auto_map}))
            (file.parent / "evil.py").write_text(f"import os\nos.mkdir({str(mark)!r})\n")
            seen += 1
        for load in (
            lambda folder=folder: BiEncoder.create(model_settings(folder)),
            lambda folder=folder: BiEncoder.load(folder),
            lambda folder=folder: generators.load(folder),
        ):
            with suppress(Exception):
                load()
        assert not mark.exists()
    assert seen >= 2


def test_faiss_reads_no_file_that_was_altered(served, tmp_path, monkeypatch):
    """Whoever changes a byte of it has no say in what faiss's readers do; its size alone would not tell."""
    copied = served.copy(tmp_path / "store")
    (file,) = copied.files(copied.record("approximate/round-0/index", "index")).rglob("index.faiss")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    monkeypatch.setattr(
        "multiview.index.faiss_library.faiss.read_index", lambda *_: pytest.fail("faiss read it")
    )
    with pytest.raises(InputError, match=r"index\.faiss was altered"):
        multiview.load(copied.index("approximate"))


# --- names and texts of strangers ----------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.text(), st.sampled_from(HOSTILE), st.just("![a](http://tracker.example.org/b.png)")))
def test_a_text_in_markdown_is_no_markup(text):
    shown = escaped(text)
    assert "\n" not in shown
    assert not re.search(r"(?<!\\)(\\\\)*[`*\[\]<>|]", shown)
    assert re.sub(r"\\([\\`*\[\]<>|])", r"\1", shown) == " ".join(text.split())


def test_an_error_that_repeats_a_corpus_is_text_in_mlflow():
    error = "p.jsonl row 1: id '![a](http://tracker.example.org/b.png)<script>' is empty"
    state = StepState(path="split", step="split", status="failed", error=error)
    run = Run(id="run", pipeline="training", config={}, steps=["split"])
    note = shipment.description(LocalStore(Path("nowhere")), run, [state], None)
    assert "![" not in note.replace("!\\[", "") and "<script>" not in note


def test_ids_of_a_corpus_are_no_names_of_files(served, tmp_path):
    """The files of a store are the same whatever the corpus calls its passages and questions."""
    hostile = ["../../../escaped", "/tmp/escaped", "a\\b", "..", "\u202e", *HOSTILE]
    names = []
    for made in (served, make(tmp_path / "hostile", SERVED, hostile)):
        # What a step found whole is remembered once its files are older than the clock's steps, now or later; and a
        # step that takes longer says how far it is.
        by_clock = (".verified.json", ".progress.json")
        paths = (path for path in made.store.root.rglob("*") if not path.name.endswith(by_clock))
        found = (path.relative_to(made.store.root).as_posix() for path in paths)
        names.append(
            sorted({re.sub(r"[0-9a-f]{32}|[\w-]*[0-9a-f]{6,}[\w-]*", "KEY", name) for name in found})
        )
    assert names[0] == names[1]
    assert not list(tmp_path.rglob("*escaped*"))
