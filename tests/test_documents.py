"""Each command that README.md and docs/ show is run, on files of the formats that it names."""

import gzip
import io
import json
import re
import shlex
import shutil
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.console import Console

from multiview.artifacts.store import LocalStore
from multiview.cli import app as cli
from multiview.cli.inspection import print_inspection
from multiview.config.overrides import gather, validate
from multiview.data import inspection
from multiview.data.reading.formats import FORMATS
from multiview.steps.execution import StepTeller, run_step
from pipelines import __main__ as pipelines
from pipelines.plans import PIPELINES
from pipelines.plans.training import training
from tests.data.reading import beir, biencoder, marco, put
from tests.data.small import passage_rows, question_rows, write
from tests.pipelines.inprocess import run_plan
from tests.pipelines.world import ROOT, World
from tests.servers import mlflow_server, new_database

DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMING = [*DOCUMENTS, ROOT / "manifests" / "README.md"]
"""Documents in whose text commands are named."""
PROGRAMS = {"python -m pipelines": pipelines.app, "multiview": cli.app}
ELSEWHERE = {
    "make demo": ("tests/demo/test_demo.py", '["make", "--no-print-directory", "demo"'),
    "make test": (".ci/run", "lint test"),
    "make images": ("tests/containers/engine.py", '"make", "--no-print-directory", f"image-{name}"'),
    "make containers": ("Makefile", "-m pytest -m acceptance -s tests/containers"),
    "make bench-index": ("Makefile", "-m benchmarks.index_kinds $(BENCH)"),
    "python -m benchmarks.index_kinds": ("tests/retrieval/test_index_kinds.py", "index_kinds.main("),
    "python -m pipelines rerun camvr/round-2/encode": (
        "tests/pipelines/test_local.py",
        '"rerun", "camvr/round-2/encode", "--from", parent, "--set", "encode.compute=autocast", "--downstream"',
    ),
    "python -m pipelines rerun camvr/round-2/evaluate": (
        "tests/kubeflow/test_rerun.py",
        'f"rerun {step} --from {run} --submit --host {kubeflow.url}',
    ),
    "python -m pipelines compare RUN RUN": ("tests/pipelines/test_comparing.py", 'say("compare", camvr, dpr'),
    "python -m pipelines rollback": ("tests/refresh/test_commands.py", '"rollback", *where'),
    "multiview gc": ("tests/refresh/test_commands.py", '"gc", "--delete", *where'),
    "make bench-refresh": ("Makefile", "-m benchmarks.refresh $(BENCH)"),
    "python -m pipelines submit": ("tests/kubeflow/test_kubeflow_document.py", "(?:submit|schedule)"),
    "python -m pipelines schedule": ("tests/kubeflow/test_kubeflow_document.py", "(?:submit|schedule)"),
}
"""Commands that other tests run: where, and in which words."""
OTHERS = {"--build-arg", "--node-taints", "--spot", "--workload-pool"}
"""Flags of others' programs."""


def commands() -> list[str]:
    """The lines of code blocks that run a program, without prompt and comment."""
    found = []
    for document in DOCUMENTS:
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", document.read_text(), re.M | re.S):
            for line in block.splitlines() if not language else ():
                line = re.sub(r"\s+#.*", "", line.removeprefix("$ "))
                if re.match(r"(make|multiview|mlflow|python -m) ", line) and not line.endswith("…"):
                    found.append(line)
    return list(dict.fromkeys(found))


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
    found = [(program, words) for program, words in mentions() if "--" in words]
    assert len(found) > 20
    for program, words in found:
        command = typer.main.get_command(PROGRAMS[program])
        given = re.findall(r"^[\w-]+(?: apply| list| delete)?", words)[0].split()
        for name in given:
            known = getattr(command, "commands", {})
            assert name in known, f"{program} {words}"
            command = known[name]
        named = set(re.findall(r"(?<= )--[a-z-]+", words))
        assert named <= flags(command), f"{program} {words}"


def test_flags_that_a_text_names_alone_are_some_command_s():
    known: set[str] = set()
    waiting = [typer.main.get_command(app) for app in PROGRAMS.values()]
    while waiting:
        command = waiting.pop()
        known |= flags(command)
        waiting += getattr(command, "commands", {}).values()
    for document in NAMING:
        for flag in re.findall(r"`(--[a-z-]+)", document.read_text()):
            assert flag in known | OTHERS, f"{document.name}: {flag}"


def these(program: str) -> list[str]:
    return [line for line in commands() if line.startswith(program)]


def call(app, line: str, monkeypatch) -> None:
    monkeypatch.setattr(sys, "argv", shlex.split(line.removeprefix("python -m ")))
    with pytest.raises(SystemExit) as ended:
        cli.run_app(app)
    assert ended.value.code == 0


