"""A run of the step `split` alone."""

from pathlib import Path

from multiview.config.overrides import validate
from multiview.plans.plan import Plan
from multiview.plans.request import Request
from multiview.steps.path import StepPath


def split_alone(folder: Path, source: str, url: str, base: str = "none") -> Request:
    """A request for the step `split` alone."""
    questions = {"source": source, "dev_source": str(folder / "corpus" / "dev.json")}
    overrides = {
        "questions": questions,
        "model": {"base": base},
        "kubeflow": {"cpu": {"retries": 0}},
        "notify": {"url": url},
    }
    plan = Plan("training")
    plan.add(StepPath("split"), "split", validate(overrides))
    return Request(plan, overrides)
