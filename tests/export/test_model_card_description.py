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

    initial = made("model", "initial-model", sources={"hub": "me/base", "commit": "c0ffee"})
    facts = {"questions": 900, "steps": 9, "best_step": 9}
    base = made("model", "warm-up", {"start": initial}, {"train": {"max_steps": 9}}, facts)
    file = {"name": "train.json", "bytes": 1}
    inputs = {"start": base, "questions": made("train_questions", "split", sources={"questions": [file]})}
    unread = {**inputs, "negatives": made("negatives", "bm25-negatives")}
    facts = {"questions": 1200, "steps": 40, "best_step": 30}
    first = made("model", "train", unread, {"train": {"epochs": 3, "negatives": 0}}, facts)
    mined = made("negatives", "mine", {"model": first})
    inputs |= {"start": first, "negatives": made("negatives", "teach", {"hard_negatives": mined})}
    second = {"train": {"epochs": 1.5, "checkpoint_steps": 3}}
    described = describe(*read_subject(made("model", "train", inputs, second, {"questions": 1200})))
    assert (described.hub, described.base) == ("me/base", "me/base at c0ffee")
    assert described.stages == [
        "900 questions, generated from the passages; 9 steps; max_steps: 9",
        "1,200 questions of train.json; 40 steps; the model of step 30; epochs: 3; negatives: 0",
        "1,200 questions of train.json; epochs: 1.5; checkpoint_steps: 3; hard negatives by step mine",
    ]
