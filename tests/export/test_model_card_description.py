import uuid

from multiview.artifacts.record import Record, Reference, load_record
from multiview.artifacts.store import LocalStore
from multiview.export.model_card import describe, read_subject


def test_an_index_gives_its_model_and_itself(indexes):
    model, index = read_subject(indexes.index("camvr"))
    assert model.record.kind == "model"
    assert index is not None and index.record.kind == "index"
    alone, nothing = read_subject(f"{indexes.store.url}/{model.record.folder}")
    assert (alone.record, nothing) == (model.record, None)


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

    def made(kind: str, step: str, inputs=None, config=None, facts=None, sources=None) -> str:
        references = {name: [Reference.to(*load_record(each))] for name, each in (inputs or {}).items()}
        key = uuid.uuid4().hex
        record = Record(
            kind=kind, key=key, digest=key, attempt="a", step=step, step_version=1, config=config or {},
            inputs=references, sources=sources or {}, files=[], facts=facts or {}, created="2026-01-01T00:00:00",
            seconds=1,
        )  # fmt: skip
        store.create(f"{kind}/{key}/artifact.json", record.to_json())
        return f"{store.url}/{record.folder}"

    base = made("model", "initial-model", sources={"hub": "me/base", "commit": "c0ffee"})
    file = {"name": "train.json", "bytes": 1}
    inputs = {"start": base, "questions": made("train_questions", "split", sources={"questions": [file]})}
    first = made("model", "train", inputs, {"train": {"epochs": 3}}, {"questions": 1200, "steps": 40})
    inputs |= {"start": first, "negatives": made("negatives", "mine", {"model": first})}
    second = {"train": {"epochs": 1.5, "checkpoint_steps": 3}}
    described = describe(*read_subject(made("model", "train", inputs, second, {"questions": 1200})))
    assert (described.hub, described.base) == ("me/base", "me/base at c0ffee")
    assert described.stages == [
        "1,200 questions of train.json; 40 steps; epochs: 3",
        "1,200 questions of train.json; epochs: 1.5; checkpoint_steps: 3; hard negatives by step mine",
    ]
