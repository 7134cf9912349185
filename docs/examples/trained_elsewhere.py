"""Write a preset that evaluates the trained models of a comparison, as they are, on other data.

    python docs/examples/trained_elsewhere.py comparison-5f631586c8 --store store > elsewhere.yaml
    python -m pipelines run comparison --preset elsewhere.yaml --set corpus.source=passages.jsonl \\
        --set questions.source=questions.jsonl --set questions.dev_source=questions.jsonl
"""

from typing import Annotated

import typer
import yaml

from multiview.artifacts.store import open_store
from multiview.config.overrides import merge
from multiview.steps.path import StepPath
from multiview.steps.runs import read_run, read_states


def write(run: str, store: Annotated[str, typer.Option(envvar="MULTIVIEW_STORE")] = "store") -> None:
    """Print the preset: the run's settings without its data, and each system's model of the last round."""
    opened = open_store(store)
    trained = {}
    for state in read_states(opened, run):  # of several rounds the last one comes last
        if state.step == "train":
            trained[StepPath.parse(state.path).system] = state.outputs["model"].address
    settings = dict(read_run(opened, run).config)
    for data in ("corpus", "questions"):
        settings.pop(data, None)
    systems = {system: {"train": {"model": address}} for system, address in trained.items()}
    untrained = {"train": {"rounds": 0, "validate_steps": None}, "evaluation": {"analyses": []}}
    typer.echo(
        yaml.safe_dump(merge(settings, untrained, {"comparison": {"systems": systems}}), sort_keys=False)
    )


if __name__ == "__main__":
    typer.run(write)
