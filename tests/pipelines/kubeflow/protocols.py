"""Whether each version of KFP understands every field of our compiled pipelines: `python -m tests.pipelines.kubeflow.protocols
FOLDER/VERSION…`, each folder with the packages `kfp-pipeline-spec` and `kfp-kubernetes` of that version (`make lint`).

KFP's API server refuses a platform's configuration with a field that its version does not know, and ignores others.
Each version is asked in a process of its own, because a process has one protocol of a name.
"""

import subprocess
import sys
import tempfile
import types
from importlib import import_module
from pathlib import Path

import yaml
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

EVERYTHING = {
    "gpu": {
        "labels": {"team": "search"},
        "annotations": {"example.org/owner": "search"},
        "priority_class": "high",
        "image_pull_secrets": ["registry"],
        "scratch": "1Ti",
        "scratch_class": "fast",
        "parallel_shards": 4,
        "node_selector": {"pool": "gpu"},
        "node_affinity": [
            {"key": "zone", "values": ["a"]},
            {"key": "spot", "operator": "Exists", "weight": 1},
        ],
    },
    "steps": {"train": {"nodes": 2}},
    "queue": "gpus",
    "secrets": {"mlflow": "mlflow"},
}
"""Settings that set every field of a pod that there is one for, but for the one that only newer versions know."""


def compile_all(folder: Path) -> tuple[list[Path], Path]:
    """Compiled pipelines that every version takes, and one that older versions refuse."""
    from multiview.config.overrides import Overrides
    from multiview.plans import PIPELINES
    from multiview.plans.request import Request
    from pipelines.kubeflow.compile import compile_request

    def compiled(name: str, pipeline: str, overrides: Overrides) -> Path:
        return compile_request(Request.make(pipeline, overrides), folder / f"{name}.yaml")

    taken = [compiled(name, name, {}) for name in PIPELINES]
    taken.append(compiled("everything", "training", {"kubeflow": EVERYTHING}))
    newer = {"kubeflow": EVERYTHING | {"run_as_non_root": True}}
    return taken, compiled("non-root", "training", newer)


def messages(packages: Path) -> tuple[type[Message], type[Message]]:
    """The messages of a pipeline and of an executor's configuration, as the packages in a folder define them."""
    for name in (
        "kfp",
        "kfp.kubernetes",
    ):  # without the code of KFP's SDK, which is there of one version alone
        package = types.ModuleType(name)
        package.__path__ = [str(packages / name.replace(".", "/"))]
        sys.modules[name] = package
    pipeline = import_module("kfp.pipeline_spec.pipeline_spec_pb2")
    executor = import_module("kfp.kubernetes.kubernetes_executor_config_pb2")
    return pipeline.PipelineSpec, executor.KubernetesExecutorConfig


def problems(file: Path, pipeline: type[Message], executor: type[Message]) -> list[str]:
    """What of a compiled pipeline these messages do not know."""
    ir, platform = yaml.safe_load_all(file.read_text())
    parts = {"pipeline": (ir, pipeline)}
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    parts |= {name: (value, executor) for name, value in executors.items()}
    found = []
    for name, (value, message) in parts.items():
        try:
            ParseDict(value, message())
        except ParseError as error:
            found.append(f"{file.name}: {name}: {error}")
    return found


def main(folders: list[Path]) -> int:
    failed = False
    with tempfile.TemporaryDirectory() as place:
        good, newer = compile_all(Path(place))
        for folder in folders:
            files = [*good, newer] if folder.name >= "2.16" else good
            command = [sys.executable, "-m", __spec__.name, "--parse", str(folder)]
            failed |= subprocess.run([*command, *map(str, files)]).returncode != 0
            if newer not in files:
                refused = subprocess.run([*command, str(newer)], capture_output=True, text=True)
                if "securityContext" not in refused.stdout:
                    print(f"KFP {folder.name} takes kubeflow.run_as_non_root: say so in docs/kubeflow.md")
                    failed = True
    return int(failed)


def parse(folder: Path, files: list[Path]) -> int:
    found = [problem for file in files for problem in problems(file, *messages(folder))]
    for problem in found:
        print(f"KFP {folder.name}: {problem}")
    return int(bool(found))


if __name__ == "__main__":
    if sys.argv[1] == "--parse":
        sys.exit(parse(Path(sys.argv[2]), [Path(file) for file in sys.argv[3:]]))
    sys.exit(main([Path(folder) for folder in sys.argv[1:]]))
