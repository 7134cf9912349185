"""The prepared view of an experiment, as MLflow's pages read it."""

import base64
import json
import zlib
from typing import Any

from mlflow.entities import Experiment

LONGEST = 5000
"""Characters that earlier versions of MLflow take per tag of an experiment."""


def view_of(experiment: Experiment) -> dict[str, Any]:
    tag = experiment.tags["mlflow.sharedViewState.systems"]
    form, content = tag.split(";")
    assert form == "deflate" and len(tag) < LONGEST
    return json.loads(zlib.decompress(base64.b64decode(content)))
