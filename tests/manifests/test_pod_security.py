"""Pods hold to the pod-security standard `restricted`."""

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


def test_what_a_restricted_namespace_refuses_is_named():
    container = {"securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}}
    security = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {"securityContext": security, "containers": [{"name": "step", **container}]}
    assert violations(pod) == []
    volumes = [{"name": "node", "hostPath": {"path": "/"}}]
    for change, found in (
        ({"securityContext": {}}, ["step: runAsNonRoot", "step: seccompProfile"]),
        ({"securityContext": {**security, "runAsUser": 0}}, ["step: runAsUser"]),
        ({"volumes": volumes, "hostNetwork": True}, ["hostNetwork", "volume node: hostPath"]),
        ({"initContainers": [{"name": "a"}]}, ["a: allowPrivilegeEscalation", "a: capabilities.drop"]),
    ):
        assert sorted(violations({**pod, **change})) == found
