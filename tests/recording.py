"""A `tell` that remembers, for tests of step functions."""

from typing import Any


class Recorder:
    """Everything that a step told, in order."""

    def __init__(self) -> None:
        self.metrics: list[tuple[str, float, int | None]] = []
        self.warnings: list[str] = []
        self.steps: list[tuple[int, int, str]] = []
        self.facts: dict[str, Any] = {}

    def metric(self, name: str, value: float, step: int | None = None) -> None:
        self.metrics.append((name, value, step))

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    def progress(self, done: int, total: int, unit: str) -> None:
        self.steps.append((done, total, unit))

    def fact(self, name: str, value: Any) -> None:
        self.facts[name] = value
