"""What `run --dry-run` and `submit --dry-run` print: the estimate of a request, with the steps that the store has."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from multiview.artifacts.store import Store
from multiview.config.kubeflow import Kubeflow, Pod
from multiview.estimates.counting import count
from multiview.estimates.estimate import MOST_SHARDS, base_config, estimate
from multiview.estimates.model_shape import shape_of
from multiview.estimates.rates import Rates, default_rates
from multiview.estimates.text import tables
from multiview.estimates.workload import Hardware, Scenario
from multiview.model.bases import BASE
from multiview.plans.pods import pod_of
from multiview.plans.request import Request
from multiview.steps.path import StepPath
from multiview.steps.table import STEPS
from pipelines.runs.study_forecast import forecast

SUFFIXES = {"": 1, "m": 1e-3}
SUFFIXES |= {letter: 1000**power for power, letter in enumerate("KMGTP", 1)}
SUFFIXES |= {f"{letter}i": 1024**power for power, letter in enumerate("KMGTP", 1)}


def estimate_lines(request: Request, store: Store, hardware: Mapping[str, Hardware]) -> Iterator[str]:
    """Yields the lines of a request's estimate, each step on its own `hardware`. Raises InputError for sources that
    cannot be read."""
    rates, config = default_rates(), base_config(request.overrides)
    workload, shape = count(request, store, rates), shape_of(config.model.base, BASE)
    scenario = Scenario(workload, shape, hardware["encode"], rates, hardware)
    found = found_steps(request, store)
    yield from tables(estimate(request, scenario).without(found), scenario, config)


def found_steps(request: Request, store: Store) -> set[StepPath]:
    """The steps whose outputs the store has; none for a refresh, whose inputs hang on the champion."""
    if any(node.step.forwards for node in request.plan.nodes.values()):
        return set()
    (prospects,) = forecast({"run": request.plan}, store).values()
    new = {prospect.path.whole for prospect in prospects if prospect.status != "found"}
    return {path for path in request.plan.nodes if path not in new}


def this_machine(rates: Rates) -> dict[str, Hardware]:
    """The hardware of every step of a run on this machine."""
    import torch

    memory = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    gpus = torch.cuda.device_count()
    gpu = device_in(rates, torch.cuda.get_device_name() if gpus else "")
    # KFP's local runner works on two shards at once, each with half of the threads: one with all of them.
    return dict.fromkeys(STEPS, Hardware(gpus, gpu, os.cpu_count() or 1, memory, at_once=1))


def pods(settings: Kubeflow, rates: Rates) -> dict[str, Hardware]:
    """The hardware of each step's pod; its GPU is the one that a label of its nodes names, else the first of the table."""
    return {step: _hardware(pod_of(settings, step), rates) for step in STEPS}


def _hardware(pod: Pod, rates: Rates) -> Hardware:
    asked = sorted(
        (each for each in pod.node_affinity if each.operator == "In"),
        key=lambda each: each.weight is not None,
    )
    nodes = [*pod.node_selector.values(), *(value for each in asked for value in each.values)]
    return Hardware(
        pod.gpus * pod.nodes,
        device_in(rates, " ".join(nodes)),
        max(1, round(quantity(pod.cpu))),
        quantity(pod.memory),
        at_once=pod.parallel_shards or MOST_SHARDS,
        nodes=pod.nodes,
    )


def device_in(rates: Rates, words: str) -> str:
    """The first device of the table of rates that `words` name, or the table's first.

    >>> [device_in(default_rates(), words) for words in ("nvidia-tesla-a100", "NC24ads_A100_v4", "nvidia-l40s")]
    ['a100', 'a100', 'h100']
    """
    within = r"(?<![a-z0-9]){}(?![a-z0-9])"
    named = (
        each for each in rates.devices if re.search(within.format(re.escape(each)), words, re.IGNORECASE)
    )
    return next(named, next(iter(rates.devices)))


def quantity(text: str) -> float:
    """The number that Kubernetes' text means.

    >>> quantity("16Gi") / 2**30, quantity("500m")
    (16.0, 0.5)
    """
    number = text.rstrip("mKMGTPi")
    return float(number) * SUFFIXES[text.removeprefix(number)]
