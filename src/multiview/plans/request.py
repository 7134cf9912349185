"""What is asked for: a pipeline with its settings, the plan that they make, and what its run is about."""

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
    """A plan to run, and all that describes its run."""

    plan: Plan
    overrides: Overrides
    """The settings that were given, as nested overrides of the defaults."""
    preset: str | None = None
    rerun_of: str | None = None
    """The id of the run out of whose plan this one was cut."""
    study: str | None = None
    """The study that this is a row of."""
    schedule: str | None = None
    """The schedule that asks for this, again and again."""
    compares: tuple[str, ...] = ()
    """The ids of the runs that this one compares."""

    @classmethod
    def make(cls, pipeline: str, overrides: Overrides, preset: str | None = None) -> Request:
        """A request for a whole pipeline. Raises InputError for settings that make no plan."""
        return cls(make_plan(pipeline, overrides), overrides, preset)

    @classmethod
    def from_settings(
        cls, pipeline: str, preset: str | None, settings: Iterable[str] | None, under: Overrides | None = None
    ) -> Request:
        """A request for a whole pipeline, with a preset and `section.name=value` settings over those `under` them.

        Raises InputError for settings that make no plan.
        """
        return cls.make(pipeline, merge(under or {}, gather(preset, settings or [])), preset)

    def over(self, settings: Overrides) -> Request:
        """The same request with further settings under its own. They must not change the plan."""
        return replace(self, overrides=merge(settings, self.overrides))

    @cached_property
    def config(self) -> Config:
        return validate(self.overrides)
