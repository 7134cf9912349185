"""`multiview serve` as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.fixtures.answering_server import Client
from tests.fixtures.crowned import promote

PLANTED = "Whose zebra drinks lamp oil at Xyzzy?"
COMMAND = [sys.executable, "-c", "from multiview.cli.app import main; main()", "serve"]


@pytest.fixture
def environ(monkeypatch):
    for name in ("MULTIVIEW_INDEX", "MULTIVIEW_STORE", "MULTIVIEW_API_KEYS"):
        monkeypatch.delenv(name, raising=False)
    return {**os.environ, "PYTHONUNBUFFERED": "1"}


def test_it_answers_follows_and_ends_when_it_is_told_to(system_indexes, tmp_path, environ):
    copy = system_indexes.copy(tmp_path / "store")
    promote(copy, "camvr")
    keys, questions = tmp_path / "keys", tmp_path / "questions.jsonl"
    keys.write_text("secret\n")
    words = ["--store", str(copy.store.root), "--port", "0", "--poll", "0.1", "--api-keys", str(keys)]
    server = subprocess.Popen(
        [*COMMAND, *words, "--question-log", str(questions), "--max-k", "5"],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert server.stdout is not None
    try:
        seen = ""
        while not (running := re.search(r"running on (http://127\.0\.0\.1:\d+)", seen)):
            line = server.stdout.readline()
            assert line, seen
            seen += line
        client = Client(running[1], {"Authorization": "Bearer secret"})
        assert client.search(PLANTED)["champion"] == 1
        assert "less than or equal to 5" in client.refused(422, {"questions": [PLANTED], "k": 6})
        promote(copy, "mvr")
        while client.get("/readyz").json()["champion"] != 2:
            time.sleep(0.05)
        assert client.search(PLANTED)["champion"] == 2
        server.send_signal(signal.SIGTERM)
        seen += server.communicate(timeout=60)[0]
    finally:
        server.kill()
        server.communicate()
    assert server.returncode in (0, -signal.SIGTERM)
    assert re.search(r"champion 2, index \S+ answers", seen)
    assert "zebra" not in seen and "secret" not in seen
    assert questions.read_text().count("zebra") == 2


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--store", "{empty}"], "error: store {empty} has no champion: run the pipeline refresh first"),
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
    ended = subprocess.run([*COMMAND, *given], env=environ, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert ended.stderr.startswith(line.format(empty=tmp_path))
