"""`multiview export views`: from a store to files, by name."""

import pytest

from multiview.artifacts.champions import read_champion
from multiview.cli import app as cli
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.documented import words
from tests.fixtures.exported import rows_of
from tests.fixtures.inprocess import multiview_command


@pytest.fixture
def here(second_champion: ChangingCorpus, tmp_path, monkeypatch) -> ChangingCorpus:
    """A folder with a store of two champions."""
    corpus = second_champion.copy(tmp_path / "here")
    monkeypatch.chdir(corpus.folder)
    return corpus


def refused(monkeypatch, capsys, *typed: str) -> str:
    """The one line that ends a command with status 2."""
    monkeypatch.setattr("sys.argv", ["multiview", *typed])
    with pytest.raises(SystemExit) as ended:
        cli.run_app(cli.app)
    printed = capsys.readouterr()
    assert ended.value.code == 2 and printed.out == "" and printed.err.count("\n") == 1
    return printed.err


@pytest.mark.documented("multiview export views", document="export.md")
def test_the_documented_commands(documented, here, monkeypatch, capsys):
    first = read_champion(here.store, 1).index.address
    typed = words(documented.replace("store/index/KEY", first))
    printed = multiview_command(monkeypatch, capsys, *typed)
    out = here.folder / typed[-1]
    assert printed.startswith(f"{typed[-1]}: ")
    found = {row["passage_id"] for row in rows_of(out)}
    assert ("new-1" in found) == (first not in documented.replace("store/index/KEY", first))


def test_bad_input_is_one_line_before_anything_is_written(here, monkeypatch, capsys):
    (here.folder / "full").mkdir()
    (here.folder / "full" / "file").touch()
    before = sorted(here.folder.iterdir())
    line = refused(monkeypatch, capsys, "export", "views", "--out", "full")
    assert "exists and is not an empty folder" in line
    line = refused(monkeypatch, capsys, "export", "views", "--out", "o", "--index", "store/index/none")
    assert "store/index/none" in line
    assert sorted(here.folder.iterdir()) == before
