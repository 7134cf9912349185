"""The choice of the backend of a step's work, by the environment and the step's declaration."""

from __future__ import annotations

from typing import Protocol

from multiview.artifacts.record import Record
from multiview.steps.backends import fork_server
from multiview.steps.backends.fork_server import ForkServer
from multiview.steps.backends.here import Here
from multiview.steps.backends.trainjob import TrainJob, template_here
from multiview.steps.reporter import StepReporter
from multiview.steps.step import Step
from multiview.steps.work import Work


class Backend(Protocol):
    """A place where a step's work is done."""

    def make(self, work: Work, reporter: StepReporter) -> dict[str, Record]:
        """Does the work and returns the records of its outputs by kind, which are then in the store.

        Raises InputError for bad input that the step finds, ProcessFailed where another process failed.
        """
        ...


def backend_for(step: Step) -> Backend:
    """Returns the TrainJob that the environment describes for a multi-node step, else the fork server for a step that
    imports torch, if one is offered, else this process."""
    if step.multi_node and (template := template_here()):
        return TrainJob(template)
    if step.torch and (server := fork_server.address()):
        return ForkServer(server)
    return Here()
