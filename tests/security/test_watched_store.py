"""A store that every step wrote, with planted secrets: what each step does to it, as store_access.md lists it, and
where the secrets are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from multiview.names import CHAMPION, INDEX
from multiview.steps.table import STEPS
from tests.fixtures import inprocess
from tests.fixtures.answering_server import serving_process
from tests.fixtures.project import ROOT
from tests.fixtures.watched_store import OPERATIONS, PLANTED, SECRETS, Call, Watched, watch

HEADER = "| step | reads | writes | lists | deletes |"


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return watch(tmp_path_factory.mktemp("watched"))


def table_of(calls: list[Call]) -> dict[str, dict[str, list[str]]]:
    """Per step, the folders at the top of the store that it reads, writes, lists and deletes in."""
    # What a local store notes of files that it found whole, no bucket has.
    calls = [call for call in calls if not call.path.endswith(".verified.json")]
    return {
        step: {
            group: sorted(
                {c.path.partition("/")[0] for c in calls if c.step == step and c.operation in operations}
            )
            for group, operations in OPERATIONS.items()
        }
        for step in sorted({call.step for call in calls})
    }


def test_the_page_lists_what_each_step_does_to_a_store(watched: Watched) -> None:
    assert table_of(watched.calls).keys() == STEPS.keys()
    rows = [
        f"| `{step}` | "
        + " | ".join(", ".join(f"`{folder}`" for folder in groups[group]) or "—" for group in OPERATIONS)
        + " |"
        for step, groups in table_of(watched.calls).items()
    ]
    page = (ROOT / "tests" / "security" / "store_access.md").read_text(encoding="utf-8")
    table = page.partition(f"{HEADER}\n")[2].splitlines()[1:]
    assert table == rows, "store_access.md needs:\n" + "\n".join(rows)


def test_no_secret_is_written(watched):
    folder = watched.folder
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert (folder / "mlflow.db") in files and len(files) > 50
    assert [str(path) for path in files if PLANTED in path.read_bytes()] == []


def test_no_secret_of_an_address_is_printed(watched, monkeypatch, capsys):
    store = str(watched.compared.store.root)
    uri = "http://planted-user:planted-password@127.0.0.1:9"
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.delenv("MLFLOW_TRACKING_USERNAME", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_PASSWORD", raising=False)
    for words in (["sync", "--store", store], ["lineage", "a-run", "--store", store]):
        monkeypatch.setattr(sys, "argv", ["multiview", *words])
        with pytest.raises(SystemExit) as ended:
            inprocess.run_app(inprocess.app)
        printed = capsys.readouterr()
        assert ended.value.code and "127.0.0.1:9" in printed.err
        assert PLANTED.decode() not in printed.out + printed.err


def test_no_secret_is_in_the_command_line_or_the_log_of_a_server(watched, tmp_path):
    """Neither of its process, nor of those that it starts."""
    (tmp_path / "keys").write_text("planted-api-key\n")
    compared = watched.compared
    index = f"{compared.store.url}/{compared.record(f'{CHAMPION}/round-2/index', INDEX).folder}"
    words = ("--index", index, "--api-keys", str(tmp_path / "keys"))
    with serving_process(*words, environment={**os.environ, **SECRETS}) as (client, printed):
        for key in ("planted-api-key", "planted-another"):
            client.headers = {"X-API-Key": key}
            client.post("/search", {"questions": ["planted-question?"]})
            client.get("/passages/planted-id?api_key=planted-api-key")
        lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        metrics = client.get("/metrics").content
    assert PLANTED not in "".join(printed).encode() + metrics + b"".join(lines)
