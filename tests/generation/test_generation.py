"""The steps of the query generator one after another, out of a store and into it."""

from pathlib import Path

from multiview import names
from multiview.artifacts.store import LocalStore
from multiview.config.overrides import validate
from multiview.data.queries import iterate_queries
from multiview.plans.plan import Plan
from multiview.steps.path import StepPath
from tests.fixtures.corpus import squad_corpus
from tests.fixtures.inprocess import Records, run_plan
from tests.fixtures.tiny import tiny_t5


def made(folder: Path, store: LocalStore, shards: int) -> Records:
    train, dev = squad_corpus(folder / "corpus", passages=6)
    config = validate(
        {
            "corpus": {"source": [str(train), str(dev)], "shards": shards},
            "questions": {"source": str(train), "dev_source": str(dev)},
            "generation": {
                "model": str(tiny_t5(folder / "t5")),
                "queries": 3,
                "max_length": 6,
                "batch_size": 4,
                "train": {"max_steps": 2, "batch_size": 4},
            },
        }
    )
    plan = Plan("queries")
    split = plan.add(StepPath("split"), "split", config)
    passages, questions = split.output(names.PASSAGES), split.output(names.TRAIN_QUESTIONS)
    base = plan.add(StepPath("initial-generator"), "initial-generator", config).output()
    generator = plan.add(
        StepPath("train-generator"),
        "train-generator",
        config,
        base=base,
        passages=passages,
        questions=questions,
    ).output()
    plan.add(
        StepPath("queries"),
        "generate-queries",
        config,
        generator=generator,
        passages=passages,
    )
    return run_plan(plan, store)


def test_queries_are_generated_and_sharding_does_not_matter(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    whole, parts = made(tmp_path, store, 1), made(tmp_path, store, 3)
    whole_queries = list(iterate_queries(store.root / whole["queries/shard-00"]["queries"].data))
    several = [store.root / parts[f"queries/shard-{number:02d}"]["queries"].data for number in range(3)]
    assert [row for part in several for row in iterate_queries(part)] == whole_queries
    assert len(whole_queries) == 12 and all(queries for _, queries in whole_queries)
    assert not store.folders("checkpoint")
