"""`multiview export views` and `delta`: from a store to files, by name."""

import re

import pyarrow.parquet as pq
import pytest

from multiview.artifacts.champions import read_champion
from multiview.cli import app as cli
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.documented import words
from tests.fixtures.exported import applied, rows_of
from tests.fixtures.inprocess import multiview_command
from tests.fixtures.project import ROOT


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


@pytest.mark.documented("multiview export views", "multiview export delta", document="export.md")
def test_the_documented_commands(documented, here, monkeypatch, capsys):
    first = read_champion(here.store, 1).index.address
    typed = words(documented.replace("store/index/KEY", first))
    printed = multiview_command(monkeypatch, capsys, *typed)
    out = here.folder / typed[-1]
    assert printed.startswith(f"{typed[-1]}: ")
    if "delta" in documented:
        assert printed.endswith(": 1 added, 0 changed, 0 removed\n")
        assert set(pq.read_table(out / "added.parquet")["passage_id"].to_pylist()) == {"new-1"}
    else:
        found = {row["passage_id"] for row in rows_of(out)}
        assert ("new-1" in found) == (first not in documented.replace("store/index/KEY", first))


def test_views_and_delta_belong_together(here, monkeypatch, capsys):
    first = read_champion(here.store, 1).index.address
    multiview_command(monkeypatch, capsys, "export", "views", "--out", "before", "--index", first)
    multiview_command(monkeypatch, capsys, "export", "views", "--out", "now")
    multiview_command(
        monkeypatch, capsys, "export", "delta", "--out", "delta", "--from", first, "--index", "champion"
    )
    before, now = (rows_of(here.folder / name) for name in ("before", "now"))
    assert applied(before, here.folder / "delta") == now
    page = (ROOT / "docs" / "export.md").read_text()
    (code,) = (each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "removed" in each)
    (here.folder / "before").rename("views")
    exec(code, found := {})
    rows = sorted(found["views"].to_pylist(), key=lambda row: (row["passage_id"], row["view"]))
    assert rows == now


def test_bad_input_is_one_line_before_anything_is_written(here, monkeypatch, capsys):
    first = read_champion(here.store, 1).index.address
    (here.folder / "full").mkdir()
    (here.folder / "full" / "file").touch()
    before = sorted(here.folder.iterdir())
    for format in ("views", "delta"):
        assert "exists and is not an empty folder" in refused(
            monkeypatch, capsys, "export", format, "--out", "full"
        )
        line = refused(monkeypatch, capsys, "export", format, "--out", "o", "--index", "store/index/none")
        assert "store/index/none" in line
    line = refused(monkeypatch, capsys, "export", "delta", "--out", "o", "--index", first)
    assert "is not the champion's index" in line and "--from" in line
    assert "there is no artifact" in refused(
        monkeypatch, capsys, "export", "delta", "--out", "o", "--from", "store/index/none"
    )
    assert sorted(here.folder.iterdir()) == before


def test_another_model_has_no_delta(here, monkeypatch, capsys):
    here.refresh(refresh={"model": here.with_model(7)})
    line = refused(monkeypatch, capsys, "export", "delta", "--out", "o")
    assert "every view differs, and there is no delta: export the views whole" in line


def test_the_first_champion_has_no_predecessor(first_champion, tmp_path, monkeypatch, capsys):
    corpus = first_champion.copy(tmp_path / "here")
    monkeypatch.chdir(corpus.folder)
    line = refused(monkeypatch, capsys, "export", "delta", "--out", "o")
    assert "champion 1 is the first" in line and "--from" in line
