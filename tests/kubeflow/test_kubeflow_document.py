"""docs/kubeflow.md: its commands are run, with its profile, and its lines are those that are printed."""

import re
from pathlib import Path

import pytest
import yaml

from pipelines.schedules import read_schedules
from tests.pipelines.world import ROOT

DOCUMENT = (ROOT / "docs" / "kubeflow.md").read_text(encoding="utf-8")
PROFILES, SCHEDULES = (
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", DOCUMENT, re.M | re.S)
)
LINES = re.findall(r"^python -m pipelines ((?:submit|schedule) .*)$", DOCUMENT, re.M)


def test_every_command_of_the_document_is_run(kubeflow, command, monkeypatch, tmp_path):
    """With the document's own profile, but for the address; a run that is looked at has succeeded."""
    profile = {**PROFILES["default"], "host": kubeflow.url}
    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump({"default": profile}))
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    monkeypatch.setenv("MULTIVIEW_PROFILES", str(tmp_path / "profiles.yaml"))
    monkeypatch.setattr("pipelines.following._readable", lambda store: False)
    kubeflow.namespaces = (profile["namespace"],)
    kubeflow.on_run = lambda run: setattr(run, "state", "SUCCEEDED")
    assert len(LINES) > 5
    for line in LINES:
        command(line)
    assert {run.service_account for run in kubeflow.runs.values()} == {"multiview"}
    assert not kubeflow.recurring, "made, listed and deleted"


def test_the_profiles_are_profiles(monkeypatch, tmp_path):
    from pipelines.connection import resolve_profile

    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump(PROFILES))
    monkeypatch.setenv("MULTIVIEW_PROFILES", str(tmp_path / "profiles.yaml"))
    assert [resolve_profile(name, {}).host for name in PROFILES] == [p["host"] for p in PROFILES.values()]


def test_the_schedules_are_schedules():
    Path("nightly.yaml").write_text(yaml.safe_dump(SCHEDULES))
    (one,) = read_schedules(Path("nightly.yaml")).schedules
    assert one.model_dump(exclude_defaults=True).keys() == SCHEDULES["schedules"][0].keys() - {
        "time_zone",
        "enabled",
    }


@pytest.mark.parametrize("words", re.findall(r"^\| `(.*?)` \|", DOCUMENT, re.M))
def test_the_failures_are_told_in_these_words(words):
    told = "".join(path.read_text() for path in sorted((ROOT / "pipelines").glob("*.py")))
    told = re.sub(r'"\s*f?"', "", told).replace("answers {error.status}", "answers 5")
    assert words in told
