"""What images install, without building one."""

import subprocess
import sys
import tomllib

import pytest

from images.packages import ONLY_STEPS, models, name, requirements
from multiview.config.overrides import gather, validate
from multiview.model.base_model.checkpoint import base_fingerprint
from pipelines.kubeflow.schedules import read_schedules
from tests.fixtures.compiled import compiled_text
from tests.fixtures.project import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MODULES = {"ir-measures": "ir_measures", "pytrec-eval-terrier": "pytrec_eval", "rouge-score": "rouge_score"}
MODULES["pystemmer"] = "Stemmer"

WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {without}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
sys.argv = ["pipelines", "compile", "--out", {out!r}]
import runpy
import multiview.tracking, pipelines.runs.rerun
runpy.run_module("pipelines", run_name="__main__")
"""


@pytest.mark.parametrize("image", ["cpu", "gpu"])
def test_images_of_steps_install_what_the_project_needs(image):
    found = requirements(PROJECT, image)
    assert set(PROJECT["dependencies"]) < set(found)
    assert {name(r) for r in found if "faiss" in r} == {"faiss-cpu"}
    assert {"s3fs", "kubernetes"} <= {name(r) for r in found}


def test_images_of_steps_carry_the_base_model_of_the_demo_and_of_the_schedule():
    """They are read from the package's files: what it needs in turn is not in the image."""
    carried = {name(model).replace("-", "_") for model in models(PROJECT)}
    found = read_schedules(ROOT / "manifests" / "schedules" / "refresh.yaml").schedules
    for preset in {"demo", *(schedule.preset for schedule in found)}:
        base = validate(gather(preset, [])).model.base
        assert base.removeprefix("package:") in carried
        assert base_fingerprint(base)


def test_the_runner_leaves_out_what_the_project_names():
    needed = {name(r) for r in PROJECT["dependencies"]}
    assert needed >= ONLY_STEPS
    found = {name(r) for r in requirements(PROJECT, "runner")}
    assert found == needed - ONLY_STEPS - {"mlflow"} | {
        "cronsim",
        "mlflow-skinny",
        "kfp",
        "kfp-kubernetes",
        "qdrant-client",
        "s3fs",
    }


def test_compiling_imports_nothing_that_the_runner_leaves_out(tmp_path):
    """In a fresh process, which makes the same of it, such as which pods have a GPU."""
    without = {MODULES.get(package, package) for package in ONLY_STEPS}
    program = WITHOUT.format(without=without, out=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "training.yaml").read_text() == compiled_text("training")


def test_versions_that_images_pick_by_name_are_pinned():
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines()}
    assert {"torch", "kfp", "faiss-cpu", "mlflow", "mlflow-skinny"} <= pinned
    assert all("==" in model for model in models(PROJECT))
