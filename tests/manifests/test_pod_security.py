"""Pods hold to the pod-security standard `restricted`."""

import copy

import pytest

from tests.fixtures.overlays import containers, every_pod
from tests.fixtures.pod_security import violations


@pytest.mark.parametrize(("manifest", "pod"), every_pod())
def test_a_restricted_namespace_takes_the_pod(manifest, pod):
    assert violations(pod) == []


@pytest.mark.parametrize(("manifest", "pod"), every_pod())
def test_a_container_writes_to_volumes_alone(manifest, pod):
    """More than `restricted` asks."""
    for container in containers(pod):
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert pod["securityContext"]["runAsUser"] > 0


POD = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "volumes": [{"name": "scratch", "emptyDir": {}}],
    "containers": [
        {
            "name": "step",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda pod: pod["securityContext"].pop("runAsNonRoot"), ["step: runAsNonRoot"]),
        (lambda pod: pod["securityContext"].pop("seccompProfile"), ["step: seccompProfile"]),
        (lambda pod: pod["securityContext"].update(runAsUser=0), ["step: runAsUser"]),
        (lambda pod: pod["volumes"].append({"name": "node", "hostPath": {"path": "/"}}), ["volume node: hostPath"]),
        (lambda pod: pod.update(hostNetwork=True), ["hostNetwork"]),
        (
            lambda pod: pod["containers"][0].pop("securityContext"),
            ["step: allowPrivilegeEscalation", "step: capabilities.drop"],
        ),
        (lambda pod: pod["containers"][0]["securityContext"].update(runAsNonRoot=False), ["step: runAsNonRoot"]),
        (
            lambda pod: pod["containers"][0]["securityContext"]["capabilities"].update(add=["SYS_ADMIN"]),
            ["step: capabilities.add"],
        ),
        (lambda pod: pod.update(initContainers=[{"name": "first"}]), 
            ["first: allowPrivilegeEscalation", "first: capabilities.drop"]),
    ],
)  # fmt: skip
def test_what_a_restricted_namespace_refuses_is_named(change, found):
    assert violations(POD) == []
    pod = copy.deepcopy(POD)
    change(pod)
    assert violations(pod) == found
