"""Each command that README.md and docs/ show is run, on files of the formats that it names."""

import gzip
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
import typer
from mlflow.cli import cli as mlflow_cli

from multiview.artifacts.store import LocalStore
from multiview.cli import app as cli
from multiview.cli.console import Console
from multiview.cli.inspection import print_inspection, show_inspection
from multiview.config.overrides import gather, validate
from multiview.data import inspection
from multiview.data.reading.formats import FORMATS
from multiview.plans import PIPELINES
from multiview.plans.system import training
from multiview.steps.execution import run_step
from multiview.steps.path import StepPath
from multiview.steps.work import StepReporter
from multiview.tracking.client import tracking_uri
from pipelines import __main__ as pipelines
from pipelines.runs import commands as runs_here
from tests.fixtures.beir_server import archive, publish
from tests.fixtures.documented import DOCUMENTS, commands, declared
from tests.fixtures.format_files import beir, biencoder, marco, put, tevatron
from tests.fixtures.inprocess import run_plan
from tests.fixtures.project import ROOT, Project
from tests.fixtures.servers import new_database
from tests.fixtures.split_run import passage_rows, question_rows, write

NAMING = [*DOCUMENTS, ROOT / "manifests" / "README.md"]
"""Documents in whose text commands are named."""
PROGRAMS = {"python -m pipelines": pipelines.app, "multiview": cli.app}
OTHERS = {"--build-arg", "--node-taints", "--spot", "--workload-pool"}
"""Flags of others' programs."""


def mentions() -> list[tuple[str, str]]:
    """Every program of ours that a document names, in a block or in its text, with the words that follow."""
    found = []
    for document in NAMING:
        text = document.read_text().replace("\\\n", " ")
        for program in PROGRAMS:
            found += [
                (program, words)
                for words in re.findall(rf"(?:^|[`/$:] *){program} ([a-z][^`\n]*)", text, re.M)
            ]
    return list(dict.fromkeys(found))


def flags(command: Any) -> set[str]:
    return {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}


def test_commands_and_flags_that_are_named_are_there():
    found = mentions()
    assert sum("--" in words for _, words in found) > 20
    for program, words in found:
        command = typer.main.get_command(PROGRAMS[program])
        for name in words.split():
            known = getattr(command, "commands", {})
            if not known or name.startswith("-"):
                break
            assert name in known, f"{program} {words}"
            command = known[name]
        named = set(re.findall(r"(?<= )--[a-z][a-z0-9-]*", words))
        assert named <= flags(command), f"{program} {words}"


def test_modules_that_are_named_are_there():
    named = {
        name
        for file in NAMING
        for name in re.findall(r"python -m ((?:benchmarks|tests)[\w.]*)", file.read_text())
    }
    assert named and all((ROOT / f"{name.replace('.', '/')}.py").is_file() for name in named), named


def test_flags_that_a_text_names_alone_are_some_command_s():
    known: set[str] = set()
    waiting = [typer.main.get_command(app) for app in PROGRAMS.values()]
    while waiting:
        command = waiting.pop()
        known |= flags(command)
        waiting += getattr(command, "commands", {}).values()
    for document in NAMING:
        for flag in re.findall(r"`(--[a-z][a-z0-9-]*)", document.read_text()):
            assert flag in known | OTHERS, f"{document.name}: {flag}"


