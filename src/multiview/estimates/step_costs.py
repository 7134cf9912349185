"""The cost of each step of the table of steps: which formula it has, over the amounts of `workload` and the table of rates."""

from __future__ import annotations

from dataclasses import replace

from multiview.config import Config
from multiview.estimates import generation_costs, index_costs, model_costs, search_costs, text_costs
from multiview.estimates.cost import Cost, StepCost
from multiview.estimates.workload import Scenario
from multiview.steps.table import STEPS

COSTS: dict[str, StepCost] = {
    "split": text_costs.split,
    "split-again": text_costs.split_again,
    "changes": index_costs.changes,
    "changes-with-queries": index_costs.changes,
    "initial-generator": generation_costs.initial_generator,
    "train-generator": generation_costs.train_generator,
    "generate-queries": generation_costs.generate_queries,
    "generate-questions": generation_costs.generate_questions,
    "gather-queries": generation_costs.gather_queries,
    "evaluate-queries": generation_costs.evaluate_queries,
    "make-questions": text_costs.make_questions,
    "bm25-negatives": text_costs.bm25_negatives,
    "evaluate-bm25": text_costs.evaluate_bm25,
    "evaluate-bm25-with-queries": text_costs.evaluate_bm25_with_queries,
    "initial-model": model_costs.initial_model,
    "warm-up": model_costs.warm_up,
    "train": model_costs.train,
    "encode": model_costs.encode,
    "encode-with-queries": model_costs.encode,
    "index": index_costs.index,
    "mine": search_costs.mine,
    "teach": model_costs.teach,
    "evaluate": search_costs.evaluate,
    "refresh-index": index_costs.refresh_index,
    "export": index_costs.export,
    "follow-champion": index_costs.follow_champion,
}
"""The cost model of each step whose work grows with the data."""


def cost_of(step: str, config: Config, scenario: Scenario, shards: int = 1) -> Cost:
    """The cost of a step of the table of steps on its own hardware, with `shards` tasks if it runs by shard.

    A step whose work is small beside the others' costs its start alone.
    """
    scenario = scenario.of(step)
    cost = COSTS.get(step, lambda config, scenario, shards: Cost())(config, scenario, shards)
    rates = scenario.rates
    return replace(
        cost,
        parts={"start": rates["start_seconds"], **cost.parts},
        memory=cost.memory + rates["process_bytes" if STEPS[step].torch else "plain_process_bytes"],
    )
