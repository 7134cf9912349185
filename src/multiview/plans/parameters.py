"""Parameters: the settings that can be changed when a run of a compiled pipeline is created, as on Kubeflow's pages.

A compiled pipeline carries the request that it was made from. Its first pod applies the parameters to that request
like `--set`, makes the plan again, and refuses changes that need another pipeline.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from pydantic import BaseModel

from multiview.config import Config, JsonObject, Section
from multiview.config.overrides import (
    PLATFORM_SECTIONS,
    Overrides,
    flatten,
    merge,
    nested,
    parse_settings,
    validate,
    value_at,
)
from multiview.errors import InputError
from multiview.model.systems import resolve, shared
from multiview.plans import PIPELINES, make_plan
from multiview.plans.plan import Plan
from multiview.plans.request import Request

SETTINGS = {
    "corpus_source": "corpus.source",
    "questions_source": "questions.source",
    "dev_questions_source": "questions.dev_source",
    "base_model": "model.base",
    "learning_rate": "train.learning_rate",
    "epochs": "train.epochs",
    "batch_size": "train.batch_size",
    "seed": "train.seed",
    "full_refresh": "refresh.full",
}
"""The setting of each typed parameter. A pipeline has the parameters whose settings its steps read."""
FURTHER = (
    "Further settings as --set takes them, SECTION.NAME=VALUE, each on its own line or after a semicolon, as in "
    "`mining.depth=50; encode.compute=autocast`. They win over the other parameters. What shapes the pipeline's steps "
    "or their pods is refused."
)
"""The description of the parameter `settings`."""


@dataclass(frozen=True)
class Parameter:
    """A typed parameter of a compiled pipeline."""

    name: str
    default: object
    """The compiled request's value, JSON-ready."""
    type: object
    """Its Python type: float, int, bool, str or list[str]."""
    description: str


class CompiledRequest(BaseModel, frozen=True):
    """The request that a pipeline was compiled from, as its first pod receives it."""

    pipeline: str
    preset: str | None = None
    config: Overrides = {}
    """The request's overrides."""
    defaults: JsonObject = {}
    """The default of each typed parameter."""

    @classmethod
    def of(cls, request: Request) -> Self | None:
        """Returns the compiled form of a request; None for a part of a pipeline, whose settings are fixed."""
        if request.rerun_of or request.there or request.plan.name not in PIPELINES:
            return None
        defaults = {parameter.name: parameter.default for parameter in parameters_of(request)}
        return cls(
            pipeline=request.plan.name, preset=request.preset, config=request.overrides, defaults=defaults
        )

    def changes(self, given: Mapping[str, object], settings: str = "") -> JsonObject:
        """Returns the settings, by dotted name, that differ from the compiled ones or change a step. `given` holds the
        values of typed parameters, `settings` is the text of further settings. Raises InputError for a wrong value."""
        # Written as `--set` would have them, so that they name the same run.
        typed = (
            nested(SETTINGS[name], _plain(given[name]))
            for name, default in self.defaults.items()
            if name in given and given[name] != default
        )
        asked = merge(*typed, parse_settings(settings))
        if not asked:
            return {}
        before = validate(self.config).model_dump(mode="json")
        after = validate(merge(self.config, asked)).model_dump(mode="json")
        leaves = dict(flatten(asked))
        # A value may be the setting's default, and yet differ from the architecture's or the pipeline's.
        return {
            name: value
            for name, value in leaves.items()
            if value_at(before, name) != value_at(after, name) or self._matters(name, leaves)
        }

    def request(self, changes: Mapping[str, object]) -> Request:
        """Returns the compiled request with changed settings. Raises InputError for settings that are invalid, need
        another compiled pipeline, or are read by no step."""
        request = Request.make(self.pipeline, self._changed(changes), self.preset)
        if changes:
            self._check(request.plan, changes)
        return request

    def _check(self, plan: Plan, changes: Mapping[str, object]) -> None:
        """Raises InputError for a change to the plan's shape or to pods, and for a setting that changes nothing."""
        words = {name: as_set(name, value) for name, value in changes.items()}
        fixed = (
            f"is fixed when it is compiled: submit {self.pipeline} as before, with --set for each of "
            f"{', '.join(words.values())}"
        )
        for name in changes:
            if name.partition(".")[0] in PLATFORM_SECTIONS:
                raise InputError(f"{words[name]}: where the pipeline's steps run {fixed}")
        if path := plan.differs_at(make_plan(self.pipeline, self.config)):
            raise InputError(f"the settings shape the pipeline (it would differ at {path}), which {fixed}")
        for name in changes:
            if not self._matters(name, changes):
                raise InputError(
                    f"{words[name]} changes no step of this pipeline: none reads it, or each system has a value of its "
                    "own in comparison.systems"
                )

    def _changed(self, changes: Mapping[str, object]) -> Overrides:
        return merge(self.config, *(nested(name, value) for name, value in changes.items()))

    def _matters(self, name: str, changes: Mapping[str, object]) -> bool:
        """Whether the change called `name` matters: without it, the changes would make another plan."""
        others = {other: value for other, value in changes.items() if other != name}
        try:
            return make_plan(self.pipeline, self._changed(others)) != make_plan(
                self.pipeline, self._changed(changes)
            )
        except InputError:  # they need each other
            return True


def parameters_of(request: Request) -> tuple[Parameter, ...]:
    """Returns the typed parameters of a request's pipeline: those whose value a step reads. If every system of a
    comparison has its own learning rate, for example, there is no parameter for it."""
    base = resolve if request.plan.name == "training" else shared
    values = base(request.overrides).model_dump(mode="json")
    steps = [json.loads(node.config) for node in request.plan.nodes.values()]
    parameters = []
    for name, setting in SETTINGS.items():
        value, kind, description = value_at(values, setting), *_declared(setting)
        if value in (value_at(step, setting) for step in steps):
            parameters.append(Parameter(name, value, kind, f"{description} Setting `{setting}`."))
    return tuple(parameters)


def as_set(name: str, value: object) -> str:
    """Returns a setting as `--set` takes it, as in `train.epochs=3`."""
    return f"{name}={value if value and isinstance(value, str) else json.dumps(value)}"


def _declared(setting: str) -> tuple[object, str]:
    """The type of a setting's parameter, and the setting's description."""
    section, _, name = setting.partition(".")
    group = Config.model_fields[section].annotation
    assert isinstance(group, type) and issubclass(group, Section)
    field = group.model_fields[name]
    kind = list[str] if field.annotation == tuple[str, ...] else field.annotation
    return kind, (field.description or "").replace(" *Ours.*", "")


def _plain(value: object) -> object:
    """A value as `--set` would have it: 3 instead of 3.0, and a name instead of a list of one."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list) and len(value) == 1:
        return value[0]
    return value
