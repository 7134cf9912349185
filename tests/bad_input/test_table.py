"""Bad input of every kind to every reader, setting, command and route: refused in one line, and nothing is left behind."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from typer.main import get_command

import multiview
from multiview.cli.app import app as multiview_app
from multiview.config.overrides import gather, validate
from multiview.errors import InputError
from multiview.names import CHAMPION
from multiview.serving.follow import Generation, Generations
from multiview.serving.search_service import Serving
from pipelines.__main__ import app as pipelines_app
from tests.bad_input import commands, files, pipeline_commands, requests, settings
from tests.bad_input.cases import Command, listed, run, write
from tests.bad_input.readers import check_line
from tests.bad_input.requests import KEY, Asked
from tests.fixtures.answering_server import answering
from tests.fixtures.system_indexes import make
from tests.fixtures.tally import BAD_INPUTS

TABLE: dict[str, dict[str, Command] | dict[str, Asked]] = {
    "files": files.CASES,
    "commands": {**commands.CASES, **pipeline_commands.CASES},
    "requests": requests.CASES,
}
PAIRS = [(group, name) for group, cases in TABLE.items() for name in cases]


@dataclass(frozen=True)
class Server:
    """A server over a small store."""

    url: str
    index: str
    """The key of the index that answers."""


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    made = make(tmp_path_factory.mktemp("served"), {CHAMPION: {"model": {"architecture": "camvr"}}})
    address = made.index(CHAMPION)
    with answering(Serving(Generations(Generation(multiview.load(address))), keys=[KEY])) as client:
        yield Server(client.url, address.rpartition("/")[2])


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A user without credentials and profiles, in an empty folder."""
    for name in (
        *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "MLFLOW_TRACKING_URI"),
        *("MULTIVIEW_STORE", "MULTIVIEW_INDEX", "MULTIVIEW_API_KEYS", "MULTIVIEW_PROFILE"),
        "KF_PIPELINES_ENDPOINT",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("MULTIVIEW_PROFILES", str(tmp_path / "kubeflow.yaml"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)


def check_command(case: Command, folder) -> None:
    write(folder, case.files)
    before = listed(folder)
    ended = run(case.line)
    lines = ended.complaints()
    assert (ended.status, len(lines)) == (2, 1), ended
    assert all(part in lines[0] for part in case.says), lines[0]
    assert "Traceback" not in ended.errors + ended.printed
    assert listed(folder) == before, "something was left behind"


def check_request(case: Asked, server: Server) -> None:
    answer = replace(case, path=case.path.replace("{key}", server.index)).send(server.url)
    assert answer.status_code == case.status, answer.text
    message = answer.json()["error"]["message"]
    assert "\n" not in message and len(message) < 1000
    assert all(part in message for part in case.says), message


@pytest.mark.parametrize(("group", "name"), PAIRS, ids=lambda part: part)
def test_bad_input_is_one_line_with_the_way_out(group, name, tmp_path, stranger, request, tally):
    case = TABLE[group][name]
    tally.add(BAD_INPUTS, of=group)
    if isinstance(case, Asked):
        check_request(case, request.getfixturevalue("server"))
    else:
        check_command(case, tmp_path)


def test_every_setting_refuses_what_it_cannot_be(tally):
    for given, says in settings.refused():
        tally.add(BAD_INPUTS, of="settings")
        with pytest.raises(InputError) as refused:
            validate(gather(None, [given]))
        check_line(refused.value)
        assert all(part in str(refused.value) for part in says), refused.value


def test_the_table_has_what_it_should():
    """Every command is in it."""
    tables = (files.CASES, commands.CASES, pipeline_commands.CASES)
    lines = [case.line for cases in tables for case in cases.values()]
    programs = {"multiview": multiview_app, "pipelines": pipelines_app}
    names = [name for word, program in programs.items() for name in names_of(get_command(program), word)]
    assert len(names) > 20
    assert [name for name in names if not any(f"{line} ".startswith(f"{name} ") for line in lines)] == []
    assert len(PAIRS) >= 120


def test_the_table_has_every_route(server):
    """Of the routes that take anything, as the server describes them."""
    described = requests.got(200, "/openapi.json").send(server.url).json()["paths"]
    taking = [
        (method.upper(), re.sub(r"\{\w+\}", ".+", path))
        for path, methods in described.items()
        for method, what in methods.items()
        if {"parameters", "requestBody"} & what.keys()
    ]
    assert len(taking) >= 3
    asked = [(case.method, case.path.partition("?")[0]) for case in requests.CASES.values()]
    assert [
        (m, path) for m, path in taking if not any(m == a and re.fullmatch(path, b) for a, b in asked)
    ] == []


def names_of(command: Any, words: str) -> Iterator[str]:
    """The words of each command, such as `multiview export views`."""
    below = getattr(command, "commands", None)
    if below is None:
        yield words
    for name, each in (below or {}).items():
        yield from names_of(each, f"{words} {name}")
