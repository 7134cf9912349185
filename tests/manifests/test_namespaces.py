"""Whose namespaces are: Kubeflow's where a Profile makes them, ours where nobody else does."""

import pytest

from tests.fixtures.overlays import BUILT, MANIFESTS, golden, of_kind, sources

PART_OF = "app.kubernetes.io/part-of"
"""On a Profile's namespace it is `kubeflow-profile`: Kubeflow's network policies let callers in by it, and the profile
controller never restores it."""
OURS = ["overlays/kind"]
"""Overlays for clusters where no Profile makes the namespace."""


@pytest.mark.parametrize("folder", BUILT)
def test_no_namespace_carries_part_of(folder):
    for namespace in of_kind(folder, "Namespace"):
        assert PART_OF not in namespace["metadata"].get("labels", {})


@pytest.mark.parametrize("folder", [folder for folder in BUILT if folder not in OURS])
def test_what_is_applied_beside_a_profile_has_no_namespace(folder):
    """Neither Kubeflow's labels nor the administrator's pod-security labels are ours to set."""
    assert not of_kind(folder, "Namespace")
    for manifest in golden(folder):
        assert not any("pod-security" in label for label in manifest["metadata"].get("labels", {}))


@pytest.mark.parametrize("folder", OURS)
def test_where_nobody_else_makes_it_the_namespace_is_made(folder):
    (namespace,) = of_kind(folder, "Namespace")
    assert namespace["metadata"]["name"] == "multiview"


def test_only_one_component_makes_a_namespace():
    """So that an overlay has none unless it names that component."""
    made = [
        file.relative_to(MANIFESTS).parts[:2] for file in sources() if "kind: Namespace\n" in file.read_text()
    ]
    assert made == [("components", "namespace")]


def test_the_schedule_has_no_sidecar():
    """In a namespace of Kubeflow's, Istio's would go on after the container, and the workflow never end."""
    (schedule,) = of_kind("argo", "CronWorkflow")
    metadata = schedule["spec"]["workflowSpec"]["podMetadata"]
    assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
