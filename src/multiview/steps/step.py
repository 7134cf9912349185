"""What a step is: what it reads, writes and runs, and the key of what it makes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from multiview.artifacts.store import Store
from multiview.config import Config, Section, canonical_json

HANDED_ON_FILE = "handed_on.json"
"""A step's file with the references of the artifacts that it hands on, by output."""


@dataclass(frozen=True)
class Step:
    """A kind of step. `version` rises whenever the same inputs would give another output."""

    name: str
    version: int
    run: str
    """The function that does the work, as `module:function`; imported only when there is work."""
    settings: tuple[str, ...]
    """Sections that it reads, whole (`encode`) or one setting of them (`questions.seed`)."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    """Kinds of its artifacts."""
    sources: str | None = None
    """A function (settings) -> JSON that fingerprints what is read from outside the store."""
    lists: tuple[str, ...] = ()
    """Inputs that are lists of artifacts."""
    shards: bool = False
    """Whether it works on one shard of its passages."""
    checkpoints: bool = False
    """Whether its function takes `checkpoints`, from which an interrupted one goes on."""
    together: bool = False
    """Whether several nodes can do it together."""
    torch: bool = False
    """Whether it imports torch, which takes seconds."""
    gpu: bool = False
    """Whether it uses a GPU: on Kubeflow it gets the image and the pod that have one."""
    hints: tuple[str, ...] = ()
    """Inputs that save work and change no byte of its outputs: no part of its key."""
    named: tuple[str, ...] = ()
    """Inputs that its record names and that are not staged."""
    standing: str | None = None
    """A function (store) -> JSON that tells what it reads of the store beside its inputs, for its key."""
    store: bool = False
    """Whether its function takes the `store`."""
    stands: str | None = None
    """A function (store, record of its first output) -> bool: whether what it did beside its outputs is still there."""
    hands_on: tuple[str, ...] = ()
    """Further outputs: artifacts that are there already, which the first output names in `HANDED_ON_FILE`."""
    renews: str | None = None
    """Its input that is an older form of what it is about; lineages end there, or they would grow every day."""
    page: str | None = None
    """A file of its first output, which Kubeflow's pages show in the record's place."""

    @property
    def by_shard(self) -> tuple[str, ...]:
        """Inputs of which a step on one shard reads that shard's file alone."""
        return tuple(name for name in ("passages", "queries") if self.shards and name in self.inputs)

    def configure(self, config: Config) -> str:
        """The canonical JSON of the settings that this step reads."""
        settings: dict[str, dict[str, Any]] = {}
        for setting in self.settings:
            section, _, name = setting.partition(".")
            values = getattr(config, section).model_dump(mode="json")
            settings.setdefault(section, {}).update({name: values[name]} if name else values)
        return canonical_json(settings)

    def parse(self, config: str) -> SimpleNamespace:
        """The settings object that the step's function gets, from `configure`'s JSON."""
        sections = {}
        for name, values in json.loads(config).items():
            section_class: type[Section] = Config.model_fields[name].annotation  # type: ignore[assignment]
            sections[name] = section_class.model_validate(values)
        return SimpleNamespace(**sections)

    def key_settings(self, settings: SimpleNamespace) -> dict[str, Any]:
        """The settings that change the output, as the key and the record have them."""
        return {name: section.key_settings() for name, section in vars(settings).items()}

    def key(self, settings: SimpleNamespace, digests: Mapping[str, Any], sources: Any) -> str:
        """The key of the step's outputs: a digest of all that decides their bytes."""
        return key_of(self.name, self.version, self.key_settings(settings), digests, sources)

    def function(self) -> Any:
        return load_function(self.run)

    def fingerprint(self, settings: SimpleNamespace, store: Store | None) -> Any:
        """What decides its outputs beside settings and inputs: sources by content, and what stands in the store, if
        that is looked at."""
        if self.standing:
            return load_function(self.standing)(store) if store else {}
        return load_function(self.sources)(settings) if self.sources else {}


def key_of(
    step: str, version: int, config: Mapping[str, Any], digests: Mapping[str, Any], sources: Any
) -> str:
    """The key of what a step makes, from what its record says of it."""
    identity = {
        "step": step,
        "version": version,
        "config": config,
        "inputs": dict(digests),
        "sources": sources,
    }
    return hashlib.sha256(canonical_json(identity).encode()).hexdigest()[:32]


def load_function(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
