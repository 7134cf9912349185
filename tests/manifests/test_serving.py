"""`manifests/serving`: the server's pods, who may ask them, and that they may write nothing."""

import re
import shlex
from typing import Any

import pytest
import typer
import yaml

from multiview import environment
from multiview.cli.app import app
from multiview.serving.limits import Limits
from tests.fixtures.bucket import ENVIRONMENT
from tests.fixtures.overlays import BUILT, ROOT, build, golden, needs_kustomize, of_kind, pods, profiles

GKE, KSERVE = SERVING = ("serving/overlays/gke", "serving/overlays/kserve")
READER = "multiview-reader"
NAMED = {"app.kubernetes.io/name": "multiview-serving"}
OF_GCSFS = "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT"
METADATA_SERVERS = {"169.254.169.252/32", "169.254.169.254/32"}
"""Where GKE gives pods their tokens."""
GUIDE = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")

Manifest = dict[str, Any]


def pod_of(folder: str) -> Manifest:
    ((_, pod),) = pods(folder)
    return pod


def container_of(folder: str) -> Manifest:
    (container,) = pod_of(folder)["containers"]
    return container


def one(folder: str, kind: str) -> Manifest:
    (manifest,) = of_kind(folder, kind)
    return manifest


def labels_of_pods(folder: str) -> dict[str, str]:
    """KServe gives its pods the labels of the InferenceService."""
    if folder == KSERVE:
        return one(folder, "InferenceService")["metadata"]["labels"]
    return one(folder, "Deployment")["spec"]["template"]["metadata"]["labels"]


def options() -> dict[str, Any]:
    """The parameters of `multiview serve`, by name."""
    serve = typer.main.get_command(app).commands["serve"]  # pyright: ignore[reportAttributeAccessIssue]
    return {parameter.name: parameter for parameter in serve.params}


@pytest.mark.parametrize("folder", SERVING)
def test_its_words_are_those_of_the_command(folder):
    container = container_of(folder)
    assert container["command"][:2] == ["sh", "-c"] and len(container["command"]) == 4
    assert container["command"][2].endswith('&& exec multiview serve "$@"'), "signals reach the server"
    serve = typer.main.get_command(app).commands["serve"]  # pyright: ignore[reportAttributeAccessIssue]
    parsed = serve.make_context("serve", [*container["args"]]).params  # refuses an unknown option
    assert (parsed["host"], parsed["timeout"]) == ("0.0.0.0", Limits().timeout)
    (port,) = container["ports"]
    assert (port["name"], port["containerPort"]) == ("http", options()["port"].default)
    named = {variable["name"]: variable for variable in container["env"]}
    assert set(named) == {environment.STORE, environment.PROCESSORS, OF_GCSFS}
    assert named[OF_GCSFS]["value"] == ENVIRONMENT[OF_GCSFS], "as where the pod's command is tested"
    assert named[environment.STORE]["value"] == profiles("overlays/gke-prod")["default"]["store"]


@pytest.mark.parametrize("folder", SERVING)
def test_keys_are_in_the_file_that_it_is_told(folder):
    container, pod = container_of(folder), pod_of(folder)
    (given,) = [word.removeprefix("--api-keys=") for word in container["args"] if "--api-keys" in word]
    volume = next(v for v in pod["volumes"] if "secret" in v)
    mount = next(m for m in container["volumeMounts"] if m["name"] == volume["name"])
    (item,) = volume["secret"]["items"]
    assert mount["readOnly"] and given == f"{mount['mountPath']}/{item['path']}"
    (made,) = [line for line in GUIDE.splitlines() if f"generic {volume['secret']['secretName']} " in line]
    assert f"--from-file={item['key']}" in shlex.split(made)


@pytest.mark.parametrize("folder", SERVING)
def test_it_has_time_to_start_and_to_end(folder):
    container, pod = container_of(folder), pod_of(folder)
    (_, pause) = container["lifecycle"]["preStop"]["exec"]["command"]
    assert pod["terminationGracePeriodSeconds"] > int(pause) + round(Limits().timeout) + 1
    probe = container["startupProbe"]
    seconds = probe["periodSeconds"] * probe["failureThreshold"]
    assert seconds >= 1800
    if folder == GKE:
        assert one(folder, "Deployment")["spec"]["progressDeadlineSeconds"] > seconds


@pytest.mark.parametrize("folder", SERVING)
def test_copies_of_the_store_have_a_volume_that_is_the_user_s(folder):
    container, pod = container_of(folder), pod_of(folder)
    (volume,) = [v for v in pod["volumes"] if v["name"] == "scratch"]
    assert volume["ephemeral"]["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"]
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsUser"]
    (mounted,) = [m["mountPath"] for m in container["volumeMounts"] if m["name"] == "scratch"]
    image = (ROOT / "images" / "cpu" / "Dockerfile").read_text()
    assert f"{environment.SCRATCH}={mounted} " in image and f"TMPDIR={mounted} " in image


