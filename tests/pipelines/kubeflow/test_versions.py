"""The server's version is asked before anything is sent: an old version is refused, an unknown one is a warning."""

import re

import pytest

from multiview.errors import InputError
from pipelines.kubeflow.versions import VERSIONS, check_version, takes
from tests.fixtures.project import ROOT
from tests.fixtures.schedules import NIGHTLY, WEEKLY, write

SUBMIT = "submit training --preset small.yaml --store gs://bucket/store"


@pytest.mark.parametrize("tag", ["2.5.0", "2.13.9", "v2.4.1", "2.0.0-rc.2", "1.8.22"])
def test_what_is_older_than_the_matrix_is_refused(tag):
    with pytest.raises(InputError, match=f"Kubeflow Pipelines {tag} is older than 2.14"):
        check_version(tag)
    assert not takes(tag, "run_as_non_root")


@pytest.mark.parametrize("release", VERSIONS)
@pytest.mark.parametrize("form", ["{}.0", "v{}.3", "{}.0-rc.1"])
def test_a_release_of_the_matrix_is_taken_silently_but_for_what_it_refuses(release, form):
    tag = form.format(release)
    assert check_version(tag) is None
    assert takes(tag, "run_as_non_root") == (release >= "2.16")
    if release >= "2.16":
        assert check_version(tag, ["run_as_non_root"]) is None
    else:
        with pytest.raises(InputError, match=f"Kubeflow Pipelines {tag} refuses kubeflow.run_as_non_root"):
            check_version(tag, ["run_as_non_root"])


@pytest.mark.parametrize("tag", ["master", "1.0-dev", "2.5.0-gke.7", "odh-v2.10", "2.19.0", "3.0.0"])
def test_an_unknown_version_is_told(tag):
    assert "made for 2.14 to 2.18" in (check_version(tag) or "")
    assert takes(tag, "run_as_non_root") == (tag in ("2.19.0", "3.0.0"))


@pytest.mark.parametrize("tag", ["", "unknown"])
def test_images_without_a_tag_are_told_apart_by_a_field_of_the_answer(tag):
    assert check_version(tag, pipeline_store=True) is None and not takes(tag, "run_as_non_root")
    with pytest.raises(InputError, match="this Kubeflow Pipelines is older than 2.14"):
        check_version(tag, pipeline_store=False)
    told = check_version(tag, ["run_as_non_root"]) or ""
    assert "one before 2.16 refuses kubeflow.run_as_non_root" in told


def test_releases_are_in_order():
    minor = [int(version.partition(".")[2]) for version in VERSIONS]
    assert minor == list(range(minor[0], minor[-1] + 1))


@pytest.mark.parametrize("line", [SUBMIT, "schedule apply refresh.yaml --dry-run"])
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


def test_a_distribution_s_own_tag_is_a_warning_and_the_run_is_started(kubeflow, submit):
    kubeflow.tag = "odh-v2.10"
    printed = submit()
    assert "warning: Kubeflow Pipelines does not say its version (odh-v2.10)" in printed
    assert " started: " in printed and kubeflow.runs


def test_the_guide_s_matrix_is_the_one_that_submit_checks():
    guide = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (2\.\d+) \| (\d+\.\d+)\.\d+ \|[^|]*\| (\d\.\d+), (\d\.\d+) \|", guide, re.M)
    assert [version for version, *_ in rows] == list(VERSIONS)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (oldest, oldest_argo, oldest_kubernetes, _), *_, (newest, newest_argo, _, newest_kubernetes) = rows
    assert f"| Kubeflow Pipelines | {oldest} to {newest}" in readme
    assert f"| Argo Workflows | {oldest_argo} to {newest_argo}" in readme
    assert f"| Kubernetes | {oldest_kubernetes} to {newest_kubernetes}" in readme
