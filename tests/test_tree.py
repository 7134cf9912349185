"""Where a test lies: in the file that mirrors its module, or in one of a few named files across packages.

`src/multiview/steps/runs.py` is tested in `tests/steps/test_runs.py`, or in `test_runs_ASPECT.py` where that grows
long; a package as a whole in a file of the package's name. Folders beside the code (`pipelines`, `docs`, `manifests`)
are mirrored as well. What several tests need lies in `tests/fixtures/`, beside the tests that alone need it, or in a
`conftest.py`.
"""

import ast
from pathlib import Path

from tests.fixtures.project import ROOT

TESTS = ROOT / "tests"

ACROSS_ROOMS = {
    "torture/test_mlflow_pipelines.py": "a training and a refresh whose MLflow fails",
    "cli/test_bad_input.py": "lines about disks, permissions and damaged stores, of every package that a program prints",
    "bad_input/test_fuzz.py": "any input of readers, settings, conditions and records",
    "bad_input/test_guided_fuzzing.py": "the readers, under coverage-guided fuzzing",
    "bad_input/test_large.py": "large lines, texts and questions, from reading to search",
    "bad_input/test_table.py": "every reader, setting, command and route, beside its table",
    "components/test_components_elsewhere.py": "components in another team's pipeline, as docs/kubeflow.md compiles them",
    "config/test_setting_reads.py": "reads of settings in the whole source",
    "demo/test_demo.py": "`make demo` in a clone",
    "docs/test_commands.py": "the commands of all pages",
    "docs/test_all_questions_of.py": "an example that a page names",
    "docs/test_merged_questions.py": "an example that a page names",
    "docs/test_question_log.py": "an example that a page names",
    "docs/test_trained_elsewhere.py": "an example that a page names",
    "docs/test_ci_example.py": "the example of a CI workflow, beside Makefile, manifests and guide",
    "docs/test_links.py": "the links of all pages",
    "images/test_containers.py": "the images with a run in them",
    "images/test_locks.py": "the lock files of all images",
    "manifests/test_apis.py": "the objects that `make lint` gives to others' classes, beside tests/manifests/apis.py",
    "manifests/test_guide.py": "docs/cluster.md against the manifests",
    "manifests/test_make_bucket.py": "the program inside a manifest",
    "manifests/test_namespaces.py": "every namespace of every overlay",
    "manifests/test_pod_security.py": "every pod of every overlay",
    "manifests/test_rules.py": "every object of every overlay",
    "model/test_prompts.py": "the prompt of a question on every path, from the warm-up to an exported model",
    "pipelines/kubeflow/test_guide.py": "docs/kubeflow.md and docs/cluster.md as a person follows them",
    "pipelines/kubeflow/test_imports.py": "artifacts from outside a pipeline, from the plan to the task",
    "pipelines/kubeflow/test_metadata.py": "what KFP records of our pipelines, in the real core of ML-metadata",
    "pipelines/kubeflow/test_notebook.py": "the notebook of docs/examples, against Kubeflow's API and a bucket",
    "pipelines/kubeflow/test_pod_security.py": "pods as `submit` and `schedule apply` send them, by server version",
    "pipelines/kubeflow/test_retries.py": "retries as Argo has them, by IR, settings of operators and docs",
    "pipelines/kubeflow/test_rerun.py": "`rerun --submit`, from the cut of a run to Kubeflow",
    "pipelines/runs/test_crashes.py": "runs that are killed",
    "pipelines/test_outputs.py": "the outputs of all steps, by their digests",
    "pipelines/test_own_data.py": "other people's files, from reading to figures",
    "refresh/test_crashes.py": "a whole refresh that ends at any of its writes",
    "refresh/test_generated_queries.py": "a whole refresh with generated queries",
    "security/test_other_servers.py": "what is asked of MLflow, the hub, Qdrant, web servers and a webhook",
    "security/test_refused_secrets.py": "secrets that are refused, in the lines of both programs and of steps",
    "security/test_secret_files.py": "secrets in the files that libraries read, in all that is written or printed",
    "security/test_secrets.py": "secrets, in what is compiled, and what a run writes and prints",
    "security/test_watched_store.py": "what every step does to a store, and secrets in it",
    "strangers/test_files.py": "files of strangers, from reading to `inspect` and `split`",
    "security/test_strangers.py": "files, models and texts of strangers, over every package",
    "serving/test_pod.py": "the command of a manifest's pods, over a store in a bucket",
    "test_imports.py": "what the rooms of a GPU import",
    "test_layers.py": "imports between packages",
    "test_setup.py": "what `make setup` installs",
    "test_source.py": "the whole source",
    "test_tree.py": "this rule",
    "torture/test_bucket_faults.py": "a training in a bucket, behind a proxy that fails",
    "torture/test_churn.py": "many refreshes, promotions, rollbacks and collections, one after another",
    "torture/test_concurrency.py": "runs, collections of garbage, searches and requests at the same time",
    "torture/test_comparison_faults.py": "a comparison with generated queries, from its first step to its report",
    "torture/test_corruption.py": "every artifact of a training, damaged after its end",
    "torture/test_determinism.py": "every step of a training, in processes of several environments",
    "torture/test_garbage_collection.py": "collections of garbage beside running steps",
    "torture/test_many_passages.py": "all steps of a training and a refresh, by their memory",
    "torture/test_mlflow_faults.py": "shipping to a server behind a proxy that fails",
    "torture/test_mlflow_database.py": "shipping to a file at whose changes the process dies",
    "torture/test_dead_workers.py": "processes that prepare batches, for training and encoding",
    "torture/test_other_faults.py": "trainings and a refresh with the steps that few pipelines have",
    "torture/test_power_loss.py": "publication on a machine that loses power",
    "torture/test_refresh_faults.py": "a refresh, from its first step to its report",
    "torture/test_training_resume.py": "the step `train`, ended after each of its steps",
    "torture/test_training_faults.py": "a training, from its first step to its figures",
    "test_wheel.py": "the built distribution in an empty environment",
}
"""Test files that mirror no module, with the reason of each."""


