"""A pipeline before it is Kubeflow's: a plan, the list of its steps and what flows between them.

Plans are plain data. `kubeflow` turns a plan into a KFP pipeline, and a rerun is a plan with the
other steps' outputs cut off and replaced by addresses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from multiview.artifacts.record import Reference
from multiview.artifacts.store import Store
from multiview.config import Config
from multiview.errors import InputError, nearest
from multiview.steps.step import Step
from multiview.steps.table import STEPS


@dataclass(frozen=True)
class Output:
    """An output of another step of the plan: of all its shards, if it has some."""

    path: str
    kind: str


Source = Output | Reference
"""Where an input comes from: a step of the plan, or an artifact that exists."""


@dataclass(frozen=True)
class Node:
    """A step at its place in the plan."""

    path: str
    """The step's name in MLflow, such as `camvr/round-2/encode`."""
    step: Step
    config: str
    """Canonical JSON of the settings that it reads."""
    inputs: dict[str, Source | list[Source]]
    architecture: str | None = None
    """Of the system that the step belongs to."""
    shards: tuple[str, ...] = ()
    """For a step done by shard: the shards' names, each a path of its own under `path`."""

    def sources(self) -> Iterator[tuple[str, Source]]:
        for name, value in self.inputs.items():
            for source in value if isinstance(value, list) else [value]:
                yield name, source

    def paths(self) -> list[str]:
        """The paths under which it runs: its own, or one a shard."""
        return [f"{self.path}/{shard}" for shard in self.shards] or [self.path]


@dataclass
class Plan:
    """The steps of a pipeline, each after those that it needs."""

    name: str
    nodes: dict[str, Node] = field(default_factory=dict)

    def add(
        self,
        path: str,
        step: str,
        config: Config,
        shards: tuple[str, ...] = (),
        **inputs: Source | list[Source],
    ) -> Node:
        """Append a step. Its inputs must be those that the step declares, from steps before it."""
        kind = STEPS[step]
        if set(inputs) != set(kind.inputs):
            raise ValueError(f"{path}: {step} has inputs {kind.inputs}, not {tuple(inputs)}")
        of_model = {"model", "start", "embeddings"} & {*kind.inputs, *kind.settings}
        architecture = config.model.architecture if of_model else None
        node = Node(path, kind, kind.configure(config), inputs, architecture, shards)
        for _, source in node.sources():
            if isinstance(source, Output) and source.path not in self.nodes:
                raise ValueError(f"{path} reads {source.path}, which does not come before it")
        self.nodes[path] = node
        return node

    def paths(self) -> list[str]:
        return [path for node in self.nodes.values() for path in node.paths()]

    def fingerprints(self, store: Store | None) -> dict[str, object]:
        """What is read beside settings and inputs: sources by content, and what stands in the store, if one is given.

        Raises InputError for what is not there.
        """
        known: dict[tuple[str, str], object] = {}
        reading = [
            node
            for node in self.nodes.values()
            if node.step.source_fingerprint or node.step.store_fingerprint
        ]
        for node in reading:
            if (node.step.name, node.config) not in known:
                settings = node.step.parse(node.config)
                known[node.step.name, node.config] = node.step.fingerprint(settings, store)
        return {node.path: known[node.step.name, node.config] for node in reading}

    def architectures(self) -> dict[str, str]:
        """Each system's architecture, for MLflow's tags."""
        return {
            node.path.split("/")[0]: node.architecture for node in self.nodes.values() if node.architecture
        }

    def node(self, path: str) -> Node:
        """The step at a path; a shard's path gives its step with that shard alone.

        Raises InputError with the nearest paths, and the list of the steps.
        """
        if path in self.nodes:
            return self.nodes[path]
        parent, _, shard = path.rpartition("/")
        if parent in self.nodes and shard in self.nodes[parent].shards:
            return replace(self.nodes[parent], shards=(shard,))
        near = nearest(path, self.paths_and_parents(), listed=self.nodes)
        raise InputError(f"{self.name} has no step {path!r}{near}")

    def paths_and_parents(self) -> list[str]:
        return [*self.nodes, *(p for p in self.paths() if p not in self.nodes)]

    def downstream(self, path: str) -> list[str]:
        """Paths of all steps that need the outputs of the step at `path`, in order."""
        reached = {path}
        for node in self.nodes.values():
            if any(isinstance(s, Output) and s.path in reached for _, s in node.sources()):
                reached.add(node.path)
        return [p for p in self.nodes if p in reached and p != path]


def first_output(node: Node) -> Output:
    return Output(node.path, node.step.outputs[0])
