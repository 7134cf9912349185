"""The steps of one system: its training in rounds, its embeddings, its index and its evaluation."""

from dataclasses import dataclass

from multiview.artifacts.record import load_record
from multiview.config import Config, Search
from multiview.config.overrides import Overrides
from multiview.errors import InputError
from multiview.model.systems import architecture_label, resolve, stage_settings
from multiview.plans.data import Data, add_data, reads_queries
from multiview.plans.plan import Input, Node, Output, Plan
from multiview.steps.path import WARM_UP, StepPath


@dataclass(frozen=True)
class SystemSteps:
    """Adds the steps of one system to a plan."""

    plan: Plan
    system: str
    config: Config
    data: Data

    def add(self) -> Node:
        """Adds training, encoding, index and evaluation; returns the evaluation after the last round."""
        self.plan.architectures[self.system] = architecture_label(self.config.model)
        train, last = self.config.train, self.config.train.rounds
        start = pretrained = self._warm_up(self._start())
        model, index = start, None
        for number in range(1, last + 1):
            assert self.data.negatives is not None, (
                "add_data makes negatives for the systems that are trained"
            )
            negatives: Input = self.data.negatives
            if index is not None:
                mined = {"questions": self.data.train_questions, "bm25_negatives": negatives}
                negatives = self._add(number, "mine", self.config, model=model, index=index, **mined)
                start = model if train.start_from == "round_one" else pretrained
            model = self._train(number, start, negatives)
            index = self._index(number, model)
            if self.config.evaluation.each_round and number < last:
                self._evaluate(number, model, index, analyses=False)
        return self._evaluate(last, model, index or self._index(0, model))

    def _add(self, number: int, step: str, config: Config, **inputs: Input | list[Input]) -> Node:
        """Adds a step of a round, which reads the passages; its path leaves out any `-with-…` of the step's name."""
        path = StepPath(step.partition("-with-")[0], self.system, f"round-{number}")
        return self.plan.add(path, step, config, passages=self.data.passages, **inputs)

    def _start(self) -> Input:
        """Returns the model that training starts from: a new one, or an artifact."""
        if address := self.config.train.model:
            return load_record(address, "train.model").reference
        return self.plan.add(StepPath("initial-model", self.system), "initial-model", self.config)

    def _warm_up(self, start: Input) -> Input:
        """Returns the model that the rounds start from: `start`, or `start` trained on generated queries."""
        if not self.config.train.warm_up:
            return start
        path, config = StepPath("train", self.system, WARM_UP), stage_settings(self.config, "warm_up")
        inputs = {"start": start, "passages": self.data.passages, "queries": self._queries()}
        return self.plan.add(path, "warm-up", config, **inputs)

    def _teach(self, number: int, config: Config, negatives: Input) -> Node:
        """Adds the scores of a cross-encoder. Raises InputError if none is named, or there is nothing to score."""
        if not config.mining.cross_encoder:
            raise InputError(
                "train.distill_weight: distillation needs a teacher; set mining.cross_encoder, or the weight to 0"
            )
        if not config.train.negatives:
            raise InputError(
                f"train.distill_weight: without hard negatives in round {number} (train.negatives=0) there is nothing to "
                "distil; set the weight to 0 there, or in train.round_two alone"
            )
        questions = self.data.train_questions
        return self._add(number, "teach", config, questions=questions, hard_negatives=negatives)

    def _train(self, number: int, start: Input, negatives: Input) -> Node:
        config = stage_settings(self.config, "round_two" if number > 1 else None)
        if config.train.distill_weight:
            negatives = self._teach(number, config, negatives)
        questions = self.data.train_questions
        return self._add(number, "train", config, start=start, questions=questions, negatives=negatives)

    def _index(self, number: int, model: Input) -> Node:
        step, inputs = "encode", {"model": model}
        if reads_queries(self.config):
            step, inputs["queries"] = "encode-with-queries", self._queries()
        embeddings = self._add(number, step, self.config, **inputs)
        config = self.config
        if (
            number < config.train.rounds and not config.evaluation.each_round
        ):  # it is only mined from, by views
            config = config.model_copy(update={"search": Search()})
        return self._add(number, index_step("index", config), config, model=model, embeddings=[embeddings])

    def _evaluate(self, number: int, model: Input, index: Node, analyses: bool = True) -> Node:
        config = self.config
        if not analyses:
            evaluation = config.evaluation.model_copy(update={"analyses": ()})
            config = config.model_copy(update={"evaluation": evaluation})
        asked = {"questions": self.data.dev_questions, "train_questions": self.data.train_questions}
        return self._add(number, "evaluate", config, model=model, index=index, **asked)

    def _queries(self) -> Output:
        assert self.data.queries is not None, "add_data generates queries for the systems that read them"
        return self.data.queries


def index_step(step: str, config: Config) -> str:
    """Returns the variant of `step` that builds an index which ranks as `config.search` says."""
    return step if config.search == Search() else f"{step}-with-search"


def training(overrides: Overrides) -> Plan:
    """Trains and evaluates one system, named by its architecture."""
    config = resolve(overrides)
    plan = Plan("training")
    data = add_data(plan, config, [config])
    SystemSteps(plan, config.model.architecture, config, data).add()
    return plan
