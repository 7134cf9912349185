"""docs/kubeflow.md and the first runs of docs/cluster.md: their commands are run, with its profile, and its lines are those that are printed."""

import re
from pathlib import Path

import fsspec
import pytest
import yaml

from multiview.config.overrides import validate
from pipelines.kubeflow.pods import Pods
from pipelines.kubeflow.schedule_file import read_schedules
from tests.fixtures.project import ROOT
from tests.fixtures.split_run import passage_rows, question_rows, write

DOCUMENT = (ROOT / "docs" / "kubeflow.md").read_text(encoding="utf-8")
PROFILES, SHARED, SCHEDULES, NOTIFY, _ = (  # the last one is for KFP's operators: see test_retries.py
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", DOCUMENT, re.M | re.S)
)


@pytest.mark.documented(
    "python -m pipelines submit ", "python -m pipelines schedule ", document="kubeflow.md"
)
def test_every_command_of_the_document_is_run(documented_lines, kubeflow, command, monkeypatch, tmp_path):
    """With the document's own profile, but for the address; a run that is looked at has succeeded."""
    profile = {**PROFILES["default"], "host": kubeflow.url}
    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump({"default": profile}))
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    monkeypatch.setenv("MULTIVIEW_PROFILES", str(tmp_path / "profiles.yaml"))
    monkeypatch.setattr("pipelines.kubeflow.follow._readable", lambda store: False)
    kubeflow.namespaces = (profile["namespace"],)
    kubeflow.on_run = lambda run: setattr(run, "state", "SUCCEEDED")
    assert len(documented_lines) > 5
    for line in documented_lines:
        command(line.removeprefix("python -m pipelines "))
    assert {run.service_account for run in kubeflow.runs.values()} == {"multiview"}
    assert not kubeflow.recurring, "made, listed and deleted"


GUIDE = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
FIRST_RUNS = re.findall(r"MULTIVIEW_PROFILES=(\S+)(?:\n.*?)*?\n(python -m pipelines .*)", GUIDE)


@pytest.mark.documented("python -m pipelines submit ", document="cluster.md")
def test_the_first_runs_of_the_guide_start(documented, kubeflow, command, monkeypatch, tmp_path):
    """With the overlay's own profile, but for the address; files in a bucket of this process's memory."""
    (file,) = [file for file, line in FIRST_RUNS if line == documented]
    profile = yaml.safe_load((ROOT / file).read_text())["default"]
    profile = {name: value for name, value in profile.items() if name != "kube_context"} | {
        "host": kubeflow.url
    }
    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump({"default": profile}))
    monkeypatch.setenv("MULTIVIEW_PROFILES", str(tmp_path / "profiles.yaml"))
    monkeypatch.setattr("pipelines.kubeflow.follow._readable", lambda store: False)
    monkeypatch.setattr("multiview.model.hub.commit_of", lambda name: "0" * 40)
    # Compiled earlier, which takes its time.
    monkeypatch.setattr(
        "pipelines.kubeflow.compile.compile_request",
        lambda request, *others: ROOT / "tests" / "pipelines" / "golden" / f"{request.plan.name}.yaml",
    )
    memory = fsspec.filesystem("memory")
    passages, asked = passage_rows(20), question_rows("t", 20, 20)
    for name, rows in (("passages.parquet", passages), ("questions.jsonl", asked)):
        write(tmp_path / name, rows)
        memory.pipe(f"/files/{name}", (tmp_path / name).read_bytes())
    one_user = "kind" in file  # whose namespace is Kubeflow's own
    kubeflow.namespaces = () if one_user else (profile["namespace"],)
    kubeflow.on_run = lambda run: setattr(run, "state", "SUCCEEDED")
    command(documented.removeprefix("python -m pipelines ").replace("gs://BUCKET/", "memory://files/"))
    (run,) = kubeflow.runs.values()
    assert run.service_account == "multiview-steps"
    assert run.runtime_config.parameters["store"] == profile["store"]


def test_the_guide_has_a_first_run_for_each_way():
    assert len(FIRST_RUNS) == 2 and all("submit" in line for _, line in FIRST_RUNS)


def test_the_profiles_are_profiles(monkeypatch, tmp_path):
    from pipelines.kubeflow.connection import resolve_profile

    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump(PROFILES))
    monkeypatch.setenv("MULTIVIEW_PROFILES", str(tmp_path / "profiles.yaml"))
    assert [resolve_profile(name, {}).host for name in PROFILES] == [p["host"] for p in PROFILES.values()]


def test_the_settings_of_a_shared_cluster_are_settings():
    pods = Pods(validate(SHARED))
    assert (pods.pod("index").scratch, pods.pod("encode").priority_class) == ("1Ti", "nightly")


def test_the_schedules_are_schedules():
    Path("nightly.yaml").write_text(yaml.safe_dump(SCHEDULES))
    (schedule,) = read_schedules(Path("nightly.yaml")).schedules
    assert schedule.model_dump(exclude_defaults=True).keys() == SCHEDULES["schedules"][0].keys() - {
        "time_zone",
        "enabled",
    }


def test_the_settings_of_notifications_are_settings():
    assert validate(NOTIFY).notify.model_dump() == NOTIFY["notify"]


FAILURES = DOCUMENT.partition("## What failures look like")[2].partition("**A lost pod.**")[0]


@pytest.mark.parametrize("words", re.findall(r"^\| `(.*?)` \|", FAILURES, re.M))
def test_the_failures_have_these_words(words):
    places = [
        *sorted((ROOT / "pipelines").rglob("*.py")),
        ROOT / "src" / "multiview" / "plans" / "parameters.py",
        ROOT / "src" / "multiview" / "plans" / "pods.py",
        ROOT / "src" / "multiview" / "artifacts" / "credentials.py",
        ROOT / "src" / "multiview" / "kubeflow" / "component.py",
        ROOT / "src" / "multiview" / "kubeflow" / "run.py",
        ROOT / "src" / "multiview" / "steps" / "backends" / "gpus.py",
        ROOT / "src" / "multiview" / "steps" / "backends" / "trainer.py",
    ]
    source = "".join(path.read_text() for path in places)
    source = re.sub(r'"\s*f?"', "", source).replace("answers {error.status}", "answers 5")
    assert words in source
