"""`multiview export model` and `onnx`, and the code of docs/export.md about what they write."""

import re

import pytest

from tests.fixtures.crowned import promote
from tests.fixtures.documented import words
from tests.fixtures.inprocess import multiview_command
from tests.fixtures.project import ROOT
from tests.fixtures.system_indexes import SystemIndexes


@pytest.fixture
def here(indexes, tmp_path, monkeypatch) -> SystemIndexes:
    """A folder with a store whose champion is CAMVR with 4 snippets."""
    copied = indexes.copy(tmp_path / "store")
    promote(copied, "camvr")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MULTIVIEW_STORE", raising=False)
    return copied


def blocks(*containing: str) -> list[str]:
    """The blocks of Python on the page that contain some words."""
    page = (ROOT / "docs" / "export.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    return [code for code in blocks if all(word in code for word in containing)]


@pytest.mark.documented("multiview export model", "multiview export onnx", document="export.md")
def test_the_documented_commands_and_code(documented, here, monkeypatch, capsys):
    printed = multiview_command(monkeypatch, capsys, *words(documented))
    model = here.record("camvr/initial-model", "model").folder
    if "onnx" in documented:
        assert printed == f"questions: the question encoder of {model}\n"
        (code,) = blocks("onnxruntime")
        found: dict[str, object] = {}
        exec(code, found)
        assert getattr(found["vectors"], "shape", None) == (2, 64)
        return
    assert printed == (
        f"mine: {model}, for sentence-transformers 6.2 or later, with trust_remote_code=True and "
        "multiview-retrieval installed\n"
    )
    (code,) = blocks("MultiVectorEncoder")
    exec(code, {})
    assert capsys.readouterr().out.startswith("tensor([[")


def test_a_model_by_its_address(here, monkeypatch, capsys):
    record = here.record("pooled/initial-model", "model")
    address = f"{here.store.url}/{record.folder}"
    printed = multiview_command(monkeypatch, capsys, "export", "model", "--out", "mine", "--model", address)
    assert "with trust_remote_code=True and multiview-retrieval installed" in printed


@pytest.mark.parametrize("command", ["model", "onnx"])
def test_bad_input_is_one_line_before_anything_is_written(command, here, tmp_path, monkeypatch, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter").touch()
    passages = f"{here.store.url}/{here.record('split', 'passages').folder}"
    for typed, line in (
        (["--out", "mine"], "mine exists and is not an empty folder"),
        (["--out", "new", "--model", passages], "is neither a model nor an index"),
        (["--out", "new", "--model", "nothing"], "is no artifact address"),
    ):
        printed = multiview_command(monkeypatch, capsys, "export", command, *typed, status=2)
        assert line in printed and printed.count("\n") == 1
        assert not (tmp_path / "new").exists()
