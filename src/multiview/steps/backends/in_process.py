"""A step's work in this process, on the GPUs that its pod has requested."""

import contextlib
import json
import os
import warnings

from multiview import environment
from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Record
from multiview.errors import InputError
from multiview.steps.checkpoints import StoredCheckpoints
from multiview.steps.events import EventLog
from multiview.steps.provenance import machine
from multiview.steps.step import key_settings
from multiview.steps.work import StepReporter, Work

WAY_OUT = (
    "the node's driver is likely too old for this torch (CUDA 13 needs 580 or newer), or the node's device plugin "
    "did not hand its GPUs to the pod"
)


def work_here(work: Work, reporter: StepReporter) -> dict[str, Record]:
    """Calls the step's function and publishes its outputs; returns their records, or those of a faster attempt. Raises
    InputError for a pod without the GPUs that it asked for, and every exception of the step."""
    step, store = work.step, reporter.store
    check_visible_gpus()
    attempts = {kind: Attempt(store, kind, work.key) for kind in step.outputs}
    first = attempts[step.outputs[0]]
    log = EventLog(store, first.data, reporter.note)
    reporter.begin_attempt(first.data)
    checkpoints = StoredCheckpoints(store, work.key, log)
    try:
        with log.lines():
            log.begin("fetching its inputs")
            folders = {kind: attempt.path for kind, attempt in attempts.items()}
            context = work.context(store, folders, log, checkpoints, reporter.pages)
            log.begin("working")
            step.function()(context)
            log.begin("writing its outputs")
            work.check_inputs(context)
            device = json.loads(work.config).get("encode", {}).get("device", "auto")
            log.close()  # what is published is found from then on, and its events are not made again
            return {
                kind: attempt.publish(
                    step=step.name,
                    step_version=step.version,
                    config=key_settings(work.settings),
                    inputs=work.references,
                    sources=work.sources,
                    facts=log.facts,
                    environment=machine(device),
                )[0]
                for kind, attempt in attempts.items()
            }
    except Exception:
        for attempt in attempts.values():
            with contextlib.suppress(Exception):  # the step's own error is the one to report
                attempt.abandon()
        raise
    finally:
        with contextlib.suppress(Exception):
            log.close()


def check_visible_gpus() -> None:
    """Raises InputError if torch sees fewer GPUs than the pod requested, if any: the step would run on the CPU."""
    if not (requested := int(os.environ.get(environment.GPUS) or 0)):
        return
    import torch

    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        # Only this asks CUDA, which an old driver refuses; the count alone asks the driver.
        seen = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if seen < requested:
        words = next((f" (torch: {str(w.message).partition('. ')[0]})" for w in caught_warnings), "")
        built = torch.version.cuda or torch.version.hip
        code = f"built for CUDA {built}" if built else "built without CUDA"
        raise InputError(
            f"this pod asked for {requested} GPU{'s' if requested > 1 else ''}, and torch, {code}, sees {seen}"
            f"{words}: {WAY_OUT}"
        )
