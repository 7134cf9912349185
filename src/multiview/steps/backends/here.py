"""A step's work in this process."""

from __future__ import annotations

import contextlib

from multiview.artifacts.attempt import Attempt
from multiview.artifacts.record import Record
from multiview.artifacts.scratch import scratch
from multiview.steps.backends.gpus import check_gpus
from multiview.steps.checkpoints import StoredCheckpoints
from multiview.steps.events import EventLog
from multiview.steps.provenance import machine
from multiview.steps.reporter import StepReporter
from multiview.steps.step import key_settings
from multiview.steps.work import Work


class Here:
    """Does the work in this process."""

    def make(self, work: Work, reporter: StepReporter) -> dict[str, Record]:
        """Calls the step's function and publishes its outputs. The records of a faster attempt count instead of ours.

        Raises InputError for a pod without the GPUs that it asked for, and every exception of the step.
        """
        step, store = work.step, reporter.store
        check_gpus()
        attempts = {kind: Attempt(store, kind, work.key) for kind in step.outputs}
        first = attempts[step.outputs[0]]
        log = EventLog(store, first.data)
        reporter.begin_attempt(first.data)
        checkpoints = StoredCheckpoints(store, work.key, scratch(), log)
        try:
            folders = {kind: attempt.path for kind, attempt in attempts.items()}
            context = work.context(store, folders, log, checkpoints, reporter.pages)
            step.function()(context)
            work.check_inputs(context)
            return {
                kind: attempt.publish(
                    step=step.name,
                    step_version=step.version,
                    config=key_settings(work.settings),
                    inputs=work.references,
                    sources=work.sources,
                    facts=log.facts,
                    environment=machine(),
                )[0]
                for kind, attempt in attempts.items()
            }
        except Exception:
            for attempt in attempts.values():
                with contextlib.suppress(Exception):  # the step's own error is the one to report
                    attempt.abandon()
            raise
        finally:
            log.close()
