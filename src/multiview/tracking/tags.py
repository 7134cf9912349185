"""Tags of MLflow's runs and models, by which people filter and the shipper finds its runs."""

import getpass
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress

from multiview import names
from multiview.artifacts.record import Record, Reference, load_record
from multiview.artifacts.store import Store
from multiview.errors import InputError
from multiview.lineage.trace import corpus_name, corpus_of, trace
from multiview.steps.path import StepPath
from multiview.steps.runs import Run, StepState
from multiview.steps.table import STEPS
from multiview.tracking.mlflow_runs import PARENT_RUN, Tags

NO_ATTEMPT = "none"

PIPELINE, SYSTEM, STEP = "pipeline", "system", "step"
"""The levels of MLflow runs: values of the tag `multiview.level`."""

DIGITS = 8


def opening_tags(run: Run, level: str, parent: str | None = None, system: str = "") -> Tags:
    """Returns the tags that an MLflow run of any level opens with; `parent` is the id of the MLflow run that it lies
    in. MLflow's columns "Created by" and "Source" show the last ones."""
    from mlflow.utils import mlflow_tags

    return {
        PARENT_RUN: parent,
        names.TAG_RUN: run.id,
        names.TAG_LEVEL: level,
        "multiview.pipeline": run.pipeline,
        "preset": run.preset,
        "study": run.study,
        names.TAG_GIT: run.git_sha,
        "multiview.rerun_of": run.rerun_of,
        names.TAG_SYSTEM: system,
        names.TAG_ARCHITECTURE: run.architectures.get(system),
        mlflow_tags.MLFLOW_USER: user(),
        mlflow_tags.MLFLOW_SOURCE_NAME: f"multiview {run.pipeline}",
        mlflow_tags.MLFLOW_SOURCE_TYPE: "LOCAL",
        mlflow_tags.MLFLOW_GIT_COMMIT: run.git_sha,
    }


def parent_tags(run: Run, store: Store) -> Tags:
    """Returns the tags of the parent, the MLflow run of a whole run, that are known when the run opens."""
    return {
        **opening_tags(run, PIPELINE),
        names.TAG_STORE: store.url,
        "compares": " ".join(run.compares),
        names.TAG_ARCHITECTURE: "; ".join(dict.fromkeys(run.architectures.values())),
    }


def later_parent_tags(run: Run, store: Store, states: Sequence[StepState], corpus: str | None) -> Tags:
    """Returns the tags of the parent that become known while its steps run."""
    starts = store.files(f"{names.RUNS}/{run.id}/{names.KUBEFLOW}")
    return {
        "study": run.study,  # a further study may use the run by now
        names.TAG_KUBEFLOW_RUNS: " ".join(sorted(file.rsplit("/", 1)[-1] for file in starts)),
        names.TAG_CORPUS: corpus,
        names.TAG_IMAGE: " ".join(sorted({state.image for state in states if state.image})),
        **question_tags(states),
    }


def child_tags(run: Run, state: StepState, parent: str) -> Tags:
    """Returns the tags that identify a child, the MLflow run of a step's attempt. `parent` is its system's MLflow run,
    or the whole run's for a step that systems share."""
    return {
        **opening_tags(run, STEP, parent, StepPath.parse(state.path).system),
        names.TAG_GIT: None,  # the step's own may differ
        names.TAG_PATH: state.path,
        names.TAG_STEP: state.step,
        names.TAG_ATTEMPT: state.attempt.rsplit("/", 1)[-1] or NO_ATTEMPT,
    }


def step_tags(state: StepState, record: Record | None, warnings: Sequence[str], corpus: str | None) -> Tags:
    """Returns the tags of a child that come from its step's state and events; `record` is the step's first output's."""
    tags: Tags = {"multiview.key": state.key, names.TAG_ERROR: state.error, **_code(state, record)}
    forwarded = STEPS[state.step].forwards if state.step in STEPS else ()
    if state.inputs or names.PASSAGES in {*state.outputs} - {*forwarded}:  # other steps are about no corpus
        tags[names.TAG_CORPUS] = corpus
    for name, references in state.inputs.items():
        for number, reference in enumerate(references):
            tags[f"{names.INPUT_TAG}{name}.{number:03d}"] = reference.model_dump_json()
    for kind, reference in state.outputs.items():
        tags[f"{names.OUTPUT_TAG}{kind}"] = reference.model_dump_json()
        tags[f"output.{kind}"] = reference.address
    tags |= {f"warning.{number}": text for number, text in enumerate(warnings)}
    return tags | question_tags([state]) | _tags_of_questions(state.outputs.values())


def model_tags(run: Run, state: StepState, reference: Reference, corpus: str | None) -> Tags:
    """Returns the tags of a logged model."""
    return {
        names.TAG_SHA256: reference.digest,
        names.TAG_ADDRESS: reference.address,
        names.TAG_ARCHITECTURE: run.architectures.get(StepPath.parse(state.path).row),
        names.TAG_CORPUS: corpus,
    }


def corpus_tag(states: Iterable[StepState]) -> str | None:
    """Returns the tag of the passages that steps read or make, else of those behind their inputs: names of files and
    digest, `passages.parquet@4c1fb96f`. None if there are none."""
    states = list(states)
    passages = [reference for reference in references_of(states) if reference.kind == names.PASSAGES]
    if corpus := corpus_of(trace(passages[:1] or _inputs(states)[:1])):
        return f"{corpus_name(corpus)}@{corpus.digest[:DIGITS]}"
    return f"@{passages[0].digest[:DIGITS]}" if passages else None


def references_of(states: Sequence[StepState]) -> list[Reference]:
    """Returns what steps made, then what they read, then what they forwarded, which an earlier run made."""
    made: list[Reference] = []
    forwarded: list[Reference] = []
    for state in states:
        kinds = STEPS[state.step].forwards if state.step in STEPS else ()
        for kind, reference in state.outputs.items():
            (forwarded if kind in kinds else made).append(reference)
    return [*made, *_inputs(states), *forwarded]


def question_tags(states: Iterable[StepState]) -> Tags:
    """Returns the tags of generated questions that steps read, such as `generated: crop`; none for labelled ones."""
    return _tags_of_questions(_inputs(states))


def _inputs(states: Iterable[StepState]) -> list[Reference]:
    return [reference for state in states for reference in state.read]


def _tags_of_questions(references: Iterable[Reference]) -> Tags:
    tags: Tags = {}
    for reference in {each.address: each for each in references}.values():
        if reference.kind in (names.TRAIN_QUESTIONS, names.DEV_QUESTIONS) and reference.kind not in tags:
            with suppress(InputError):  # the questions are gone
                if origin := load_record(reference.address).record.facts.get(names.GENERATED):
                    tags[reference.kind] = f"{names.GENERATED}: {origin}"
    return tags


def user() -> str:
    """Returns the name of this process's user; its number if it has no name, as in pods of KFP and OpenShift."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid-{os.getuid()}"


def _code(state: StepState, record: Record | None) -> Tags:
    """The commit and the image that made a step's outputs; before it has outputs, those that run it."""
    code: Tags = {names.TAG_GIT: state.git_sha, names.TAG_IMAGE: state.image}
    if record:
        made: Tags = {tag: record.environment.get(tag) for tag in code}
        code = made if state.status == "found" else {tag: made[tag] or code[tag] for tag in code}
    return code
