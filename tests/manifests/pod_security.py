"""Kubernetes' pod-security standard `restricted`, as its documentation lists it: what a pod's spec does against it."""

from collections.abc import Iterator
from typing import Any

VOLUMES = {
    *(
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ),
}
"""Kinds of volume that a restricted pod may have."""
PROFILES = ("RuntimeDefault", "Localhost")
CAPABILITY = "NET_BIND_SERVICE"
"""The one that a restricted container may add."""
SYSCTLS = {
    *("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start"),
    *("net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports"),
    *("net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl"),
    *("net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"),
}


def violations(pod: dict[str, Any]) -> list[str]:
    """What in a pod's spec a namespace that enforces `restricted` would refuse; empty for a pod that it takes."""
    return [*_of_the_pod(pod), *_of_its_containers(pod)]


def _of_the_pod(pod: dict[str, Any]) -> Iterator[str]:
    for name in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(name):
            yield name
    for volume in pod.get("volumes", []):
        for kind in set(volume) - {"name"} - VOLUMES:
            yield f"volume {volume['name']}: {kind}"
    for sysctl in pod.get("securityContext", {}).get("sysctls", []):
        if sysctl["name"] not in SYSCTLS:
            yield f"sysctl {sysctl['name']}"


def _of_its_containers(pod: dict[str, Any]) -> Iterator[str]:
    whole = pod.get("securityContext", {})
    for container in [
        *pod.get("initContainers", []),
        *pod["containers"],
        *pod.get("ephemeralContainers", []),
    ]:
        own = container.get("securityContext", {})
        effective = {**whole, **own}
        name = container["name"]
        if effective.get("runAsNonRoot") is not True:
            yield f"{name}: runAsNonRoot"
        if 0 in (whole.get("runAsUser"), own.get("runAsUser")):
            yield f"{name}: runAsUser"
        if effective.get("seccompProfile", {}).get("type") not in PROFILES:
            yield f"{name}: seccompProfile"
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{name}: allowPrivilegeEscalation"
        if own.get("privileged"):
            yield f"{name}: privileged"
        capabilities = own.get("capabilities", {})
        if "ALL" not in capabilities.get("drop", []):
            yield f"{name}: capabilities.drop"
        if set(capabilities.get("add", [])) - {CAPABILITY}:
            yield f"{name}: capabilities.add"
        if any("hostPort" in port for port in container.get("ports", [])):
            yield f"{name}: hostPort"
        if own.get("procMount", "Default") != "Default":
            yield f"{name}: procMount"
