"""`multiview export views`: from a store to files, by name."""

import pytest

from multiview.artifacts.champions import read_champion
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


@pytest.mark.documented("multiview export views", document="export.md")
def test_the_documented_commands(documented, here, monkeypatch, capsys):
    first = read_champion(here.store, 1).index.address
    typed = words(documented.replace("store/index/KEY", first))
    printed = multiview_command(monkeypatch, capsys, *typed)
    out = here.folder / typed[-1]
    assert printed.startswith(f"{typed[-1]}: ")
    found = {row["passage_id"] for row in rows_of(out)}
    assert ("new-1" in found) == (first not in documented.replace("store/index/KEY", first))


def test_a_folder_that_is_not_empty_is_left_as_it_is(here, monkeypatch, capsys):
    (here.folder / "full").mkdir()
    (here.folder / "full" / "file").touch()
    before = sorted(here.folder.iterdir())
    line = multiview_command(monkeypatch, capsys, "export", "views", "--out", "full", status=2)
    assert "exists and is not an empty folder" in line and line.count("\n") == 1
    assert sorted(here.folder.iterdir()) == before
