"""The step `export` of a refresh: the champion, whatever the verdict, once."""

import json
from datetime import UTC, datetime
from decimal import Decimal

from multiview import names
from multiview.artifacts.champions import read_champion, rollback
from multiview.artifacts.record import Record, Reference
from multiview.export.files import write_views
from multiview.export.views import IndexViews
from multiview.lineage.trace import flaws, trace
from multiview.steps.runs import read_state
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.exported import rows_of

VIEWS = {"formats": ["views"]}


def exported(records) -> Record:
    return records["export"][names.EXPORT]


def test_without_formats_a_refresh_has_no_such_step(corpus: ChangingCorpus):
    assert not {"export", "champion-now"} & {str(path) for path in corpus.plan().paths()}
    assert [str(path) for path in corpus.plan(export=VIEWS).paths()][-2:] == ["champion-now", "export"]


ANY = {
    "tags": ["a", "b"],
    "where": {"page": 3, "names": ["x", None]},
    "seen": datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC),
    "price": Decimal("12.50"),
    "nothing": None,
    "raw": b"\x00\xff",
}
"""Columns of many types."""


def test_a_promotion_exports_its_views_with_columns_of_any_type(corpus: ChangingCorpus, tmp_path):
    corpus.rows = [{**row, **ANY} for row in corpus.rows]
    before = rows_of(corpus.files(exported(corpus.refresh(export=VIEWS))) / "views")
    assert before and all(row["columns"].items() >= ANY.items() for row in before)
    changed = corpus.rows[3]["id"]
    corpus.add("new-1")
    corpus.change(3)
    corpus.remove("p5")
    records = corpus.refresh(export=VIEWS)
    assert corpus.decision(records) == "promote"
    record, champion = exported(records), read_champion(corpus.store, 3)
    folder, now = corpus.files(record), IndexViews.open(champion.index.address)
    write_views(now, tmp_path / "views")
    after = rows_of(folder / "views")
    assert after == rows_of(tmp_path / "views")
    differing = [row for row in before if row not in after] + [row for row in after if row not in before]
    assert {row["passage_id"] for row in differing} == {"new-1", changed, "p5"}
    manifest = json.loads((folder / "export.json").read_text())
    assert (manifest["digest"], manifest["formats"]) == (now.name.digest, ["views"])

    inputs = {name: references[0].digest for name, references in record.inputs.items()}
    assert inputs == {names.INDEX: champion.index.digest, names.PASSAGES: champion.passages.digest}
    lineage = trace([Reference.to(corpus.store, record)])
    assert list(flaws(lineage)) == []


def test_the_champion_is_exported_whatever_the_verdict_and_once(promoted_corpus: ChangingCorpus):
    """The refresh that promoted it had no export; the next one keeps it; then a challenger is refused; then it is rolled
    back."""
    corpus = promoted_corpus

    def refreshed(decision: str, **more) -> tuple[Record, set[str]]:
        records = corpus.refresh(export=VIEWS, **more)
        assert corpus.decision(records) == decision
        record = exported(records)
        return record, {row["passage_id"] for row in rows_of(corpus.files(record) / "views")}

    first, ids = refreshed("keep")
    assert "new-1" in ids
    corpus.rows = corpus.rows[: len(corpus.rows) // 2]
    assert refreshed("refuse") == (first, ids), "not written anew"
    state = read_state(corpus.store, "refresh", "export")
    assert state is not None and state.status == "found"
    rollback(corpus.store)
    restored, ids = refreshed("refuse", gate={"smallest_corpus": 10**6})
    assert "new-1" not in ids
    assert restored.inputs[names.INDEX][0].digest == read_champion(corpus.store, 1).index.digest


def test_a_model_is_exported_for_other_libraries_with_a_card(corpus: ChangingCorpus):
    corpus.add("new-1")
    settings = {"export": {"formats": ["model", "onnx"]}, "encode": {"question_length": 20}}
    folder = corpus.files(exported(corpus.refresh(**settings)))
    assert json.loads((folder / "export.json").read_text())["formats"] == ["model", "onnx"]
    card = (folder / "model" / "README.md").read_text()
    assert "## Training" in card and "camvr" in card
    assert (folder / "model" / "modules.json").is_file() and (folder / "onnx" / "model.onnx").is_file()
    for name in ("model/view-encoder", "onnx"):
        assert json.loads((folder / name / "config.json").read_text())["question_length"] == 20, name
    assert not (folder / "views").exists()


def test_without_a_champion_nothing_is_exported(tmp_path):
    corpus = ChangingCorpus.make(tmp_path)
    records = corpus.refresh(
        refresh={"model": corpus.with_model()}, gate={"smallest_corpus": 10**6}, export=VIEWS
    )
    assert corpus.decision(records) == "refuse"
    manifest = json.loads((corpus.files(exported(records)) / "export.json").read_text())
    assert manifest["formats"] == []