def call(app, line: str, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", shlex.split(line.removeprefix("python -m ")))
    with pytest.raises(SystemExit) as ended:
        cli.run_app(app)
    assert ended.value.code == 0


@pytest.fixture
def files(tmp_path, monkeypatch, beir_server) -> Path:
    """A folder with every file that the documents name, small, in its real format, and a server of BEIR's archives."""
    monkeypatch.chdir(tmp_path)
    publish(
        beir_server, monkeypatch, "trec-covid", archive(beir(tmp_path / "published" / "trec-covid", "test"))
    )
    passages, asked = passage_rows(20), question_rows("t", 20, 20)
    for name, rows in (("train", asked), ("dev", question_rows("d", 10, 10))):
        paragraphs = [
            {
                "context": passages[i]["text"],
                "qas": [
                    {
                        "id": row["qid"],
                        "question": row["question"],
                        "answers": [{"text": row["answers"][0], "answer_start": row["answer_starts"][0]}],
                    }
                ],
            }
            for i, row in enumerate(rows)
        ]
        put(
            tmp_path / f"{name}-v1.1.json",
            json.dumps({"data": [{"title": "T", "paragraphs": paragraphs}]}),
        )
    put(
        tmp_path / "psgs_w100.tsv.gz",
        gzip.compress(b"id\ttext\ttitle\n18768923\tseven\tA\n7\ttwo\tB\n5\tthree\tC\n"),
    )
    file = Path(biencoder(tmp_path))
    put(tmp_path / "biencoder-nq-train.json.gz", gzip.compress(file.read_bytes()))
    put(tmp_path / "nq-test.qa.csv", "who?\t['a']\n")
    beir(tmp_path / "scifact", "train", "test")
    covid = beir(tmp_path / "trec-covid", "test")
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/test.tsv"):
        put(covid / name, re.sub(r'(?<=["\t])(4983|5836)', r"c\1", (covid / name).read_text()))
    queries = (covid / "queries.jsonl").read_text()
    put(covid / "queries.jsonl", queries.replace('"_id": "', '"_id": "c'))
    judged = (covid / "qrels/test.tsv").read_text().splitlines()
    put(covid / "qrels/test.tsv", "\n".join([judged[0], *(f"c{line}" for line in judged[1:])]))
    for file in marco(tmp_path / "msmarco").iterdir():
        shutil.copy(file, tmp_path)
    put(tmp_path / "qidpidtriples.train.full.2.tsv.gz", gzip.compress(b"634306\t1\t0\n"))
    table = "".join(f"{row['id']},{row['text']}\n" for row in passages)
    put(tmp_path / "passages.csv", "pid,body\n" + table)
    put(tmp_path / "passages.csv.gz", gzip.compress(("pid,body\n" + table).encode()))
    write(tmp_path / "passages.parquet", passages)
    # An answer that MS MARCO's second passage holds.
    train = Path(tevatron(tmp_path)).read_bytes().replace(b'"seven"', b'"quote"')
    put(tmp_path / "train.jsonl.gz", gzip.compress(train))
    both = [{**row, "gold": row["positive_ids"], "hard": ["p19", "p18"]} for row in asked]
    write(tmp_path / "questions.jsonl", both)
    for row in passages:
        put(tmp_path / "articles" / f"{row['id']}.txt", row["text"])
    write(tmp_path / "about-articles.jsonl", asked)
    return tmp_path


def test_each_command_is_run_by_a_test_that_says_so():
    found = list(declared())
    assert all(test.reads for test in found), "a test is given commands that it does not look at"
    run = {line for test in found for line in test.lines}
    assert [line for line in commands() if line not in run] == [] and len(run) > 40


@pytest.mark.documented("python -m pipelines run ")
def test_runs_read_the_files_that_they_name(documented, files, monkeypatch):
    """Up to their first step, which reads all files: whole runs are in tests/pipelines."""

    def split(request, store, *others, **more):
        node = request.plan.node("split")
        run_step(node.step, StepReporter(store, "run", "split", "split"), node.config, {})

    monkeypatch.setattr(runs_here, "run_and_show", split)
    # No store here has a champion.
    monkeypatch.setattr(runs_here, "check_champion", lambda store, settings: None)
    call(pipelines.app, documented, monkeypatch)
    assert list(Path("store").glob("passages/*/artifact.json"))


@pytest.mark.documented("multiview config --preset ")
def test_a_preset_is_shown(documented, monkeypatch, capsys):
    call(cli.app, documented, monkeypatch)
    assert "model.scale=50" in capsys.readouterr().out


@pytest.mark.documented("python -m pipelines compile ")
def test_compile_writes_every_pipeline(documented, files, monkeypatch):
    for kind in ("CPU", "GPU"):
        monkeypatch.setenv(f"MULTIVIEW_{kind}_IMAGE", f"registry.example/multiview-{kind.lower()}:1")
    call(pipelines.app, documented, monkeypatch)
    assert {file.stem for file in Path("compiled").iterdir()} == set(PIPELINES)


@pytest.mark.documented("python -m pipelines study ")
def test_studies_say_what_they_will_do(documented, files, monkeypatch, capsys):
    call(pipelines.app, documented, monkeypatch)
    printed = capsys.readouterr().out
    assert "  new    split\n" in printed and "found" not in printed


@pytest.mark.documented("multiview inspect ")
def test_inspections_find_nothing_wrong(documented, files, monkeypatch, website):
    call(cli.app, documented.replace("https://example.org", website), monkeypatch)


def test_the_inspection_shown_is_what_it_prints():
    settings = ["questions.source=demo://train.json", "questions.dev_source=demo://dev.json"]
    options = [word for setting in settings for word in ("--set", setting)]
    console = Console(file=io.StringIO(), width=100)
    print_inspection(
        console, inspection.inspect(validate(gather(None, settings)), lambda done: None), options, "labelled"
    )
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    printed = "\n".join(line.rstrip() for line in lines)
    assert printed in (ROOT / "docs" / "data.md").read_text()


def test_inspections_name_the_command_for_data_whose_questions_are_made(tmp_path, capsys):
    (tmp_path / "passages.jsonl").write_text(
        "".join(json.dumps({"id": f"p{n}", "text": f"Text {n}."}) + "\n" for n in range(9))
    )
    shown = "Run it:  python -m pipelines run comparison --preset snippet-means --set"
    for settings, line in (
        ([], "or have some made: --set questions.origin=crop"),
        (["questions.origin=crop"], shown),
    ):
        show_inspection([str(tmp_path / "passages.jsonl")], [], settings)
        assert line in capsys.readouterr().out


def test_the_table_of_formats_is_the_code_s():
    rows = re.findall(
        r"^\| `(\w+)` \| (.*?) \| .*? \| (yes)? *\| (yes)? *\|$",
        (ROOT / "docs" / "data.md").read_text(),
        re.M,
    )
    assert rows == [
        (name, form.about, "yes" if form.passages else "", "yes" if form.questions else "")
        for name, form in FORMATS.items()
        if not form.is_companion
    ]


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> str:
    """The address of a small index."""
    project = Project.make(tmp_path_factory.mktemp("index"))
    settings = ["model.architecture=camvr", "train.rounds=0"]
    store = LocalStore(project.folder / "store")
    plan = training(gather(str(project.folder / "tiny.yaml"), settings))
    del plan.nodes[StepPath("evaluate", "camvr", "round-0")]
    return f"{store.url}/{run_plan(plan, store)['camvr/round-0/index']['index'].folder}"


@pytest.mark.documented("multiview search ")
def test_searches_print_passages(documented, index, monkeypatch, capsys):
    call(cli.app, re.sub(r"\S*store/index/\w+", index, documented), monkeypatch)
    assert re.search(r"^1   .*view \d", capsys.readouterr().out, re.M)


@pytest.mark.documented("multiview lineage ", "multiview register ")
def test_lineages_and_versions_are_of_that_index(documented, index, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_database(tmp_path))
    call(cli.app, re.sub(r"store/index/\w+", index, documented), monkeypatch)
    out = capsys.readouterr().out.splitlines()
    assert out[-1].startswith("verified: ") or out[-1] == "models:/multiview-train.json-dev.json@tried"


@pytest.mark.documented("mlflow ui ")
def test_mlflow_is_given_the_database_of_the_store(documented, monkeypatch):
    """Its server is run by tests/tracking."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    _, name, *words = shlex.split(documented)
    command = mlflow_cli.get_command(click.Context(mlflow_cli), name)
    assert command is not None
    uri = command.make_context(name, words).params["backend_store_uri"]
    assert uri == tracking_uri(LocalStore(Path("store"))).replace(f"{Path.cwd()}/", "")


@pytest.fixture
def make(tmp_path):
    """Runs `make …`, its programs only writing down how they are called; returns what they wrote, a line each."""
    (programs := tmp_path / "environment" / "bin").mkdir(parents=True)
    log = tmp_path / "calls"
    for name in ("python", "engine"):
        (programs / name).write_text(f'#!/bin/sh\nprintf "%s %s\\n" {name} "$*" >> {log}\n')
        (programs / name).chmod(0o755)
    (programs.parent / "tools").mkdir()
    for name in ("ready", "tested", "measured", "tools/ready"):
        (programs.parent / name).touch()

    def run(*words: str) -> list[str]:
        settings = [f"VENV={programs.parent}", f"ENGINE={programs / 'engine'}"]
        subprocess.run(["make", "--no-print-directory", *settings, *words], cwd=ROOT, check=True)
        return log.read_text().splitlines() if log.exists() else []

    return run


@pytest.mark.documented("make images", "make wheels")
def test_images_are_built_from_their_files(documented, make):
    """With an engine that builds nothing; tests/images has the real one."""
    words = shlex.split(documented)[1:]
    calls = make(*words)
    built = [call for call in calls if call.startswith("engine build ")]
    named = [word.removeprefix("image-") for word in words if word.startswith("image-")]
    files = {name: f"images/{name}/Dockerfile" for name in named or ("cpu", "gpu", "runner")}
    given = dict(word.split("=", 1) for word in words if "=" in word)
    for (name, file), call in zip(files.items(), built, strict=True):
        tag = f"{given.get('REGISTRY', '')}multiview-{name}:{given.get('TAG', 'python3.11')}"
        assert f" --file {file} --tag {tag} " in call and (ROOT / file).is_file()
        assert given.get("SOURCE", "") in call and given.get("BUILD", "") in call
    assert calls[: len(calls) - len(built)] == ["python images/packages.py wheels"] * ("wheels" in words)


@pytest.mark.documented("make lock")
def test_locks_are_made_of_the_project(documented, make):
    """By a uv that resolves nothing; tests/images looks at the locks."""
    (call,) = make(*shlex.split(documented)[1:])
    assert call.startswith("python images/packages.py lock --find-links=https://")
    assert call.endswith(" --upgrade") == ("--upgrade" in documented)


@pytest.mark.documented("make containers")
def test_containers_are_tried_by_the_tests_of_that_name(documented, make):
    (call,) = make(*shlex.split(documented)[1:])
    assert call.startswith("python -m pytest -m acceptance ")
    assert list((ROOT / call.split()[-1]).glob("test_containers.py"))


@pytest.mark.documented("make test")
def test_ci_makes_the_tests(documented, make, tmp_path):
    (call,) = make(*shlex.split(documented)[1:])
    assert call.startswith("python -m pytest ") and call.endswith(" -n 2")
    (programs := tmp_path / "path").mkdir()
    for name in ("make", "chromium"):
        (programs / name).write_text(f'#!/bin/sh\nprintf "%s " {name} "$@"\n')
        (programs / name).chmod(0o755)
    path = {"PATH": f"{programs}:{os.environ['PATH']}"}
    made = subprocess.run([ROOT / ".ci" / "run"], env=path, capture_output=True, text=True, check=True)
    assert {"make", "test"} <= set(made.stdout.split())


def test_what_a_document_says_to_make_can_be_made(make):
    named = {name for file in NAMING for name in re.findall(r"`make ([a-z0-9-]+)", file.read_text())}
    assert named >= {"bench", "bench-quick", "setup"}
    make("--dry-run", *named)
    measured = [call.split()[2:] for call in make("bench", "bench-quick", "bench-search")]
    whole, quick = (["benchmarks", "--size", size] for size in ("whole", "quick"))
    assert measured == [whole, quick, ["benchmarks.search"]]
    modules = {name.removeprefix("bench-").replace("-", "_") for name in named if name.startswith("bench-")}
    assert all(find_spec(f"benchmarks.{module}") for module in modules - {"quick"})
