"""With a real (tiny) model, by the plan's steps: a search of the refreshed index is one of an index built from nothing."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import multiview
from multiview.artifacts.record import Record, Reference
from multiview.artifacts.store import LocalStore
from multiview.data.questions import read_questions
from multiview.model.systems import resolve
from multiview.plans.plan import Output, Plan
from multiview.steps.path import StepPath
from tests.fixtures.changing_vectors import reference
from tests.fixtures.inprocess import Records, run_plan
from tests.fixtures.system_indexes import write_corpus
from tests.fixtures.tiny import tiny_bert


class ServedChampion:
    def __init__(self, folder: Path) -> None:
        self.corpus, questions = write_corpus(folder)
        self.questions = [row["question"] for row in pq.read_table(questions).to_pylist()][:12]
        self.store = LocalStore(folder / "store")
        self.config = resolve(
            {
                "corpus": {"source": [str(self.corpus)]},
                "questions": {"source": [str(questions)], "max_missing_gold": 1.0},
                "model": {
                    "base": str(tiny_bert(folder / "base")),
                    "architecture": "camvr",
                    "views": 4,
                    "passage_length": 64,
                    "question_length": 24,
                },
                "encode": {"batch_tokens": 512},
            }
        )

    def plan(self) -> tuple[Plan, Output, Output]:
        """A plan, its model and its passages."""
        plan = Plan("refresh")
        split = plan.add(StepPath("split"), "split", self.config)
        model = plan.add(StepPath("model"), "initial-model", self.config)
        return plan, model.output(), split.output("passages")

    def build(self) -> Records:
        plan, model, passages = self.plan()
        encode = plan.add(
            StepPath("encode"),
            "encode",
            self.config,
            model=model,
            passages=passages,
        )
        plan.add(
            StepPath("index"),
            "index",
            self.config,
            model=model,
            passages=passages,
            embeddings=[encode.output()],
        )
        return run_plan(plan, self.store)

    def refresh(self, old: Reference) -> Records:
        plan, model, passages = self.plan()
        changes = plan.add(
            StepPath("changes"), "changes", self.config, index=old, model=model, passages=passages
        ).output()
        encode = plan.add(StepPath("encode"), "encode", self.config, model=model, passages=changes)
        plan.add(
            StepPath("index"),
            "refresh-index",
            self.config,
            old=old,
            changes=changes,
            model=model,
            passages=passages,
            embeddings=[encode.output()],
        )
        return run_plan(plan, self.store)

    def address(self, record: Record) -> Reference:
        return reference(self.store, record)


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> ServedChampion:
    return ServedChampion(tmp_path_factory.mktemp("serving"))


def test_the_same_hits_as_after_a_rebuild(served):
    """Texts and columns among them; of the passages that stayed nothing is encoded again."""
    old = served.address(served.build()["index"]["index"])
    rows = pq.read_table(served.corpus).to_pylist()
    rows[3]["text"] = "The old king found a river. It was long."
    rows[5]["url"] = "https://example.org/moved"  # no reason to encode it
    more = {**rows[0], "id": "new", "title": "Tesla", "text": "Tesla built a tower. It was tall."}
    pq.write_table(pa.Table.from_pylist([more, *rows[1:]], pq.read_schema(served.corpus)), served.corpus)

    refreshed = served.refresh(old)
    facts = refreshed["changes"]["changes"].facts
    assert [facts[name] for name in ("added", "changed", "removed", "to_encode")] == [1, 1, 1, 2]
    assert [refreshed[f"encode/shard-0{n}"]["embeddings"].facts["passages"] for n in (0, 1)] == [1, 1]
    rebuilt = served.build()
    for name in ("views.f16", "passages.parquet"):
        assert refreshed["index"]["index"].file(name).sha256 == rebuilt["index"]["index"].file(name).sha256
    edited, afresh = (
        multiview.load(served.address(records["index"]["index"]).address) for records in (refreshed, rebuilt)
    )
    found = edited.search(served.questions, k=6, explain=True)
    assert found == afresh.search(served.questions, k=6, explain=True)
    every = {hit.id: hit for hit in edited.search(["Tesla?"], k=100)[0]}
    assert every["new"].text == more["text"] and every["p5"].columns["url"] == "https://example.org/moved"
    assert "p0" not in every and every["p3"].text == rows[3]["text"]


def test_where_nothing_changed_no_model_is_loaded(served, monkeypatch):
    from multiview.model.encoder import BiEncoder

    index = served.build()["index"]["index"]
    monkeypatch.setattr(BiEncoder, "load", lambda *given, **more: pytest.fail("a model was loaded"))
    refreshed = served.refresh(served.address(index))
    assert refreshed["changes"]["changes"].facts["to_encode"] == 0
    assert refreshed["encode/shard-00"]["embeddings"].facts["views"] == 0
    assert refreshed["index"]["index"].digest == index.digest


@pytest.mark.parametrize("length", [8, None])
def test_an_evaluation_asks_as_a_search_of_its_index_does(served, length, monkeypatch):
    """Also where `encode` says another length by now, as in a refresh that compares a champion of then."""
    built_with, asked_with = (
        served.config.model_copy(
            update={"encode": served.config.encode.model_copy(update={"question_length": given})}
        )
        for given in (length, 24 if length else 8)
    )
    monkeypatch.setattr(served, "config", built_with)
    index = served.address(served.build()["index"]["index"])
    plan, model, passages = served.plan()
    split = plan.node("split")
    questions = {name: split.output(name) for name in ("dev_questions", "train_questions")}
    asked = {"questions": questions["dev_questions"], "train_questions": questions["train_questions"]}
    inputs = {"index": index, "model": model, "passages": passages, **asked}
    plan.add(StepPath("evaluate"), "evaluate", asked_with, **inputs)
    records = run_plan(plan, served.store)
    folder = served.store.root / records["evaluate"]["evaluation"].data
    texts = {
        q.qid: q.question for q in read_questions(served.store.root / records["split"]["dev_questions"].data)
    }
    found = {qid: [] for qid in texts}
    for line in (folder / "run.trec").read_text().splitlines():
        qid, _, id_, _, score, _ = line.split()
        found[qid].append((id_, pytest.approx(float(score), rel=1e-5)))
    hits = multiview.load(index.address).search(list(texts.values()), k=5)
    assert [[(hit.id, hit.score) for hit in each] for each in hits] == [each[:5] for each in found.values()]
