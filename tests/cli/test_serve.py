"""`multiview serve` as a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest

from multiview.cli.app import main
from multiview.cli.serve import check_address
from multiview.errors import InputError
from tests.fixtures import documented as documents
from tests.fixtures.answering_server import Client
from tests.fixtures.crowned import promote
from tests.fixtures.forked import MULTIVIEW, forked, run_forked
from tests.fixtures.project import ROOT

PLANTED = "Whose zebra drinks lamp oil at Xyzzy?"
PAGE = ROOT / "docs" / "serving.md"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty folder, and no variable that says what is served."""
    monkeypatch.chdir(tmp_path)
    for name in ("MULTIVIEW_INDEX", "MULTIVIEW_STORE", "MULTIVIEW_API_KEYS"):
        monkeypatch.delenv(name, raising=False)


@contextlib.contextmanager
def served(words: list[str]) -> Iterator[tuple[ForkServerProcess, str, Path]]:
    """A running `multiview serve`, its address, and the file of its log."""
    with forked(MULTIVIEW, "serve", *words) as (process, _, log):
        while process.is_alive() and not re.search("running on .*\n", log.read_text()):
            time.sleep(0.02)
        running = re.search(r"running on http://[\d.]+:(\d+)", log.read_text())
        assert running, log.read_text()
        yield process, f"127.0.0.1:{running[1]}", log


def test_it_answers_follows_and_ends_when_it_is_told_to(indexes, tmp_path):
    copy = indexes.copy(tmp_path / "store")
    promote(copy, "camvr")
    (tmp_path / "keys").write_text("secret\n")
    words = "--port 0 --poll 0.1 --api-keys keys --question-log questions.jsonl --max-k 5"
    with served(shlex.split(words)) as (process, address, log):
        client = Client(f"http://{address}", {"Authorization": "Bearer secret"})
        assert client.search(PLANTED)["champion"] == 1
        assert "less than or equal to 5" in client.refused(422, {"questions": [PLANTED], "k": 6})
        promote(copy, "mvr")
        while client.get("/readyz").json()["champion"] != 2:
            time.sleep(0.05)
        assert client.search(PLANTED)["champion"] == 2
        process.terminate()  # as Kubernetes does
        process.join()
        assert process.exitcode == 0
        printed = log.read_text()
    assert re.search(r"champion 2, index \S+ answers", printed)
    assert "zebra" not in printed and "secret" not in printed
    assert (tmp_path / "questions.jsonl").read_text().count("zebra") == 2


@pytest.mark.documented("multiview serve", document="serving.md")
def test_the_commands_and_the_code_of_its_page_do_what_they_say(documented_lines, indexes, tmp_path):
    """Commands in a folder with a store and keys; requests and Python against the server that runs there."""
    promote(indexes.copy(tmp_path / "store"), "camvr")
    (tmp_path / "keys.txt").write_text("secret\n")
    text = PAGE.read_text(encoding="utf-8")
    curls = re.findall(r"^curl .*", text, re.M)
    programs = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert (len(curls), len(programs)) == (3, 3)
    examples = PAGE.parent / "examples"
    programs += [(examples / f"{name}_retriever.py").read_text() for name in ("langchain", "llamaindex")]
    assert "--mcp --api-keys" in documented_lines[-1]
    for line in documented_lines:
        with served([*documents.words(line), "--port", "0"][1:]) as (_, address, _):
            key = " -H 'authorization: Bearer secret'" if "--api-keys" in line else ""
            for curl in curls if shutil.which("curl") else ():
                curl = curl.replace("localhost:8080", address) + key
                answer = subprocess.check_output(curl, shell=True, text=True)
                assert '"champion"' in answer and '"error"' not in answer, answer
            # They give a key, and one asks for tools.
            for program in programs if "--mcp" in line else ():
                program = program.replace("localhost:8080", address)
                program = program.replace("a key, if the server asks for one", "secret")
                shown = run_forked(program, environment={**os.environ, "MULTIVIEW_API_KEYS": "secret"})
                if not re.search("No module named '(openai|langchain_core|llama_index)", shown.errors):
                    assert re.search(r"^\d+\.\d+ p\d+ ", shown.out), shown.errors


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid", "a" * 70])
def test_an_address_that_is_taken_or_none_is_a_line(host):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"^--host {host}"):
            check_address(host, port)


def test_a_free_address_is_left_free():
    check_address("127.0.0.1", 0)
    check_address("::1" if socket.has_dualstack_ipv6() else "localhost", 0)


def test_a_program_that_calls_it_gets_its_own_end_back(monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(sys, "argv", ["multiview", "serve", "--index", "no/such"])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert signal.getsignal(signal.SIGTERM) is before


def test_agents_are_told_what_must_be_installed():
    line = "error: mcp is not installed: pip install 'multiview-retrieval[mcp]'\n"
    assert run_forked(f"import sys; sys.modules['mcp'] = None; {MULTIVIEW}", "serve", "--mcp") == (
        2,
        "",
        line,
    )
