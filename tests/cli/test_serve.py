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
from pathlib import Path

import pytest

from multiview.cli.serve import check_address
from multiview.errors import InputError
from tests.fixtures import documented as documents
from tests.fixtures.answering_server import Client
from tests.fixtures.crowned import promote
from tests.fixtures.forked import MULTIVIEW, run_forked
from tests.fixtures.project import ROOT

PLANTED = "Whose zebra drinks lamp oil at Xyzzy?"
PAGE = ROOT / "docs" / "serving.md"


@pytest.fixture
def environ(monkeypatch):
    for name in ("MULTIVIEW_INDEX", "MULTIVIEW_STORE", "MULTIVIEW_API_KEYS"):
        monkeypatch.delenv(name, raising=False)
    return {**os.environ, "PYTHONUNBUFFERED": "1"}


class Served:
    """A running `multiview serve` and what it has printed."""

    def __init__(self, words: list[str], environ: dict[str, str], folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", MULTIVIEW, "serve", *words],
            env=environ,
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.printed = ""
        assert self.process.stdout is not None
        while not (running := re.search(r"running on http://[\d.]+:(\d+)", self.printed)):
            line = self.process.stdout.readline()
            assert line, self.printed
            self.printed += line
        self.address = f"127.0.0.1:{running[1]}"

    def end(self) -> None:
        """Tells it to end, as Kubernetes does, and reads the rest of what it prints."""
        self.process.send_signal(signal.SIGTERM)
        self.printed += self.process.communicate(timeout=60)[0]


@contextlib.contextmanager
def served(words: list[str], environ: dict[str, str], folder: Path) -> Iterator[Served]:
    server = Served(words, environ, folder)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


def test_it_answers_follows_and_ends_when_it_is_told_to(indexes, tmp_path, environ):
    copy = indexes.copy(tmp_path / "store")
    promote(copy, "camvr")
    (tmp_path / "keys").write_text("secret\n")
    words = "--port 0 --poll 0.1 --api-keys keys --question-log questions.jsonl --max-k 5"
    with served(shlex.split(words), environ, tmp_path) as server:
        client = Client(f"http://{server.address}", {"Authorization": "Bearer secret"})
        assert client.search(PLANTED)["champion"] == 1
        assert "less than or equal to 5" in client.refused(422, {"questions": [PLANTED], "k": 6})
        promote(copy, "mvr")
        while client.get("/readyz").json()["champion"] != 2:
            time.sleep(0.05)
        assert client.search(PLANTED)["champion"] == 2
        server.end()
        assert server.process.returncode in (0, -signal.SIGTERM)
    assert re.search(r"champion 2, index \S+ answers", server.printed)
    assert "zebra" not in server.printed and "secret" not in server.printed
    assert (tmp_path / "questions.jsonl").read_text().count("zebra") == 2


@pytest.mark.documented("multiview serve", document="serving.md")
def test_the_commands_and_the_code_of_its_page_do_what_they_say(documented_lines, indexes, tmp_path, environ):
    """Commands in a folder with a store and keys; requests and Python against the server that runs there."""
    promote(indexes.copy(tmp_path / "store"), "camvr")
    (tmp_path / "keys.txt").write_text("secret\n")
    text = PAGE.read_text(encoding="utf-8")
    curls = re.findall(r"^curl .*", text, re.M)
    programs = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    assert (len(curls), len(programs)) == (3, 3) and shutil.which("curl")
    programs += [
        (PAGE.parent / "examples" / f"{name}_retriever.py").read_text()
        for name in ("langchain", "llamaindex")
    ]
    assert "--mcp --api-keys" in documented_lines[-1]
    for line in documented_lines:
        with served([*documents.words(line), "--port", "0"][1:], environ, tmp_path) as server:
            key = " -H 'authorization: Bearer secret'" if "--api-keys" in line else ""
            for curl in curls:
                answer = subprocess.check_output(
                    curl.replace("localhost:8080", server.address) + key, shell=True, text=True
                )
                assert '"champion"' in answer and '"error"' not in answer, answer
            # They take seconds to start, so they are run once; they give a key, and one asks for tools.
            for program in programs if "--mcp" in line else ():
                environ["MULTIVIEW_API_KEYS"] = "secret"
                program = program.replace("localhost:8080", server.address)
                program = program.replace("a key, if the server asks for one", "secret")
                shown = subprocess.run([sys.executable, "-c", program], env=environ, cwd=tmp_path, capture_output=True, text=True)  # fmt: skip
                if not re.search("No module named '(openai|langchain_core|llama_index)", shown.stderr):
                    assert re.search(r"^\d+\.\d+ p\d+ ", shown.stdout), shown.stderr


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--store", "{empty}"], "error: store {empty}: there is nothing; is it the right one?"),
        (["--index", "{empty}/index/none"], "error: there is no artifact at {empty}/index/none: "),
        (
            ["--store", "{empty}", "--api-keys", "{empty}/keys"],
            "error: --api-keys {empty}/keys: cannot be read",
        ),
        (["--question-log", "{empty}/no/log"], "error: --question-log {empty}/no/log: cannot be written"),
    ],
)
def test_what_cannot_be_served_is_refused_in_a_line_before_it_listens(tmp_path, environ, words, line):
    given = [word.format(empty=tmp_path) for word in words]
    ended = run_forked(MULTIVIEW, "serve", *given, environment=environ)
    assert (ended.status, ended.out, ended.errors.count("\n")) == (2, "", 1)
    assert ended.errors.startswith(line.format(empty=tmp_path))


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid", "a" * 70])
def test_an_address_that_is_taken_or_none_is_a_line(host):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"^--host {host}"):
            check_address(host, port)


def test_a_free_address_is_left_free():
    check_address("127.0.0.1", 0)
    check_address("::1" if socket.has_dualstack_ipv6() else "localhost", 0)


def test_agents_are_told_what_must_be_installed(tmp_path, environ):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['mcp'] = None\n")
    environ = {**environ, "PYTHONPATH": f"{tmp_path}:{environ.get('PYTHONPATH', '')}"}
    ended = subprocess.run([sys.executable, "-c", MULTIVIEW, "serve", "--mcp"], env=environ, capture_output=True, text=True)  # fmt: skip
    line = "error: mcp is not installed: pip install 'multiview-retrieval[mcp]'\n"
    assert (ended.returncode, ended.stderr) == (2, line)
