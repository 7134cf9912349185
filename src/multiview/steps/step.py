"""The declaration of a step: its inputs, outputs and function, and the key of its outputs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from json import loads
from typing import Any, NamedTuple

from multiview import names
from multiview.artifacts.record import File, Record, Reference
from multiview.artifacts.store import Store
from multiview.config import Config, JsonObject, Section, canonical_json, text_sha256
from multiview.config.kubeflow import MULTI_NODE_STEPS
from multiview.errors import InputError
from multiview.steps.context import StepContext

FORWARDED_FILE = "handed_on.json"
"""File in a step's first output with references to the artifacts that it forwards, by output."""

FIGURES = {
    names.EVALUATION: "multiview.evaluation.files:of_evaluation",
    names.COMPARISON: "multiview.evaluation.files:of_comparison",
    names.VERDICT: "multiview.refresh.gate:figures",
}
"""Functions that return the figures of an artifact, by kind."""


class StepInput(NamedTuple):
    """An artifact, or one file of it, that a step reads."""

    reference: Reference
    store: Store
    record: Record

    @property
    def files(self) -> list[File]:
        """The files that are read: all of the artifact, or the only one."""
        file = self.reference.file
        return [self.record.file(file)] if file else self.record.files

    @property
    def digest(self) -> str:
        """The digest of the artifact, or the sha256 of the one file that is read."""
        return self.files[0].sha256 if self.reference.file else self.record.digest


@dataclass(frozen=True)
class Step:
    """A kind of step. `version` rises whenever the same inputs would give a different output."""

    name: str
    about: str
    """What it makes, in a sentence: the description of its component on Kubeflow."""
    version: int
    function_path: str
    """The function that does the work, as `module:function`: it takes a `StepContext`, and is imported when needed."""
    outputs: tuple[str, ...]
    """Kinds of its artifacts."""
    settings: tuple[str, ...] = ()
    """The settings that it reads: whole sections (`encode`) or single settings of them (`questions.seed`)."""
    inputs: tuple[str, ...] = ()
    fingerprint_path: str | None = None
    """A function (settings) -> JSON that fingerprints what it reads besides its inputs: sources outside the store. For
    a step that `reads_store`, it is (settings, store) -> JSON."""
    list_inputs: tuple[str, ...] = ()
    sharded: bool = False
    """Whether it works on one shard of its passages."""
    checkpoints: bool = False
    """Whether an interrupted step continues from checkpoints."""
    gpu: bool = False
    """Whether it uses a GPU: on Kubeflow it runs in the GPU image, in a pod with GPUs."""
    unkeyed_inputs: tuple[str, ...] = ()
    """Inputs that are not part of its key: they save work, but change no byte of its outputs."""
    recorded_inputs: tuple[str, ...] = ()
    """Inputs that are only named in its record, and not staged."""
    traced_inputs: tuple[str, ...] = ()
    """Inputs whose ancestors' records it also reads, so that its key holds their keys besides their digests."""
    reads_store: bool = False
    """Whether its function reads the store, or writes into the store besides its outputs."""
    still_holds: str | None = None
    """A function (store, record of its first output) -> bool: whether its effects besides its outputs still hold."""
    forwards: tuple[str, ...] = ()
    """Further outputs: artifacts that exist already, which the first output names in `FORWARDED_FILE`."""
    supersedes: str | None = None
    """The input that its output replaces. Lineages end there; otherwise they would grow with every refresh."""

    @property
    def figures_path(self) -> str | None:
        """A function (store, record of its first output) -> figures by name, which Kubeflow's pages show."""
        return FIGURES.get(self.outputs[0])

    @property
    def multi_node(self) -> bool:
        """Whether several nodes can do it together."""
        return self.name in MULTI_NODE_STEPS

    @property
    def sharded_inputs(self) -> tuple[str, ...]:
        """Inputs of which a step on one shard reads only that shard's file."""
        return tuple(name for name in ("passages", "queries") if self.sharded and name in self.inputs)

    def reads(self, setting: str) -> bool:
        """Whether it reads a setting, as `encode.compute`."""
        return any(setting == read or setting.startswith(f"{read}.") for read in self.settings)

    def configure(self, config: Config) -> str:
        """Returns the canonical JSON of the settings that this step reads."""
        settings: dict[str, dict[str, object]] = {}
        for setting in self.settings:
            section, _, name = setting.partition(".")
            values = getattr(config, section).model_dump(mode="json")
            settings.setdefault(section, {}).update({name: values[name]} if name else values)
        return canonical_json(settings)

    def parse(self, config: str) -> Config:
        """Returns the settings in `configure`'s JSON; reading others raises UndeclaredAccess. Raises InputError for
        settings of another version, such as those of a pipeline that it compiled."""
        sections: dict[str, Section] = {}
        given, read = loads(config), loads(self.configure(Config()))
        for name in (*given, *read.keys() - given.keys()):
            values = given.get(name, {})
            field = Config.model_fields.get(name)
            section = field.annotation if field else Section
            assert isinstance(section, type) and issubclass(section, Section)
            unknown = values.keys() - section.model_fields.keys()
            if differing := unknown or read.get(name, {}).keys() - values.keys():
                there = "there is no setting" if unknown else "it is not told the setting"
                raise InputError(
                    f"step {self.name}: {there} {name}.{min(differing)} in this version of multiview: it was started by "
                    "another one"
                )
            sections[name] = section.partial(values)
        return Config.partial(sections)

    def key(self, settings: Config, digests: Mapping[str, object], sources: JsonObject) -> str:
        """Returns the key of the step's outputs: a digest of everything that decides their bytes."""
        return self.key_of(key_settings(settings), digests, sources)

    def key_of(self, config: JsonObject, digests: Mapping[str, object], sources: JsonObject) -> str:
        """Returns the key, given the settings in the form that a record has."""
        about = {"step": self.name, "version": self.version, "config": config}
        identity = canonical_json({**about, "inputs": dict(digests), "sources": sources})
        return text_sha256(identity)[:32]

    def input_digests(self, inputs: Mapping[str, Sequence[StepInput]]) -> dict[str, str | list[str]]:
        """Returns the digest of each input that is part of the key; a traced input's comes with the artifact's key."""
        digests: dict[str, str | list[str]] = {}
        for name in inputs.keys() - set(self.unkeyed_inputs):
            traced = name in self.traced_inputs
            parts = [f"{read.digest} {read.record.key}" if traced else read.digest for read in inputs[name]]
            digests[name] = parts if name in self.list_inputs else parts[0]
        return digests

    def function(self) -> Callable[[StepContext], None]:
        return load_function(self.function_path)

    def fingerprint(self, settings: Config, store: Store | None) -> JsonObject:
        """Returns the fingerprint of all else that decides the outputs; without a store, only that of sources."""
        read = (settings, store) if self.reads_store else (settings,)
        return load_function(self.fingerprint_path)(*read) if self.fingerprint_path else {}


def key_settings(settings: Config) -> JsonObject:
    """Returns the settings that change an output by section, in the form of the key and the record."""
    return {name: section.key_settings() for name, section in vars(settings).items()}


def load_function(path: str) -> Callable[..., Any]:
    """Returns the function at `module:function`."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
