"""The server's version is asked before anything is sent: an old version is refused, an unknown one is a warning."""

import re

import pytest

from multiview.errors import InputError
from pipelines.kubeflow.versions import VERSIONS, check_version, takes
from tests.fixtures.project import ROOT
from tests.fixtures.schedules import NIGHTLY, WEEKLY, write

SUBMIT = "submit training --preset small.yaml --store gs://bucket/store"


@pytest.mark.parametrize("tag", ["2.5.0", "2.13.9", "v2.4.1", "2.0.0-rc.2", "1.8.22", "2.14.0-rc.1"])
def test_only_what_is_older_than_the_matrix_is_refused(tag):
    if tag.startswith("2.14"):
        assert check_version(tag) is None
    else:
        with pytest.raises(InputError, match=f"Kubeflow Pipelines {tag} is older than 2.14"):
            check_version(tag)


@pytest.mark.parametrize("release", VERSIONS)
def test_a_release_of_the_matrix_is_taken_silently(release):
    assert check_version(f"{release}.0") is None and check_version(f"v{release}.3") is None


@pytest.mark.parametrize("tag", ["master", "1.0-dev", "2.5.0-gke.7", "odh-v2.10", "2.19.0", "3.0.0"])
def test_an_unknown_version_is_told(tag):
    assert "made for 2.14 to 2.18" in (check_version(tag) or "")


@pytest.mark.parametrize("tag", ["2.14.0", "2.15.3", "v2.15.0"])
def test_a_version_before_2_16_is_refused_with_run_as_non_root(tag):
    with pytest.raises(InputError, match=f"Kubeflow Pipelines {tag} refuses kubeflow.run_as_non_root"):
        check_version(tag, ["run_as_non_root"])


@pytest.mark.parametrize("tag", ["2.16.0", "2.17.0", "2.18.0"])
def test_run_as_non_root_changes_nothing_elsewhere(tag):
    assert check_version(tag, ["run_as_non_root"]) == check_version(tag)


@pytest.mark.parametrize("tag", ["", "unknown", "master", "odh-v2.10", "2.15.3", "v2.14.0", "1.8.22"])
def test_a_version_that_is_not_known_to_take_run_as_non_root_is_given_none(tag):
    assert not takes(tag, "run_as_non_root")
    assert (
        takes("2.16.0", "run_as_non_root")
        and takes("v2.17.1", "run_as_non_root")
        and takes("2.18.0-rc.1", "run_as_non_root")
    )


@pytest.mark.parametrize("tag", ["", "unknown"])
def test_run_as_non_root_may_be_refused_by_a_version_that_is_not_named(tag):
    assert "one before 2.16 refuses kubeflow.run_as_non_root" in (
        check_version(tag, ["run_as_non_root"]) or ""
    )


@pytest.mark.parametrize("tag", ["", "unknown"])
def test_images_without_a_tag_are_told_apart_by_a_field_of_the_answer(tag):
    assert check_version(tag, pipeline_store=True) is None
    with pytest.raises(InputError, match="this Kubeflow Pipelines is older than 2.14"):
        check_version(tag, pipeline_store=False)


def test_releases_are_in_order():
    minor = [int(version.partition(".")[2]) for version in VERSIONS]
    assert minor == list(range(minor[0], minor[-1] + 1))


@pytest.mark.parametrize(
    "line", [SUBMIT, "schedule apply refresh.yaml", "schedule apply refresh.yaml --dry-run"]
)
def test_nothing_is_sent_to_a_server_that_is_too_old(kubeflow, command, line):
    write(NIGHTLY)
    kubeflow.version = "2.5.0"
    printed = command(f"{line} --host {kubeflow.url}", status=2)
    assert "this Kubeflow Pipelines is older than 2.14" in printed
    assert {endpoint for _, endpoint in kubeflow.requests} == {"healthz"}


@pytest.mark.parametrize(
    "line", [SUBMIT + " --set kubeflow.run_as_non_root=true", "schedule apply refresh.yaml"]
)
def test_nothing_is_sent_to_a_server_that_refuses_run_as_non_root(kubeflow, command, line):
    write(WEEKLY, {**NIGHTLY, "settings": {"kubeflow": {"run_as_non_root": True}}})
    kubeflow.tag = "2.15.0"
    told = command(f"{line} --host {kubeflow.url}", status=2)
    assert "2.15.0 refuses kubeflow.run_as_non_root, which 2.16 and later take" in told
    assert {endpoint for _, endpoint in kubeflow.requests} == {"healthz"}
    kubeflow.tag = "2.16.0"
    assert "warning" not in command(f"{line} --host {kubeflow.url}")


def test_a_distribution_s_own_tag_is_a_warning_and_the_run_is_started(kubeflow, command):
    kubeflow.tag = "odh-v2.10"
    printed = command(f"{SUBMIT} --host {kubeflow.url}")
    assert "warning: Kubeflow Pipelines does not say its version (odh-v2.10)" in printed
    assert " started: " in printed and kubeflow.runs


@pytest.mark.parametrize("version", [f"{version}.0" for version in VERSIONS])
def test_a_known_version_is_not_mentioned(kubeflow, command, version):
    kubeflow.version = version
    assert "warning" not in command(f"{SUBMIT} --host {kubeflow.url}")


def test_the_guide_s_matrix_is_the_one_that_submit_checks():
    guide = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (2\.\d+) \| (\d+\.\d+)\.\d+ \|[^|]*\| (\d\.\d+), (\d\.\d+) \|", guide, re.M)
    assert [version for version, *_ in rows] == list(VERSIONS)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (oldest, oldest_argo, oldest_kubernetes, _), (newest, newest_argo, _, newest_kubernetes) = (
        rows[0],
        rows[-1],
    )
    assert f"| Kubeflow Pipelines | {oldest} to {newest}" in readme
    assert f"| Argo Workflows | {oldest_argo} to {newest_argo}" in readme
    assert f"| Kubernetes | {oldest_kubernetes} to {newest_kubernetes}" in readme
