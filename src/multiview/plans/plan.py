"""A plan: a pipeline as plain data, its steps and the artifacts between them, before it is run or compiled. A rerun, or
the rest of an unfinished run, is part of a plan: outputs of steps that it leaves out are given by address."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Self

from multiview.artifacts.record import Reference
from multiview.artifacts.store import Store
from multiview.config import Config
from multiview.errors import InputError, nearest
from multiview.steps.path import StepPath, shard_file, shard_name
from multiview.steps.step import Step
from multiview.steps.table import STEPS
from multiview.steps.work import Inputs


@dataclass(frozen=True)
class Output:
    """An output of a step in the plan; of all its shards, if the step runs by shard."""

    path: StepPath
    kind: str


Source = Output | Reference
"""The origin of an input: a step of the plan, or an artifact that exists."""

Outputs = dict[StepPath, dict[str, Reference]]
"""The outputs of each step, or shard of a step, by its path and then by kind."""


@dataclass(frozen=True)
class Node:
    """A step in a plan."""

    path: StepPath
    step: Step
    config: str
    """Canonical JSON of the settings that the step reads."""
    inputs: dict[str, list[Source]]
    """What each input is read from: one artifact, unless the step takes a list."""
    shards: tuple[str, ...] = ()
    """The names of the shards, if the step runs by shard."""
    there: tuple[str | None, ...] = ()
    """If some shards exist already: each shard's first output by address, in order; None for a shard in `shards`."""

    def sources(self) -> Iterator[tuple[str, Source]]:
        """Yields the origin of every input, with the input's name."""
        return ((name, source) for name, sources in self.inputs.items() for source in sources)

    def paths(self) -> list[StepPath]:
        """Returns the paths under which the step runs: one per shard, if it runs by shard."""
        return [self.path.of_shard(shard) for shard in self.shards] or [self.path]

    def output(self, kind: str | None = None) -> Output:
        """Returns the output of a kind; without a kind the first, which for most steps is the only one."""
        kinds = (*self.step.outputs, *self.step.forwards)
        if kind is not None and kind not in kinds:
            raise ValueError(f"{self.path}: {self.step.name} has outputs {kinds}, not {kind}")
        return Output(self.path, kind or kinds[0])


Input = Source | Node
"""An input as it is given to `Plan.add`; a node stands for its first output."""


@dataclass
class Plan:
    """The steps of a pipeline, each after the steps that it reads from."""

    name: str
    nodes: dict[StepPath, Node] = field(default_factory=dict)
    architectures: dict[str, str] = field(default_factory=dict)
    """The architecture of each system, which MLflow shows; set by the function that adds the system's steps."""

    def add(self, path: StepPath, step: str, config: Config, **inputs: Input | Sequence[Input]) -> Node:
        """Appends a step and returns its node; a sharded step runs on each of `corpus.shards` shards. Raises
        ValueError if `inputs` are not those that the step declares, or come from a step that was not added yet."""
        kind = STEPS[step]
        if set(inputs) != set(kind.inputs):
            raise ValueError(f"{path}: {step} has inputs {kind.inputs}, not {tuple(inputs)}")
        sources = {name: _sources(inputs[name]) for name in kind.inputs}
        shards = tuple(map(shard_name, range(config.corpus.shards))) if kind.sharded else ()
        node = Node(path, kind, kind.configure(config), sources, shards)
        for _, source in node.sources():
            if isinstance(source, Output) and source.path not in self.nodes:
                raise ValueError(f"{path} reads {source.path}, which does not come before it")
        self.nodes[path] = node
        return node

    def paths(self) -> list[StepPath]:
        """Returns the paths of all steps in order, one per shard of the steps that run by shard."""
        return [path for node in self.nodes.values() for path in node.paths()]

    def inputs_of(
        self, node: Node, path: StepPath, outputs: Mapping[StepPath, Mapping[str, Reference]]
    ) -> Inputs:
        """Returns references to the inputs of a step, or of its shard at `path`, given the `outputs` of earlier steps."""

        def references(source: Source) -> list[Reference]:
            if isinstance(source, Output):
                return [outputs[each][source.kind] for each in self.nodes[source.path].paths()]
            return [source]

        inputs: dict[str, Reference | list[Reference]] = {}
        for name, sources in node.inputs.items():
            read = [reference for source in sources for reference in references(source)]
            if path.shard and name in node.step.sharded_inputs:
                read = [each.model_copy(update={"file": shard_file(path.shard)}) for each in read]
            if name in node.step.list_inputs:
                inputs[name] = read
            else:
                (inputs[name],) = read
        return inputs

    def fingerprints(self, store: Store | None) -> dict[StepPath, object]:
        """Fingerprints of sources by content, and of `store` if it is given. Raises InputError for a missing source."""
        fingerprint = cache(lambda step, config: step.fingerprint(step.parse(config), store))
        readers = [node for node in self.nodes.values() if node.step.fingerprint_path]
        return {node.path: fingerprint(node.step, node.config) for node in readers}

    def node(self, text: str) -> Node:
        """Returns the step at a path; for a shard's path, with only that shard. Raises InputError for other texts."""
        for node in self.nodes.values():
            if str(node.path) == text:
                return node
            for path, shard in zip(node.paths(), node.shards, strict=False):
                if str(path) == text:
                    return replace(node, shards=(shard,))
        steps = [str(path) for path in self.nodes]
        shards = [str(path) for path in self.paths() if path.shard]
        raise InputError(f"{self.name} has no step {text!r}{nearest(text, [*steps, *shards], listed=steps)}")

    def artifacts(self) -> Iterator[tuple[Node, str, Reference]]:
        """Yields each artifact from outside the plan that a step reads, with the step and the name of its input."""
        for node in self.nodes.values():
            for name, source in node.sources():
                if isinstance(source, Reference):
                    yield node, name, source

    def part(self, nodes: Mapping[StepPath, Node], made: Callable[[Node, Output], list[Reference]]) -> Self:
        """Returns the plan of some nodes; `made` gives what a node reads of the output of a step that is left out."""
        part = replace(self, nodes={})
        for node in nodes.values():
            inputs: dict[str, list[Source]] = {name: [] for name in node.inputs}
            for name, source in node.sources():
                if isinstance(source, Output) and source.path not in nodes:
                    inputs[name] += made(node, source)
                else:
                    inputs[name].append(source)
            part.nodes[node.path] = replace(node, inputs=inputs)
        return part

    def downstream(self, path: StepPath) -> list[StepPath]:
        """Returns the paths of all steps that need the outputs of the step at `path`, in order."""
        reached = {path}
        for node in self.nodes.values():
            if any(isinstance(source, Output) and source.path in reached for _, source in node.sources()):
                reached.add(node.path)
        return [other for other in self.nodes if other in reached and other != path]

    def differs_at(self, other: Self) -> StepPath | None:
        """Returns the first path that only one plan has, or whose step, shards or inputs differ; None for the same shape."""
        one, two = (
            {path: (node.step, node.shards, node.inputs) for path, node in plan.nodes.items()}
            for plan in (self, other)
        )
        return next((path for path in one | two if one.get(path) != two.get(path)), None)


def _sources(value: Input | Sequence[Input]) -> list[Source]:
    given = value if isinstance(value, Sequence) else [value]
    return [each.output() if isinstance(each, Node) else each for each in given]
