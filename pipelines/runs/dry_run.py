"""What `run --dry-run` and `submit --dry-run` print: the estimate of a request, with the steps that the store has."""

from __future__ import annotations

import os
from collections.abc import Iterator

from multiview.artifacts.store import Store
from multiview.config.kubeflow import Kubeflow
from multiview.estimates.counting import count
from multiview.estimates.estimate import base_config, estimate
from multiview.estimates.model_shape import shape_of
from multiview.estimates.rates import Rates, default_rates
from multiview.estimates.text import tables
from multiview.estimates.workload import Hardware, Setting
from multiview.model.bases import BASE
from multiview.plans.pods import pod_of
from multiview.plans.request import Request
from multiview.steps.path import StepPath
from pipelines.runs.study_forecast import forecast

SUFFIXES = {"": 1, "m": 1e-3}
SUFFIXES |= {letter: 1000**power for power, letter in enumerate("KMGTP", 1)}
SUFFIXES |= {f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", 1)}


def estimate_lines(request: Request, store: Store, hardware: Hardware) -> Iterator[str]:
    """Yields the lines of a request's estimate. Raises InputError for sources that cannot be read."""
    rates, config = default_rates(), base_config(request.overrides)
    setting = Setting(count(request, store, rates), shape_of(config.model.base, BASE), hardware, rates)
    found = found_steps(request, store)
    yield from tables(estimate(request, setting).without(found), setting, config)


def found_steps(request: Request, store: Store) -> set[StepPath]:
    """The steps whose outputs the store has; none for a refresh, whose inputs hang on the champion."""
    if any(node.step.forwards for node in request.plan.nodes.values()):
        return set()
    (prospects,) = forecast({"run": request.plan}, store).values()
    new = {prospect.path.whole for prospect in prospects if prospect.status != "found"}
    return {path for path in request.plan.nodes if path not in new}


def this_machine(rates: Rates) -> Hardware:
    """The hardware of runs on this machine; a GPU that the table of rates does not know counts as the first there."""
    import torch

    memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    gpus, name = torch.cuda.device_count(), ""
    if gpus:
        words = torch.cuda.get_device_name().lower()
        name = next((each for each in rates.devices if each in words), next(iter(rates.devices)))
    # KFP's local runner works on two shards at once, each with half of the threads: one with all of them.
    return Hardware(gpus, name, os.cpu_count() or 1, memory, at_once=1)


def pods(settings: Kubeflow, rates: Rates) -> Hardware:
    """The hardware that the settings give the steps' pods: of `train` the GPUs, of `encode` the pods at once."""
    train, encode = pod_of(settings, "train"), pod_of(settings, "encode")
    return Hardware(
        train.gpus * train.nodes,
        next(iter(rates.devices)),
        max(1, round(quantity(encode.cpu))),
        quantity(encode.memory),
        at_once=encode.parallel_shards or 100,
    )


def quantity(text: str) -> float:
    """The number that Kubernetes' text means.

    >>> quantity("16Gi") / 2**30, quantity("500m")
    (16.0, 0.5)
    """
    number = text.rstrip("mKMGTPi")
    return float(number) * SUFFIXES[text.removeprefix(number)]
