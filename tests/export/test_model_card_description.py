import pytest

from multiview.artifacts.record import Record, Reference, load_record
from multiview.artifacts.store import LocalStore
from multiview.errors import InputError
from multiview.export.model_card import describe, read_subject


def test_an_index_gives_its_model_and_itself(indexes):
    model, index = read_subject(indexes.index("camvr"))
    assert model.record.kind == "model"
    assert index is not None and index.record.kind == "index"
    alone, nothing = read_subject(f"{indexes.store.url}/{model.record.folder}")
    assert (alone.record, nothing) == (model.record, None)


def test_another_artifact_is_refused(indexes):
    passages = indexes.record("split", "passages")
    with pytest.raises(InputError, match="neither a model nor an index"):
        read_subject(f"{indexes.store.url}/{passages.folder}")


def test_an_untrained_model_has_its_corpus(indexes):
    described = describe(*read_subject(indexes.index("camvr")))
    assert described.corpus == "passages.parquet"
    assert described.passages == indexes.record("split", "passages").facts["passages"]
    assert described.base.startswith("a checkpoint with digest ") and described.hub is None
    assert described.stages == []
    assert not described.padding_views
    assert describe(*read_subject(indexes.index("all-views"))).padding_views


def test_rounds_and_their_settings_are_told_first_round_first(tmp_path):
    store = LocalStore(tmp_path / "store")
    base = publish(store, "model", "0" * 32, "initial-model", sources={"hub": "me/base", "commit": "c0ffee"})
    questions = publish(
        store,
        "train_questions",
        "1" * 32,
        "split",
        sources={"questions": [{"name": "train.json", "bytes": 1}]},
    )
    first = publish(
        store,
        "model",
        "2" * 32,
        "train",
        {"train": {"epochs": 3}},
        {"start": base, "questions": questions},
        {"questions": 1200, "steps": 40},
    )
    mined = publish(store, "negatives", "3" * 32, "mine", inputs={"model": first})
    second = publish(
        store,
        "model",
        "4" * 32,
        "train",
        {"train": {"epochs": 1.5, "checkpoint_steps": 3}},
        {"start": first, "questions": questions, "negatives": mined},
        {"questions": 1200},
    )
    described = describe(*read_subject(second))
    assert (described.hub, described.base) == ("me/base", "me/base at c0ffee")
    assert described.stages == [
        "1,200 questions of train.json; 40 steps; epochs: 3",
        "1,200 questions of train.json; epochs: 1.5; checkpoint_steps: 3; hard negatives by step mine",
    ]


def publish(store, kind, key, step, config=None, inputs=None, facts=None, sources=None) -> str:
    """Writes a record and returns its address."""
    references = {}
    for name, address in (inputs or {}).items():
        references[name] = [Reference.to(*load_record(address))]
    record = Record(
        kind=kind, key=key, digest=key, attempt="a", step=step, step_version=1, config=config or {}, inputs=references,
        sources=sources or {}, files=[], facts=facts or {}, created="2026-01-01T00:00:00", seconds=1,
    )  # fmt: skip
    store.create(f"{kind}/{key}/artifact.json", record.to_json())
    return f"{store.url}/{record.folder}"
