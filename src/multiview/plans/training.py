"""The training pipeline: split, BM25 negatives, rounds, evaluation."""

from __future__ import annotations

from multiview.config.overrides import Overrides
from multiview.model.systems import resolve
from multiview.plans.data import add_data
from multiview.plans.plan import Plan
from multiview.plans.system import SystemSteps


def training(overrides: Overrides) -> Plan:
    """Trains and evaluates one system, named by its architecture."""
    config = resolve(overrides)
    plan = Plan("training")
    data = add_data(plan, config, [config])
    SystemSteps(plan, config.model.architecture, config, data).add()
    return plan
