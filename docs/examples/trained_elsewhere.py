"""Write a preset, or a study, that evaluates the trained models of comparisons, as they are, on other data.

Of one comparison, a preset:

    python docs/examples/trained_elsewhere.py comparison-5f631586c8 --store store > elsewhere.yaml
    python -m pipelines run comparison --preset elsewhere.yaml --set corpus.source=passages.jsonl \\
        --set questions.source=questions.jsonl --set questions.dev_source=questions.jsonl

Of several that differ in their seed alone, such as those of the study `comparison-seeds`, a study over these seeds:

    python docs/examples/trained_elsewhere.py RUN RUN RUN --store store > elsewhere.yaml
    python -m pipelines study elsewhere.yaml --set corpus.source=passages.jsonl \\
        --set questions.source=questions.jsonl --set questions.dev_source=questions.jsonl

A run's identity is in the line that it ends with, as in "comparison-5f631586c8: 38 steps done".
"""

import sys
from typing import Annotated, Any

import typer
import yaml

from multiview.artifacts.store import Store, open_store
from multiview.config.overrides import merge
from multiview.steps.path import StepPath
from multiview.steps.runs import read_run, read_states

UNTRAINED = {"train": {"rounds": 0, "validate_steps": None}, "evaluation": {"analyses": []}}


def write(runs: list[str], store: Annotated[str, typer.Option(envvar="MULTIVIEW_STORE")] = "store") -> None:
    """Print the preset of one run, or the study of several."""
    opened = open_store(store)
    models = {run: {"comparison": {"systems": trained(opened, run)}} for run in runs}
    settings = {run: dict(read_run(opened, run).config) for run in runs}
    for data in ("corpus", "questions"):
        for each in settings.values():
            each.pop(data, None)
    content: dict[str, Any] = merge(settings[runs[0]], UNTRAINED, models[runs[0]])
    if len(runs) > 1:
        seeds = {run: settings[run].get("train", {}).get("seed", 0) for run in runs}
        content = {
            "about": f"The models of {', '.join(runs)} on other data.",
            "pipeline": "comparison",
            "seeds": list(seeds.values()),
            "settings": merge(settings[runs[0]], UNTRAINED),
            "by_seed": {seeds[run]: models[run] for run in runs},
            "runs": {"systems": {}},
        }
    typer.echo(yaml.safe_dump(content, sort_keys=False))


def trained(store: Store, run: str) -> dict[str, Any]:
    """Returns the model of the last round per trained system of a run, as settings."""
    paths = {StepPath.parse(state.path): state for state in read_states(store, run) if state.step == "train"}
    for path, state in paths.items():
        if not state.finished:
            sys.exit(f"{run}: {path} is not done; finish the run first")
    models = {}
    for path in sorted(paths, key=lambda path: path.round or 0):
        models[path.system] = paths[path].outputs["model"].address
    return {system: {"train": {"model": address, **UNTRAINED["train"]}} for system, address in models.items()}


if __name__ == "__main__":
    typer.run(write)
