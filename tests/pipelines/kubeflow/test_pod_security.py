"""Pods promise not to run as root where the server's version lets them, which is asked before anything is sent."""

import json
from pathlib import Path

import pytest

from pipelines.kubeflow.versions import SINCE, VERSIONS
from tests.fixtures.kubeflow_server import FakeKubeflow
from tests.fixtures.overlays import OVERLAYS, profiles
from tests.fixtures.pod_security import driver_s_pod, violations
from tests.fixtures.schedules import NIGHTLY, write

SUBMIT = "submit training --preset small.yaml --store gs://bucket/store"


def pods_sent(kubeflow: FakeKubeflow) -> dict[str, list[str]]:
    """What the level `restricted` has against each pod of the pipeline that was uploaded last."""
    *_, version = kubeflow.versions.values()
    ir, platform = version.pipeline_spec["pipeline_spec"], version.pipeline_spec["platform_spec"]
    executors = platform["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    return {
        name: violations(driver_s_pod(executor["container"], executors[name]))
        for name, executor in ir["deploymentSpec"]["executors"].items()
    }


@pytest.mark.parametrize(
    ("version", "overlay"),
    [
        *((version, None) for version in VERSIONS),
        *((VERSIONS[-1], folder) for folder in OVERLAYS),
    ],
)
def test_pods_hold_to_restricted_wherever_the_server_lets_them(
    kubeflow, command, monkeypatch, version, overlay
):
    """With no setting of theirs, and with those of each overlay's profile."""
    kubeflow.version = f"{version}.0"
    settings = profiles(overlay)["default"]["settings"] if overlay else {}
    Path("profiles.yaml").write_text(json.dumps({"default": {"host": kubeflow.url, "settings": settings}}))
    monkeypatch.setenv("MULTIVIEW_PROFILES", "profiles.yaml")
    printed = command(SUBMIT)
    assert "warning" not in printed
    assert_restricted(kubeflow, version)


def assert_restricted(kubeflow: FakeKubeflow, version: str) -> None:
    found = pods_sent(kubeflow)
    expected = [] if version >= SINCE["run_as_non_root"] else ["main: runAsNonRoot"]
    assert found and all(each == expected for each in found.values())


def test_a_setting_says_otherwise_and_the_version_is_that_of_the_setting(kubeflow, command, submit):
    submit("--set kubeflow.run_as_non_root=false")
    assert set(map(tuple, pods_sent(kubeflow).values())) == {("main: runAsNonRoot",)}
    kubeflow.runs.clear()
    for setting in ("", "--set kubeflow.run_as_non_root=true"):
        submit(setting)
    assert len(kubeflow.versions) == 2, "what was asked for and what is so by itself are the same pipeline"


def test_a_schedule_is_made_anew_once_the_server_takes_more(kubeflow, command):
    write(NIGHTLY)
    for version, words in (("2.15", ["created", "unchanged"]), ("2.16", ["replaced", "unchanged"])):
        kubeflow.version = f"{version}.0"
        told = [command(f"schedule apply refresh.yaml --host {kubeflow.url}") for _ in words]
        assert [text.split()[1] for text in told] == words
        assert_restricted(kubeflow, version)