@pytest.fixture
def files(tmp_path, monkeypatch) -> Path:
    """A folder with every file that the documents name, small, in its real format."""
    monkeypatch.chdir(tmp_path)
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
        gzip.compress(b"id\ttext\ttitle\n18768923\tone\tA\n7\ttwo\tB\n5\tthree\tC\n"),
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
    table = "".join(f"{row['id']},{row['text']}\n" for row in passages)
    put(tmp_path / "passages.csv", "pid,body\n" + table)
    put(tmp_path / "passages.csv.gz", gzip.compress(("pid,body\n" + table).encode()))
    write(tmp_path / "passages.parquet", passages)
    both = [{**row, "gold": row["positive_ids"]} for row in asked]
    write(tmp_path / "questions.jsonl", both)
    for row in passages:
        put(tmp_path / "articles" / f"{row['id']}.txt", row["text"])
    write(tmp_path / "about-articles.jsonl", asked)
    return tmp_path


def test_there_are_commands_and_each_is_run_here_or_elsewhere():
    found = commands()
    assert len(found) > 12
    here = (
        *("python -m pipelines run ", "python -m pipelines compile ", "python -m pipelines study "),
        *(
            "multiview inspect ",
            "multiview search ",
            "multiview lineage ",
            "multiview register ",
            "mlflow ui ",
        ),
    )
    for line in found:
        elsewhere = [place for start, place in ELSEWHERE.items() if line.startswith(start)]
        assert line.startswith(here) or elsewhere, f"no test runs: {line}"
    for start, (place, words) in ELSEWHERE.items():
        assert words in (ROOT / place).read_text(), f"{place} does not run {start}"


@pytest.mark.parametrize("line", these("python -m pipelines run "))
def test_runs_read_the_files_that_they_name(line, files, monkeypatch):
    """Up to their first step, which reads all files: whole runs are in tests/pipelines."""

    def split(request, store, *others, **more):
        node = request.plan.node("split")
        run_step(node.step, StepTeller(store, "run", "split", "split"), node.config, {})

    monkeypatch.setattr(pipelines, "_run", split)
    call(pipelines.app, line, monkeypatch)
    assert list(Path("store").glob("passages/*/artifact.json"))


def test_compile_writes_every_pipeline(files, monkeypatch):
    (line,) = these("python -m pipelines compile ")
    call(pipelines.app, line, monkeypatch)
    assert {file.stem for file in Path("compiled").iterdir()} == set(PIPELINES)


@pytest.mark.parametrize("line", these("python -m pipelines study "))
def test_studies_say_what_they_will_do(line, files, monkeypatch, capsys):
    call(pipelines.app, line, monkeypatch)
    assert "0 found, 0 shared, 13 new" in capsys.readouterr().out


@pytest.mark.parametrize("line", these("multiview inspect "))
def test_inspections_find_nothing_wrong(line, files, monkeypatch, website):
    call(cli.app, line.replace("https://example.org", website), monkeypatch)


def test_the_inspection_shown_is_what_it_prints():
    settings = ["questions.source=demo://train.json", "questions.dev_source=demo://dev.json"]
    options = [word for setting in settings for word in ("--set", setting)]
    console = Console(file=io.StringIO(), width=100, highlight=False)
    print_inspection(
        console, inspection.inspect(validate(gather(None, settings)), lambda done: None), options
    )
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    printed = "\n".join(line.rstrip() for line in lines)
    assert printed in (ROOT / "docs" / "data.md").read_text()


def test_the_table_of_formats_is_the_code_s():
    rows = re.findall(
        r"^\| `(\w+)` \| (.*?) \| .*? \| (yes)? *\| (yes)? *\|$",
        (ROOT / "docs" / "data.md").read_text(),
        re.M,
    )
    assert rows == [
        (name, form.about, "yes" if form.passages else "", "yes" if form.questions else "")
        for name, form in FORMATS.items()
    ]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[LocalStore, str]:
    """A store and the address of a small index in it."""
    world = World.make(tmp_path_factory.mktemp("trained"))
    settings = ["model.architecture=camvr", "train.rounds=1", "train.max_steps=2"]
    store = LocalStore(world.folder / "store")
    records = run_plan(training(gather(str(world.folder / "tiny.yaml"), settings)), store)
    return store, f"{store.url}/{records['camvr/round-1/index']['index'].folder}"


@pytest.mark.parametrize("line", these("multiview search "))
def test_searches_print_passages(line, trained, monkeypatch, capsys):
    call(cli.app, re.sub(r"\S*store/index/\w+", trained[1], line), monkeypatch)
    assert re.search(r"^1   .*view \d", capsys.readouterr().out, re.M)


@pytest.mark.parametrize("line", [*these("multiview lineage "), *these("multiview register ")])
def test_lineages_and_versions_are_of_that_index(line, trained, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", new_database(tmp_path))
    call(cli.app, re.sub(r"store/index/\w+", trained[1], line), monkeypatch)
    out = capsys.readouterr().out.splitlines()
    assert out[-1].startswith("verified: ") or out[-1] == "models:/multiview-train.json-dev.json@champion"


@pytest.mark.parametrize("line", these("mlflow ui "))
def test_mlflow_serves_the_runs(line, tmp_path):
    new_database(tmp_path)
    words = shlex.split(line.replace("sqlite:///store", f"sqlite:///{tmp_path}"))
    with mlflow_server(words[1:], tmp_path) as address:
        assert urllib.request.urlopen(f"{address}/health").read() == b"OK"
