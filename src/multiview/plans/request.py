"""A command's request: a pipeline with its settings, the plan made from them, and the description of its run."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Self

from multiview.artifacts.store import Store
from multiview.config import Config, JsonObject
from multiview.config.overrides import (
    SYSTEMS,
    Overrides,
    Presets,
    flatten,
    gather,
    merge,
    nested,
    outcome,
    parse_setting,
    preset_label,
    validate,
    value_at,
)
from multiview.errors import InputError, counted
from multiview.plans import PIPELINES, make_plan
from multiview.plans.plan import Plan
from multiview.steps.provenance import git_sha
from multiview.steps.runs import Run, run_id


@dataclass(frozen=True)
class Request:
    """A plan to run, and everything that describes its run."""

    plan: Plan
    overrides: Overrides
    """The given settings, as nested overrides of the defaults."""
    preset: str | None = None
    rerun_of: str | None = None
    """The id of the run that this one repeats."""
    study: str | None = None
    """The study that has this run as a row."""
    schedule: str | None = None
    """The schedule that makes this request at each of its times."""
    compares: tuple[str, ...] = ()
    """The ids of the runs to compare."""
    part: bool = False
    """Whether it is one part of a larger comparison."""
    there: tuple[str, ...] = ()
    """Paths of the steps that the plan leaves out because their outputs exist."""

    @classmethod
    def make(cls, pipeline: str, overrides: Overrides, preset: str | None = None) -> Self:
        """A request for a whole pipeline. Raises InputError for settings that make no plan."""
        return cls(make_plan(pipeline, overrides), overrides, preset)

    @classmethod
    def from_settings(cls, pipeline: str, presets: Presets, settings: Iterable[str] | None) -> Self:
        """A request for a whole pipeline, by presets and `section.name=value` settings. Raises as `make`, and InputError
        for one of these settings that does nothing because the systems of a comparison have their own."""
        settings = list(settings or [])
        request = cls.make(pipeline, gather(presets, settings), preset_label(presets))
        if pipeline == "comparison":
            request._check_overridden(merge(*map(parse_setting, settings)))
        return request

    def _check_overridden(self, given: Overrides) -> None:
        systems = self.config.comparison.systems.items()
        for name, value in flatten(given):
            found = {row: value_at(system, name) for row, system in systems}
            own = {row: theirs for row, theirs in found.items() if theirs is not None}
            if not own or value in own.values():
                continue
            row, *more = own
            try:
                other = make_plan(self.plan.name, merge(self.overrides, nested(name, own[row])))
            except InputError:  # another system reads it, and has no use for this value
                continue
            if other == self.plan:
                rows = f"{' and '.join(own)} {'set their' if more else 'sets its'} own"
                raise InputError(f"{name}: {rows}; use {SYSTEMS}.{row}.{name}")

    def over(self, settings: Overrides) -> Self:
        """Returns the request with further `settings` below its own, which win. They must not change the plan."""
        return replace(self, overrides=merge(settings, self.overrides))

    def parts(self, count: int) -> list[Self]:
        """Returns `count` requests that divide this comparison's systems. Raises InputError for fewer systems."""
        settings = self.config.comparison
        systems = list(settings.systems) if self.plan.name == "comparison" and not self.rerun_of else []
        if not 1 <= count <= len(systems):
            raise InputError(f"{self.plan.name} compares {counted(len(systems), 'system')}: no {count} parts")
        ends = [len(systems) * number // count for number in range(count + 1)]
        return [self._of_systems(systems[start:end]) for start, end in pairwise(ends)]

    def _of_systems(self, names: Collection[str]) -> Self:
        """Returns the request for a comparison of only these systems."""
        given, settings = self.overrides.get("comparison", {}), self.config.comparison
        changes = {
            "systems": {name: settings.systems[name] for name in names},
            "fusion": [name for name in settings.fusion if name in names],
            "baseline": settings.baseline if settings.baseline in names else None,
        }
        overrides = {**self.overrides, "comparison": {**given, **changes}}
        return replace(
            self, plan=make_plan(self.plan.name, overrides), overrides=overrides, part=True, there=()
        )

    @cached_property
    def config(self) -> Config:
        return validate(self.overrides)


def describe(request: Request, store: Store) -> Run:
    """Returns the run of a request. Raises InputError for sources that do not exist."""
    plan = request.plan
    versions = {node.step.name: node.step.version for node in plan.nodes.values()}
    return Run(
        id=run_id(plan.name, outcome(request.overrides), versions, **_identity(request, store)),
        pipeline=plan.name,
        config=request.overrides,
        preset=request.preset,
        git_sha=git_sha(),
        rerun_of=request.rerun_of,
        study=request.study,
        compares=list(request.compares),
        steps=[str(path) for path in plan.paths()],
        architectures=plan.architectures,
        each_time=request.schedule is not None,
    )


def _identity(request: Request, store: Store) -> JsonObject:
    """Returns what distinguishes runs with the same settings: what they read, or their schedule."""
    plan, identity = request.plan, {}
    if request.rerun_of:
        identity |= {"rerun_of": request.rerun_of, "steps": [str(path) for path in plan.paths()]}
    if plan.name not in PIPELINES:
        identity["inputs"] = [[str(node.path), source.digest] for node, _, source in plan.artifacts()]
    fingerprints = plan.fingerprints(None if request.schedule else store)
    if request.schedule:
        return identity | {"schedule": request.schedule}
    return identity | {"sources": {str(path): content for path, content in fingerprints.items()}}
