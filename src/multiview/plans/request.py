"""The request of a command: a pipeline with its settings, the plan that they make, and the description of its run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from multiview.config import Config
from multiview.config.overrides import Overrides, gather, merge, validate
from multiview.plans import make_plan
from multiview.plans.plan import Plan


@dataclass(frozen=True)
class Request:
    """A plan to run, and everything that describes its run."""

    plan: Plan
    overrides: Overrides
    """The given settings, as nested overrides of the defaults."""
    preset: str | None = None
    rerun_of: str | None = None
    """The id of the run of which this is a rerun."""
    study: str | None = None
    """The study of which this is a row."""
    schedule: str | None = None
    """The schedule that makes this request at each of its times."""
    compares: tuple[str, ...] = ()
    """The ids of the runs to compare."""

    @classmethod
    def make(cls, pipeline: str, overrides: Overrides, preset: str | None = None) -> Request:
        """A request for a whole pipeline. Raises InputError for settings that make no plan."""
        return cls(make_plan(pipeline, overrides), overrides, preset)

    @classmethod
    def from_settings(
        cls, pipeline: str, preset: str | None, settings: Iterable[str] | None, under: Overrides | None = None
    ) -> Request:
        """A request for a whole pipeline, with a preset and `section.name=value` settings, which both override `under`.

        Raises InputError for settings that make no plan.
        """
        return cls.make(pipeline, merge(under or {}, gather(preset, settings or [])), preset)

    def over(self, settings: Overrides) -> Request:
        """Returns the request over further `settings`, which its own settings override. They must not change the plan."""
        return replace(self, overrides=merge(settings, self.overrides))

    @cached_property
    def config(self) -> Config:
        return validate(self.overrides)
