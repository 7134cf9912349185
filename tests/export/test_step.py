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


def test_a_promotion_exports_its_views(corpus: ChangingCorpus, tmp_path):
    before = rows_of(corpus.files(exported(corpus.refresh(export=VIEWS))) / "views")
    changed = corpus.rows[3]["id"]
    corpus.add("new-1")
    corpus.change(3)
    corpus.remove("p5")
    records = corpus.refresh(export=VIEWS)
    assert corpus.decision(records) == "promote"
    folder, now = (
        corpus.files(exported(records)),
        IndexViews.open(read_champion(corpus.store, 2).index.address),
    )
    write_views(now, tmp_path / "views")
    after = rows_of(folder / "views")
    assert after == rows_of(tmp_path / "views")
    differing = [row for row in before if row not in after] + [row for row in after if row not in before]
    assert {row["passage_id"] for row in differing} == {"new-1", changed, "p5"}
    manifest = json.loads((folder / "export.json").read_text())
    assert (manifest["digest"], manifest["formats"]) == (now.name.digest, ["views"])


def test_columns_of_any_type_are_exported(corpus: ChangingCorpus):
    more = {
        "tags": ["a", "b"],
        "where": {"page": 3, "names": ["x", None]},
        "seen": datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC),
        "price": Decimal("12.50"),
        "nothing": None,
        "raw": b"\x00\xff",
    }
    corpus.rows = [{**row, **more} for row in corpus.rows]
    rows = rows_of(corpus.files(exported(corpus.refresh(export=VIEWS))) / "views")
    assert rows and all({name: row["columns"][name] for name in more} == more for row in rows)


def test_a_model_is_exported_for_other_libraries_with_a_card(
    corpus: ChangingCorpus,
):
    corpus.add("new-1")
    folder = corpus.files(exported(corpus.refresh(export={"formats": ["model", "onnx"]})))
    assert json.loads((folder / "export.json").read_text())["formats"] == ["model", "onnx"]
    card = (folder / "model" / "README.md").read_text()
    assert "## Training" in card and "camvr" in card
    assert (folder / "model" / "modules.json").is_file() and (folder / "onnx" / "model.onnx").is_file()
    assert not (folder / "views").exists()


def test_the_lineage_names_the_indexes_and_is_whole(corpus: ChangingCorpus):
    corpus.add("new-1")
    record = exported(corpus.refresh(export=VIEWS))
    champion = read_champion(corpus.store, 2)
    inputs = {name: references[0].digest for name, references in record.inputs.items()}
    assert inputs == {names.INDEX: champion.index.digest, names.PASSAGES: champion.passages.digest}
    lineage = trace([Reference.to(corpus.store, record)])
    assert list(flaws(lineage)) == []


def test_a_refused_index_is_not_exported_and_the_champion_s_export_is_found(promoted_corpus: ChangingCorpus):
    corpus = promoted_corpus
    first = exported(corpus.refresh(export=VIEWS))
    corpus.rows = corpus.rows[: len(corpus.rows) // 2]
    records = corpus.refresh(export=VIEWS)
    assert corpus.decision(records) == "refuse"
    assert exported(records) == first, "not written anew"
    state = read_state(corpus.store, "refresh", "export")
    assert state is not None and state.status == "found"


def test_a_promotion_that_ended_before_its_export_is_exported_by_the_next_refresh(corpus: ChangingCorpus):
    corpus.add("new-1")
    corpus.refresh()
    records = corpus.refresh(export=VIEWS)
    assert corpus.decision(records) == "keep"
    ids = {row["passage_id"] for row in rows_of(corpus.files(exported(records)) / "views")}
    assert "new-1" in ids


def test_without_a_champion_nothing_is_exported(tmp_path):
    corpus = ChangingCorpus.make(tmp_path)
    records = corpus.refresh(
        refresh={"model": corpus.with_model()}, gate={"smallest_corpus": 10**6}, export=VIEWS
    )
    assert corpus.decision(records) == "refuse"
    manifest = json.loads((corpus.files(exported(records)) / "export.json").read_text())
    assert manifest["formats"] == []


def test_after_a_rollback_the_restored_index_is_exported(promoted_corpus: ChangingCorpus):
    corpus = promoted_corpus
    rollback(corpus.store)
    records = corpus.refresh(export=VIEWS, gate={"smallest_corpus": 10**6})
    assert corpus.decision(records) == "refuse"
    folder = corpus.files(exported(records))
    first = read_champion(corpus.store, 1)
    assert json.loads((folder / "export.json").read_text())["digest"] == first.index.digest
    assert "new-1" not in {row["passage_id"] for row in rows_of(folder / "views")}