@pytest.mark.parametrize("folder", SERVING)
def test_what_selects_pods_selects_these(folder):
    """A selector that is empty selects all pods of the namespace."""
    selectors = [
        one(folder, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one(folder, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        *(c["labelSelector"]["matchLabels"] for c in pod_of(folder)["topologySpreadConstraints"]),
        *(service["spec"]["selector"] for service in of_kind(folder, "Service")),
        *(made["spec"]["selector"]["matchLabels"] for made in of_kind(folder, "Deployment")),
    ]
    assert all(selector == NAMED for selector in selectors)
    assert NAMED.items() <= labels_of_pods(folder).items()
    others = [
        made["spec"]["template"]["metadata"]["labels"]
        for other in set(BUILT) - {*SERVING}
        for made in of_kind(other, "Deployment", "StatefulSet")
    ]
    assert others and not any(NAMED.items() <= labels.items() for labels in others)


def test_a_pod_may_go_while_another_one_answers():
    scaled, made = one(GKE, "HorizontalPodAutoscaler")["spec"], one(GKE, "Deployment")
    assert (scaled["scaleTargetRef"]["kind"], scaled["scaleTargetRef"]["name"]) == (
        "Deployment",
        made["metadata"]["name"],
    )
    assert scaled["minReplicas"] > one(GKE, "PodDisruptionBudget")["spec"]["minAvailable"] >= 1
    assert "replicas" not in made["spec"], "to apply it again would undo what the autoscaler did"
    assert made["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"] == 0


@pytest.mark.parametrize("folder", SERVING)
def test_who_asks_and_what_is_reached_is_named(folder):
    policy = one(folder, "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    (entry,) = policy["ingress"]
    assert [port["port"] for port in entry["ports"]] == ["http"]
    (peer,) = entry["from"]
    (namespaces,) = peer["namespaceSelector"]["matchExpressions"]
    assert (namespaces["key"], namespaces["operator"]) == ("kubernetes.io/metadata.name", "In")
    for way in policy["egress"]:
        addresses = {peer["ipBlock"]["cidr"] for peer in way.get("to", [])}
        assert addresses <= METADATA_SERVERS
        assert addresses or {port["port"] for port in way["ports"]} <= {53, 443}


@pytest.mark.parametrize("folder", SERVING)
def test_its_account_has_no_rights_in_the_cluster(folder):
    pod, account = pod_of(folder), one(folder, "ServiceAccount")
    assert pod["serviceAccountName"] == account["metadata"]["name"] == READER
    assert pod["automountServiceAccountToken"] is False is account["automountServiceAccountToken"]
    google = account["metadata"]["annotations"]["iam.gke.io/gcp-service-account"]
    assert google == f"{READER}@my-project.iam.gserviceaccount.com"
    for other in BUILT:
        for binding in of_kind(other, "RoleBinding", "ClusterRoleBinding"):
            assert READER not in [subject["name"] for subject in binding["subjects"]]
        for manifest in of_kind(other, "ServiceAccount"):
            same = manifest["metadata"].get("annotations", {}).get("iam.gke.io/gcp-service-account") == google
            assert not same or manifest["metadata"]["name"] == READER


def test_its_account_has_no_role_at_google_but_a_reader_s():
    """The guide gives it two: what it may do in the store's folder, and who may be it."""
    commands = GUIDE.replace("\\\n", " ")
    given = [line for line in commands.splitlines() if line.startswith("gcloud ") and f"{READER}@" in line]
    roles = [role for line in given for role in re.findall(r"--role (\S+)", line)]
    assert roles == ["roles/storage.objectViewer", "roles/iam.workloadIdentityUser"]
    (store,) = re.findall(r"managed-folders add-iam-policy-binding (\S+)", given[0])
    assert store == profiles("overlays/gke-prod")["default"]["store"]
    assert f"[multiview/{READER}]" in given[-1]


def test_kserve_s_pod_is_the_same():
    """But for the container's name, by which KServe knows it, and a limit that KServe would set otherwise."""
    service, expected = one(KSERVE, "InferenceService"), pod_of(GKE)
    (container,) = expected["containers"]
    limits = {**container["resources"]["limits"], "cpu": "4"}
    container = {**container, "name": "kserve-container"}
    container["resources"] = {**container["resources"], "limits": limits}
    assert pod_of(KSERVE) == {**expected, "containers": [container]}
    predictor, scaled = service["spec"]["predictor"], one(GKE, "HorizontalPodAutoscaler")["spec"]
    assert (predictor["minReplicas"], predictor["maxReplicas"]) == (scaled["minReplicas"], scaled["maxReplicas"])  # fmt: skip
    assert predictor["scaleTarget"] == scaled["metrics"][0]["resource"]["target"]["averageUtilization"]
    of_deployment = one(GKE, "Deployment")["spec"]["template"]["metadata"]
    assert of_deployment["annotations"].items() <= service["metadata"]["annotations"].items()
    assert of_deployment["labels"].items() <= service["metadata"]["labels"].items()


def test_kserve_makes_what_it_makes_itself():
    assert {manifest["kind"] for manifest in golden(GKE)} - {manifest["kind"] for manifest in golden(KSERVE)} == {
        "Deployment",
        "Service",
        "HorizontalPodAutoscaler",
    }  # fmt: skip


@needs_kustomize
def test_without_the_component_everybody_may_ask(copied):
    """An overlay that leaves it out has neither the option nor the secret, for which its pods would wait."""
    overlay = copied / GKE / "kustomization.yaml"
    settings = yaml.safe_load(overlay.read_text())
    assert settings.pop("components") == ["../../components/api-keys"]
    overlay.write_text(yaml.safe_dump(settings))
    assert "api-keys" not in yaml.safe_dump_all(build(GKE))
