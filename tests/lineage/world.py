"""A store with a run that was evaluated, whose artifacts name what they were made from."""

from dataclasses import dataclass
from pathlib import Path

from multiview.artifacts.record import Record
from multiview.artifacts.store import LocalStore
from multiview.lineage.trace import Lineage, reference_of, trace
from multiview.model.systems import resolve
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, write_run
from pipelines.plans.plan import Plan, Source
from tests.corpus import squad_corpus
from tests.pipelines.inprocess import run_plan

RUN = "bm25-1"
PATHS = ["split", "bm25-negatives", "one/evaluate", "two/evaluate", "compare"]


@dataclass
class World:
    store: LocalStore
    records: dict[str, dict[str, Record]]

    def address(self, path: str, kind: str) -> str:
        return f"{self.store.url}/{self.records[path][kind].folder}"

    @property
    def comparison(self) -> str:
        return self.address("compare", "comparison")

    def traced(self) -> Lineage:
        return trace([reference_of(self.comparison)])

    def file(self, path: str, kind: str) -> Path:
        """An artifact's record."""
        return self.store.root / self.records[path][kind].folder / "artifact.json"

    def rewrite(self, path: str, kind: str, **changes) -> None:
        """Another record in its place, with a seal of its own."""
        record = self.records[path][kind].model_copy(update=changes)
        self.file(path, kind).write_bytes(record.to_json())


def make(folder: Path) -> World:
    """Two BM25 evaluations with other settings, and their comparison, made by the real steps."""
    train, dev = squad_corpus(folder, passages=12)
    given = {
        "corpus": {"source": [str(train), str(dev)]},
        "questions": {"source": str(train), "dev_source": str(dev)},
        "evaluation": {"depth": 5},
        "bm25": {"depth": 5},
        "comparison": {"rows": ("one", "two"), "resamples": 100},
    }
    config, other = resolve(given), resolve(given | {"bm25": {"k1": 0.5}})
    plan = Plan("bm25")
    split = plan.add(StepPath("split"), "split", config)
    passages, questions = split.output("passages"), split.output("train_questions")
    path = StepPath("bm25-negatives")
    plan.add(path, "bm25-negatives", config, passages=passages, questions=questions)
    evaluations: list[Source] = []
    for row, settings in (("one", config), ("two", other)):
        path, dev_questions = StepPath("evaluate", row), split.output("dev_questions")
        node = plan.add(path, "evaluate-bm25", settings, passages=passages, questions=dev_questions)
        evaluations.append(node.output())
    plan.add(StepPath("compare"), "compare", config, evaluations=evaluations)
    store = LocalStore(folder / "store")
    write_run(store, Run(id=RUN, pipeline="bm25", config=given, steps=PATHS))
    return World(store, run_plan(plan, store, RUN))


def shorten_file(world: World) -> None:
    file = world.store.root / world.records["one/evaluate"]["evaluation"].data / "run.trec"
    file.write_bytes(file.read_bytes()[:-1])


def remove_record(world: World) -> None:
    world.file("two/evaluate", "evaluation").unlink()
