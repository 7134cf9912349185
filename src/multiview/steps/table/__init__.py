"""The table of steps, with their inputs, outputs and functions."""

from multiview.errors import InputError
from multiview.steps.step import Step
from multiview.steps.table import refresh, retrieval, training

STEPS: dict[str, Step] = {
    step.name: step for module in (training, retrieval, refresh) for step in module.STEPS
}

GPU_STEPS = {step.name for step in STEPS.values() if step.gpu}


def step(name: str) -> Step:
    """Returns the step called `name`. Raises InputError for an unknown step."""
    try:
        return STEPS[name]
    except KeyError:
        raise InputError(f"there is no step {name!r}; steps are {', '.join(STEPS)}") from None
