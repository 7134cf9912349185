"""The argument of a step's function: its settings, inputs, outputs and events."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from multiview.artifacts.record import Reference
from multiview.artifacts.staging import LocalArtifact
from multiview.artifacts.store import Store
from multiview.config import Config
from multiview.errors import UndeclaredAccess
from multiview.steps.checkpoints import NO_CHECKPOINTS, Checkpoints
from multiview.steps.events import Events
from multiview.steps.runs import NO_PAGES, Pages

Input = LocalArtifact | Reference | list[LocalArtifact]
"""An input of a step: an artifact on local disk, a list of them, or a reference that is only recorded."""


@dataclass(frozen=True)
class StepContext:
    """Everything that the function of a step may use. Anything that the step does not declare raises UndeclaredAccess.

    A step's function with an input `queries` and an output `counts`, called as in a test:

    >>> def count(context: StepContext) -> None:
    ...     words = context.input("queries").path.read_text().split()
    ...     (context.output("counts") / "words.txt").write_text(str(len(words)))
    ...     context.events.metric("words", len(words))
    >>> _ = (folder / "queries.txt").write_text("who built it")
    >>> context = StepContext(Config(), {"queries": LocalArtifact(folder / "queries.txt", "")}, {"counts": folder})
    >>> count(context)
    >>> (folder / "words.txt").read_text()
    '3'
    >>> context.input("passages")
    Traceback (most recent call last):
    multiview.errors.UndeclaredAccess: input passages is read by a step that does not declare it
    """

    settings: Config
    """The settings that the step declares; reading any other raises UndeclaredAccess."""
    inputs: Mapping[str, Input] = field(default_factory=dict)
    outputs: Mapping[str, Path] = field(default_factory=dict)
    """An empty folder to fill for each kind of output."""
    events: Events = field(default_factory=Events)
    checkpoints: Checkpoints = NO_CHECKPOINTS
    """Checkpoints from which an interrupted step continues."""
    pages: Pages = NO_PAGES
    """The pages of the run, for steps that send notices."""
    opened: Store | None = None
    """The store, for steps that declare it: see `store`."""

    def input(self, name: str) -> LocalArtifact:
        """Returns the input `name` on local disk."""
        if (staged := self.optional_input(name)) is None:
            raise UndeclaredAccess(f"input {name} is read by a step that does not declare it")
        return staged

    def optional_input(self, name: str) -> LocalArtifact | None:
        """Returns the input `name` on local disk; None if only another step with the same function has it."""
        staged = self.inputs.get(name)
        if not isinstance(staged, LocalArtifact | None):
            raise TypeError(f"input {name} is not one artifact on local disk")
        return staged

    def list_input(self, name: str) -> list[LocalArtifact]:
        """Returns the artifacts of the list input `name` on local disk, in the order of the plan."""
        staged = self.inputs.get(name)
        if not isinstance(staged, list):
            raise UndeclaredAccess(f"input {name} is read as a list, which the step does not declare it as")
        return staged

    def recorded_input(self, name: str) -> Reference:
        """Returns the reference to the input `name`, which is only recorded."""
        recorded = self.inputs.get(name)
        if not isinstance(recorded, Reference):
            raise UndeclaredAccess(f"input {name} is not one that the step only records")
        return recorded

    def output(self, kind: str) -> Path:
        """Returns the folder to fill for the output of this kind."""
        if kind not in self.outputs:
            raise UndeclaredAccess(f"output {kind} is written by a step that does not declare it")
        return self.outputs[kind]

    @property
    def store(self) -> Store:
        """The store, for a step that declares `reads_store`."""
        if self.opened is None:
            raise UndeclaredAccess("the store is read by a step that does not declare reads_store")
        return self.opened
