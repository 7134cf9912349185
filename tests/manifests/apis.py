"""Whether Kubeflow Trainer and Argo Workflows understand every field of the objects that we give them: `python -m
tests.manifests.apis FOLDER/PACKAGE@VERSION…`, each folder with a package of classes made from their API (`make lint`).

`schemas/` and `tests/fixtures/trainjob.schema.json` say the same by hand, for the part of the API that we use (schemas/README.md).
Each version is asked in a process of its own, because a process has one module of a name.
"""

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGES = {
    "kubeflow-trainer-api": ("TrainJob", "kubeflow_trainer_api.models", "TrainerV1alpha1TrainJob"),
    "hera": ("CronWorkflow", "hera.workflows.models", "CronWorkflow"),
}
"""The kind whose class a package has, its module and the class. hera 5.25 has Argo's API of 3.6, 5.27 of 3.7, 7.0 of 4.0."""

REFUSING = "kubeflow-trainer-api@2.1.0"
"""A version that does not take our objects, so that a check which finds nothing is noticed."""

POD: dict[str, Any] = {
    "gpus": 4,
    "nodes": 2,
    "labels": {"team": "search"},
    "annotations": {"example.org/owner": "search"},
    "priority_class": "high",
    "image_pull_secrets": ["registry"],
    "shared_memory": "16Gi",
    "scratch": "1Ti",
    "scratch_class": "fast",
    "node_selector": {"pool": "gpu"},
    "node_affinity": [
        {"key": "zone", "values": ["a", "b"]},
        {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40000"]},
        {"key": "spot", "operator": "Exists", "weight": 50},
    ],
    "tolerations": [{"key": "nvidia.com/gpu"}, {"key": "spot", "operator": "Equal", "value": "true"}],
}


def objects() -> list[dict[str, Any]]:
    """A TrainJob with all that a pod can have, and what `manifests/` has of Argo's."""
    from multiview.steps.backends.trainjob import train_job
    from tests.fixtures.overlays import BUILT, of_kind
    from tests.fixtures.training_jobs import STEP, template

    os.environ |= {"KFP_POD_NAME": "pod", "KFP_POD_UID": "0"}
    secrets = {"bucket": {"AWS_ACCESS_KEY_ID": "AWS_ACCESS_KEY_ID"}}
    job = train_job(*STEP, template({"AWS_REGION": "here"}, secrets, "trainer", "gpus", **POD), "training-w")
    return [job, *(each for folder in BUILT for each in of_kind(folder, "CronWorkflow"))]


def lost(given: Any, known: Any, place: str = "$") -> Iterator[str]:
    """The places of an object that are not in what a class has kept of it, or otherwise."""
    if isinstance(given, dict) and isinstance(known, dict):
        for name, value in given.items():
            yield from lost(value, known.get(name), f"{place}.{name}")
    elif isinstance(given, list) and isinstance(known, list) and len(given) == len(known):
        for number, values in enumerate(zip(given, known, strict=True)):
            yield from lost(*values, f"{place}[{number}]")
    elif given != known:
        yield place


def unknown(folder: Path, given: list[dict[str, Any]]) -> list[str]:
    """The fields that the classes in a folder do not know. Raises ValueError for wrong values."""
    sys.path.insert(0, str(folder))
    kind, module, name = PACKAGES[folder.name.partition("@")[0]]
    model = getattr(import_module(module), name)
    found = []
    for each in (each for each in given if each["kind"] == kind):
        found += lost(each, kept(model, each))
    return found


def kept(model: Any, given: dict[str, Any]) -> dict[str, Any]:
    """An object as a class keeps it, whichever generation of pydantic the class is of."""
    if hasattr(model, "from_dict"):
        return model.from_dict(given).to_dict()
    if hasattr(model, "model_validate"):
        return json.loads(model.model_validate(given).model_dump_json(by_alias=True, exclude_none=True))
    return json.loads(model.parse_obj(given).json(by_alias=True, exclude_none=True))


def altered(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The objects, each with a field that there is none of."""
    changed = copy.deepcopy(given)
    for each in changed:
        each["spec"]["speck"] = {}
    return changed


def ask(folder: Path, given: list[dict[str, Any]]) -> list[str]:
    command = [sys.executable, "-m", __spec__.name, "--ask", str(folder)]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip().splitlines()[-1:]


def main(folders: list[Path]) -> int:
    given, problems = objects(), []
    for folder in folders:
        found = ask(folder, given)
        if folder.name == REFUSING:
            problems += [] if "$.spec.runtimePatches" in found else [f"{folder.name}: takes runtimePatches"]
            continue
        problems += [f"{folder.name}: {problem}" for problem in found]
        if "$.spec.speck" not in ask(folder, altered(given)):
            problems.append(f"{folder.name}: takes any field, so this check is none")
    print(*problems, sep="\n", end="\n" if problems else "")
    return int(bool(problems))


if __name__ == "__main__":
    if sys.argv[1] == "--ask":
        print(json.dumps(unknown(Path(sys.argv[2]), json.load(sys.stdin))))
    else:
        sys.exit(main([Path(folder) for folder in sys.argv[1:]]))