def files_of_tests(folder: Path = TESTS) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("test_*.py"))


def mirrors(file: str, root: Path = ROOT) -> bool:
    """Whether a test file is named after a module, page or folder of the folder that its own folder mirrors."""
    folder, subject = Path(file).parent, Path(file).stem.removeprefix("test_")
    mirrored = [each for each in (root / "src" / "multiview" / folder, root / folder) if each.is_dir()]
    found = {
        path.stem.strip("_").replace("-", "_")
        for each in mirrored
        if each != root
        for path in each.glob("*")
        if path.suffix in ("", ".py", ".md")
    }
    whole = bool(mirrored) and subject == folder.name
    return whole or any(subject == name or subject.startswith(f"{name}_") for name in found)


def test_a_test_file_mirrors_a_module_or_is_known_to_cross_packages() -> None:
    stray = {file for file in files_of_tests() if not mirrors(file)} - ACROSS_ROOMS.keys()
    assert not stray, f"name {sorted(stray)} after the modules that they test"


def test_files_across_packages_are_there_and_mirror_nothing() -> None:
    assert not ACROSS_ROOMS.keys() - set(files_of_tests())
    assert not [file for file in ACROSS_ROOMS if mirrors(file)]


def test_what_tests_share_is_no_test_file() -> None:
    """A helper that lies beside tests is imported by its own folder alone."""
    wrong = []
    for path in sorted(TESTS.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tests"):
                imported = [node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)]
                files = [ROOT / f"{name.replace('.', '/')}.py" for name in imported]
                wrong += [
                    f"{path.relative_to(ROOT)} imports {file.relative_to(ROOT)}"
                    for file in files
                    if file.exists()
                    and (
                        file.name.startswith("test_") or file.parent not in (TESTS / "fixtures", path.parent)
                    )
                ]
    assert not wrong, "\n".join(wrong)
