"""Objects against the schemas of their kinds: Kubernetes' own, and those in `schemas/` for custom resources."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate

KUBERNETES = "1.33"
"""The oldest version that we mean to run on."""
SCHEMAS = Path(__file__).parent / "schemas"


def validate(manifest: dict[str, Any]) -> None:
    """Raises jsonschema.ValidationError for an object that its kind does not allow, unknown fields included."""
    group = manifest["apiVersion"].partition("/")[0]
    own = SCHEMAS / f"{manifest['kind'].lower()}.{group}.json"
    if not own.exists():
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)
        return
    jsonschema.Draft202012Validator(json.loads(own.read_text())).validate(manifest)
    if manifest["kind"] == "CronWorkflow":
        validate(pod_of_workflow(manifest))


def pod_of_workflow(manifest: dict[str, Any]) -> dict[str, Any]:
    """A Pod with what Argo passes on to its pods: containers, volumes, security. Argo takes them as
    Kubernetes defines them."""
    workflow = manifest["spec"]["workflowSpec"]
    containers = [
        {"name": template["name"], **template["container"]}
        for template in workflow["templates"]
        if "container" in template
    ]
    passed = ("serviceAccountName", "securityContext", "volumes", "nodeSelector", "tolerations")
    spec = {name: workflow[name] for name in passed if name in workflow}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": manifest["metadata"]["name"]},
        "spec": {**spec, "containers": containers},
    }
