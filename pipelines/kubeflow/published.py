"""Components for pipelines of other teams: a YAML file for each, with types, defaults and descriptions."""

# No `from __future__ import annotations` here: KFP reads annotations.

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kfp import compiler
from kfp.dsl.python_component import PythonComponent

from components import component
from components.artifacts import open_index
from components.runs import import_artifact
from multiview.errors import InputError
from multiview.steps.table import STEPS
from pipelines.kubeflow.compile import COMPONENTS
from pipelines.kubeflow.images import check_images

DEFAULTS = {"path": "", "config": "", "digest": ""}
"""Inputs that another team's pipeline can leave out."""

DESCRIPTIONS = {
    "run": "Address of the store, as in gs://BUCKET/PREFIX: the step is a run of its own there. Pipelines of multiview "
    "give what open-run returns.",
    "path": "Name of the step in its run; empty: the component's own.",
    "shard": "Shard of the passages that the step works on, as in shard-00.",
    "address": "Address of an artifact in a store, as in gs://BUCKET/PREFIX/index/KEY. open-index takes that of an index, or "
    "of the store alone: then it is the index of its current champion.",
    "artifact": "The artifact, with its address and digest as metadata.",
    "base": "The generator that fine-tuning starts from.",
    "bm25_negatives": "Hard negatives of round one: BM25's, given ones, or both.",
    "champion": "What the step champion found: the index that answers now.",
    "champion_evaluation": "Evaluation of the champion.",
    "champion_model": "The model that the champion's questions are encoded with.",
    "champion_now": "The champion after the verdict was carried out, and the index that it replaced.",
    "challenger_evaluation": "Evaluation of the index that may become the champion.",
    "changes": "The passages that changed since an index was made, and what became of the others.",
    "comparison": "Tables of several evaluations with the tests of their differences.",
    "dev_questions": "The questions for evaluation.",
    "digest": "The sha256 that the artifact must have; empty: whatever is at the address is read.",
    "drafts": "Questions made from snippets of the passages of a shard, before the round trip.",
    "embeddings": "Views of passages as vectors.",
    "evaluation": "Rankings and metrics of one system on the questions for evaluation.",
    "evaluations": "Addresses of evaluations on the same questions.",
    "export": "The champion's index as files for other systems.",
    "followed": "What became of the alias of Qdrant.",
    "generator": "The model that writes queries for passages, and questions about snippets.",
    "hard_negatives": "Hard negatives of the training questions, before a teacher scores them.",
    "index": "The search index over the views of all passages.",
    "known": "An earlier corpus, whose sentences need not be split again.",
    "lost_questions": "The questions for evaluation that were left out, because their gold passage or its answer is gone.",
    "metrics": "The figures that Kubeflow's pages show.",
    "model": "The encoder with its settings and tokenizer.",
    "negatives": "Hard negatives of the training questions.",
    "old": "The index before the corpus changed.",
    "parts": "Addresses of the generated queries of each shard.",
    "passages": "The corpus: passages in shards of Parquet.",
    "promotion": "What became of the challenger.",
    "queries": "Generated queries of the passages.",
    "query_evaluation": "Metrics of generated queries.",
    "questions": "The questions that the step works with.",
    "replaced": "The index that the champion replaced.",
    "replaced_passages": "The corpus of the index that the champion replaced.",
    "report": "A page of HTML.",
    "start": "The model that training starts from.",
    "train_questions": "The training questions.",
    "verdict": "Whether the challenger may become the champion, with every check.",
}
"""Descriptions of inputs and outputs by name; that of `config` follows from the step."""

LISTS = {
    "drafts": "Addresses of the questions made from each shard.",
    "embeddings": "Addresses of the embeddings of each shard.",
    "queries": "Addresses of generated queries.",
}
"""Descriptions of inputs that are lists of addresses, where an output has the same name."""


PUBLISHED: dict[str, PythonComponent] = {
    made.name: made for made in (open_index, import_artifact, *COMPONENTS.values())
}
"""What is written for other teams, by name."""


def refuse_beside(options: Mapping[str, object]) -> None:
    """Raises InputError for options of `compile` that are given and say nothing about components."""
    given = [name for name, value in options.items() if value]
    if given:
        raise InputError(
            f"{', '.join(given)} beside --components: a component is the same whatever the pipeline, its settings and "
            "its store, which it receives as inputs; leave it out"
        )


def write_components(folder: Path) -> list[Path]:
    """Writes a component for each step, and those that open an index and import an artifact, as YAML; returns the files.

    Raises InputError for images that are not named, which nobody who loads the components would notice.
    """
    check_images((False, True))
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for made in PUBLISHED.values():
        files.append(folder / f"{made.name}.yaml")
        compiler.Compiler().compile(published(made), str(files[-1]))
    return files


def published(made: PythonComponent) -> PythonComponent:
    """Returns a component with descriptions of its inputs and outputs, and with defaults for other teams' pipelines."""
    original: Any = made.python_func
    signature = inspect.signature(original)
    parameters = [
        parameter.replace(
            kind=inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(parameter.name, parameter.default)
        )
        for parameter in signature.parameters.values()
    ]
    before = vars(original).copy(), original.__doc__
    original.__signature__ = signature.replace(parameters=parameters)
    original.__doc__ = _documented(made)
    try:
        return component(original)
    finally:
        original.__dict__.clear()
        original.__dict__.update(before[0])
        original.__doc__ = before[1]


def _documented(made: PythonComponent) -> str:
    """Returns the docstring from which KFP takes the descriptions of inputs and outputs."""
    spec, step = made.component_spec, STEPS.get(made.name)
    inputs = {
        name: LISTS.get(name, DESCRIPTIONS[name])
        if declared.type == "List[String]"
        else DESCRIPTIONS.get(name, "")
        for name, declared in (spec.inputs or {}).items()
    }
    outputs = {name: DESCRIPTIONS.get(name, "") for name in spec.outputs or {}}
    if made is open_index:
        outputs["Output"] = "Folder of the passages' files, for `corpus.source`."
    if step:
        inputs["config"], outputs["Output"] = _settings(step.settings), "Address of the first output."
    lines = [inspect.getdoc(made.python_func) or made.name]
    for title, described in (("Args", inputs), ("Returns", outputs)):
        lines += ["", f"{title}:", *(f"    {name}: {text}" for name, text in described.items())]
    return "\n".join(lines)


def _settings(read: tuple[str, ...]) -> str:
    if not read:
        return "Leave it empty: the step reads no settings."
    return (
        "Settings as --set takes them, SECTION.NAME=VALUE, each on its own line or after a semicolon; what is left out "
        f"has its default. The step reads {', '.join(read)} (docs/configuration.md)."
    )
