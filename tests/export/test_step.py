"""The step `export` of a refresh: the champion, whatever the verdict, once."""

import json

import pyarrow.parquet as pq

from multiview import names
from multiview.artifacts.champions import read_champion, rollback
from multiview.artifacts.record import Record, Reference
from multiview.export.files import write_views
from multiview.export.views import IndexViews
from multiview.lineage.trace import flaws, trace
from multiview.steps.events import WarningEvent, read_events
from multiview.steps.runs import read_state
from tests.fixtures.changing_corpus import ChangingCorpus
from tests.fixtures.exported import applied, rows_of

BOTH = {"formats": ["views", "delta"]}


def exported(records) -> Record:
    return records["export"][names.EXPORT]


def test_without_formats_a_refresh_has_no_such_step(corpus: ChangingCorpus):
    assert not {"export", "champion-now"} & {str(path) for path in corpus.plan().paths()}
    assert [str(path) for path in corpus.plan(export=BOTH).paths()][-2:] == ["champion-now", "export"]


def test_a_promotion_exports_its_views_and_what_it_changed(corpus: ChangingCorpus, tmp_path):
    corpus.refresh(export=BOTH)
    before = IndexViews.open(read_champion(corpus.store, 1).index.address)
    corpus.add("new-1")
    corpus.change(3)
    corpus.remove("p5")
    records = corpus.refresh(export=BOTH)
    assert corpus.decision(records) == "promote"
    folder, now = (
        corpus.files(exported(records)),
        IndexViews.open(read_champion(corpus.store, 2).index.address),
    )
    write_views(now, tmp_path / "views")
    assert rows_of(folder / "views") == rows_of(tmp_path / "views")
    write_views(before, tmp_path / "before")
    assert applied(rows_of(tmp_path / "before"), folder / "delta") == rows_of(folder / "views")
    counts = json.loads((folder / "delta" / "export.json").read_text())["counts"]
    assert counts == {"added": 1, "changed": 1, "removed": 1}
    manifest = json.loads((folder / "export.json").read_text())
    assert (manifest["digest"], manifest["formats"]) == (now.name.digest, ["views", "delta"])


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
    record = exported(corpus.refresh(export=BOTH))
    first, second = (read_champion(corpus.store, number) for number in (1, 2))
    inputs = {name: references[0].digest for name, references in record.inputs.items()}
    assert inputs == {
        names.INDEX: second.index.digest,
        names.PASSAGES: second.passages.digest,
        names.REPLACED: first.index.digest,
        names.REPLACED_PASSAGES: first.passages.digest,
    }
    lineage = trace([Reference.to(corpus.store, record)])
    assert list(flaws(lineage)) == []


def test_a_refused_index_is_not_exported_and_the_champion_s_export_is_found(promoted_corpus: ChangingCorpus):
    corpus = promoted_corpus
    first = exported(corpus.refresh(export=BOTH))
    corpus.rows = corpus.rows[: len(corpus.rows) // 2]
    records = corpus.refresh(export=BOTH)
    assert corpus.decision(records) == "refuse"
    assert exported(records) == first, "not written anew"
    state = read_state(corpus.store, "refresh", "export")
    assert state is not None and state.status == "found"


def test_a_promotion_that_ended_before_its_export_is_exported_by_the_next_refresh(corpus: ChangingCorpus):
    corpus.add("new-1")
    corpus.refresh()
    records = corpus.refresh(export=BOTH)
    assert corpus.decision(records) == "keep"
    counts = json.loads((corpus.files(exported(records)) / "delta" / "export.json").read_text())["counts"]
    assert counts == {"added": 1, "changed": 0, "removed": 0}


def test_the_first_champion_s_delta_is_everything(tmp_path):
    corpus = ChangingCorpus.make(tmp_path)
    records = corpus.refresh(refresh={"model": corpus.with_model()}, export=BOTH)
    delta = corpus.files(exported(records)) / "delta"
    counts = json.loads((delta / "export.json").read_text())["counts"]
    assert counts == {"added": len(corpus.rows), "changed": 0, "removed": 0}


def test_without_a_champion_nothing_is_exported(tmp_path):
    corpus = ChangingCorpus.make(tmp_path)
    records = corpus.refresh(
        refresh={"model": corpus.with_model()}, gate={"smallest_corpus": 10**6}, export=BOTH
    )
    assert corpus.decision(records) == "refuse"
    manifest = json.loads((corpus.files(exported(records)) / "export.json").read_text())
    assert manifest["formats"] == []


def test_another_model_s_delta_is_left_out(corpus: ChangingCorpus):
    records = corpus.refresh(refresh={"model": corpus.with_model(7)}, export=BOTH)
    assert corpus.decision(records) == "promote"
    folder = corpus.files(exported(records))
    assert json.loads((folder / "export.json").read_text())["formats"] == ["views"]
    assert not (folder / "delta").exists()
    assert exported(records).facts["exported"] == "views"
    events = read_events(corpus.store, exported(records).data)
    (warning,) = [event.text for event in events if isinstance(event, WarningEvent)]
    assert warning.startswith("export.formats: delta is left out") and "there is no delta" in warning


def test_after_a_rollback_the_restored_index_is_exported(promoted_corpus: ChangingCorpus):
    corpus = promoted_corpus
    rollback(corpus.store)
    records = corpus.refresh(export=BOTH, gate={"smallest_corpus": 10**6})
    assert corpus.decision(records) == "refuse"
    folder = corpus.files(exported(records))
    first = read_champion(corpus.store, 1)
    assert json.loads((folder / "export.json").read_text())["digest"] == first.index.digest
    removed = pq.read_table(folder / "delta" / "removed.parquet")["passage_id"].to_pylist()
    assert removed == ["new-1"], "from the champion that was rolled back"
