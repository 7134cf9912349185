"""What every object that is applied keeps to."""

import re
from collections import defaultdict
from typing import Any

import pytest
from mlflow.server.security_utils import is_allowed_host_header

from multiview.config.overrides import gather, merge, validate
from pipelines.kubeflow.connection import resolve_profile
from tests.fixtures.manifest_schemas import pod_of_workflow
from tests.fixtures.overlays import (
    BUILT,
    OVERLAYS,
    ROOT,
    amount,
    containers,
    every_pod,
    golden,
    name_of,
    of_kind,
    pods,
    profiles,
    secrets,
    strings,
)

ALL_PODS = every_pod()
CLUSTER_WIDE = {"Namespace"}
SERVERS = ("Deployment", "StatefulSet", "InferenceService")
BY_DIGEST = ("overlays/gke-prod", "argo", "serving/overlays/gke", "serving/overlays/kserve")
"""What names images by digest."""
OF_KUBEFLOW = {"kubeflow-pipelines-edit"}
"""Cluster roles that Kubeflow brings."""

Manifest = dict[str, Any]


@pytest.mark.parametrize(("manifest", "pod"), ALL_PODS)
def test_a_container_asks_for_what_it_needs(manifest, pod):
    for container in containers(pod):
        resources = container["resources"]
        assert set(resources["requests"]) >= {"cpu", "memory"}
        assert "memory" in resources["limits"]
        assert amount(resources["requests"]["memory"]) <= amount(resources["limits"]["memory"])


@pytest.mark.parametrize(("manifest", "pod"), ALL_PODS)
def test_what_serves_is_probed(manifest, pod):
    for container in pod["containers"]:
        assert ("ports" in container) == (manifest["kind"] in SERVERS)
        if "ports" in container:
            assert set(container) >= {"startupProbe", "readinessProbe", "livenessProbe"}


def test_mlflow_is_probed_where_no_host_header_is_checked():
    from mlflow.server.security_utils import HEALTH_ENDPOINTS

    for folder in OVERLAYS:
        (server,) = of_kind(folder, "Deployment")
        (container,) = server["spec"]["template"]["spec"]["containers"]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe]["httpGet"]["path"] in HEALTH_ENDPOINTS


@pytest.mark.parametrize("folder", BUILT)
def test_images_have_a_version_and_in_production_a_digest(folder):
    for _, pod in pods(folder):
        for container in containers(pod):
            image = container["image"]
            if folder in BY_DIGEST:
                assert re.fullmatch(r"[a-z0-9./-]+@sha256:[0-9a-f]{64}", image), image
            else:
                assert re.fullmatch(r"[a-z0-9./-]+:v?[0-9][\w.-]*", image), image
    for settings in of_kind("argo", "ConfigMap"):
        for name in ("MULTIVIEW_CPU_IMAGE", "MULTIVIEW_GPU_IMAGE"):
            assert re.search(r"@sha256:[0-9a-f]{64}$", settings["data"][name])


@pytest.mark.parametrize("folder", BUILT)
def test_secrets_are_references_that_the_guide_makes(folder):
    assert not of_kind(folder, "Secret")
    guide = (ROOT / "docs" / "cluster.md").read_text()
    for _, pod in pods(folder):
        for variable in [v for container in containers(pod) for v in container.get("env", [])]:
            if re.search("PASSWORD|SECRET|TOKEN|KEY|URI$", variable["name"]):
                assert "value" not in variable, variable
        for secret in secrets(pod):
            assert f"create secret generic {secret} " in guide
    for text in strings(golden(folder)):
        assert not re.search(r"://[^/\s]*:[^/\s]*@", text), "an address with a password"
        assert "PRIVATE KEY" not in text


@pytest.mark.parametrize("folder", BUILT)
def test_everything_has_its_namespace(folder):
    allowed = {"multiview", "kubeflow"} if folder == "overlays/kind" else {"multiview"}
    for manifest in golden(folder):
        if manifest["kind"] in CLUSTER_WIDE:
            assert "namespace" not in manifest["metadata"]
        else:
            assert manifest["metadata"]["namespace"] in allowed, manifest["metadata"]["name"]
    assert not {m["kind"] for m in golden(folder)} & {"ClusterRole", "ClusterRoleBinding"}


@pytest.mark.parametrize("folder", OVERLAYS)
def test_rights_are_named_and_go_to_accounts_that_are_there(folder):
    roles = {name_of(role): role for role in of_kind(folder, "Role")}
    accounts = {name_of(account) for account in of_kind(folder, "ServiceAccount")}
    for role in roles.values():
        for rule in role["rules"]:
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
            assert "secrets" not in rule["resources"] or rule["resourceNames"]
    for binding in of_kind(folder, "RoleBinding"):
        namespace = binding["metadata"]["namespace"]
        given = binding["roleRef"]
        assert (
            (namespace, given["name"]) in roles if given["kind"] == "Role" else given["name"] in OF_KUBEFLOW
        )
        for subject in binding["subjects"]:
            assert (subject["namespace"], subject["name"]) in accounts
            assert subject["namespace"] == namespace


@pytest.mark.parametrize("folder", OVERLAYS)
def test_steps_may_train_on_several_nodes(folder):
    """Where the pods of steps run, with what `multiview.training` does with a TrainJob."""
    (profile,) = profiles(folder).values()
    given = defaultdict(set)
    for role in of_kind(folder, "Role"):
        if name_of(role) == (profile["namespace"], "multiview-trainjobs"):
            for rule in role["rules"]:
                for resource in rule["resources"]:
                    given[resource] |= set(rule["verbs"])
    assert given == {
        "trainjobs": {"create", "get", "delete"},
        "pods": {"get", "list"},
    }


@pytest.mark.parametrize("folder", BUILT)
def test_what_is_referred_to_is_there(folder):
    applied = [manifest for other in {folder, "overlays/gke-prod"} for manifest in golden(other)]
    settings = {name_of(manifest) for manifest in applied if manifest["kind"] == "ConfigMap"}
    accounts = {name_of(manifest) for manifest in applied if manifest["kind"] == "ServiceAccount"}
    for manifest, pod in pods(folder):
        namespace = manifest["metadata"]["namespace"]
        assert (namespace, pod.get("serviceAccountName", "mlflow")) in accounts
        volumes = {volume["name"] for volume in pod.get("volumes", [])}
        volumes |= {v["metadata"]["name"] for v in manifest["spec"].get("volumeClaimTemplates", [])}
        for container in containers(pod):
            assert {mount["name"] for mount in container.get("volumeMounts", [])} <= volumes
        named = {v["configMap"]["name"] for v in pod.get("volumes", []) if "configMap" in v}
        assert {(namespace, name) for name in named} <= settings
        for container in containers(pod):
            for source in container.get("envFrom", []):
                if "configMapRef" in source:
                    assert (namespace, source["configMapRef"]["name"]) in settings


@pytest.mark.parametrize("folder", OVERLAYS)
def test_services_and_budgets_select_pods(folder):
    made = [
        manifest["spec"]["template"]["metadata"]["labels"].items()
        for manifest in of_kind(folder, "Deployment", "StatefulSet")
    ]
    for manifest in of_kind(folder, "Service", "PodDisruptionBudget"):
        selector = manifest["spec"]["selector"]
        wanted = selector.get("matchLabels", selector).items()
        assert sum(wanted <= labels for labels in made) == 1, manifest["metadata"]["name"]
    for manifest in of_kind(folder, "Service"):
        for port in manifest["spec"]["ports"]:
            assert port["targetPort"] in {
                open_port["name"]
                for _, pod in pods(folder)
                for container in pod["containers"]
                for open_port in container.get("ports", [])
            }


@pytest.mark.parametrize("folder", OVERLAYS)
def test_mlflow_has_no_sidecar(folder):
    """In a namespace of Kubeflow's Istio would give it one, which steps, that have none, need not reach."""
    (server,) = of_kind(folder, "Deployment")
    assert server["spec"]["template"]["metadata"]["labels"]["sidecar.istio.io/inject"] == "false"


@pytest.mark.parametrize("folder", OVERLAYS)
def test_servers_leave_room_in_the_quota(folder):
    (quota,) = of_kind(folder, "ResourceQuota")
    for what in ("cpu", "memory"):
        asked = sum(
            manifest["spec"].get("replicas", 1) * amount(container["resources"]["requests"][what])
            for manifest, pod in pods(folder)
            for container in pod["containers"]
        )
        assert asked <= amount(quota["spec"]["hard"][f"requests.{what}"]) / 2


@pytest.mark.parametrize("folder", ["overlays/gke-dev", "overlays/gke-prod"])
def test_the_quota_holds_the_scratch_volumes_of_the_document(folder):
    """On kind steps run in a namespace that has no quota of ours."""
    (scratch,) = re.findall(r"scratch: (\w+)", (ROOT / "docs" / "kubeflow.md").read_text(encoding="utf-8"))
    (quota,) = of_kind(folder, "ResourceQuota")
    hard = quota["spec"]["hard"]
    assert amount(hard["requests.storage"]) >= 2 * amount(scratch), "of two systems at once"
    assert int(hard["persistentvolumeclaims"]) >= int(hard["pods"]), "each pod may have one"


@pytest.mark.parametrize("folder", OVERLAYS)
def test_a_profile_names_what_its_overlay_makes(folder):
    (profile,) = profiles(folder).values()
    config = validate(profile["settings"]).kubeflow
    assert (profile["namespace"], config.service_account) in {
        name_of(account) for account in of_kind(folder, "ServiceAccount")
    }
    services = {
        f"{name}.{namespace}.svc.cluster.local:{port['port']}"
        for service in of_kind(folder, "Service")
        for namespace, name in [name_of(service)]
        for port in service["spec"]["ports"]
    }
    addresses = [config.mlflow_uri, *config.environment.values()]
    assert {a.removeprefix("http://") for a in addresses if a and a.startswith("http")} <= services
    (quota,) = of_kind(folder, "ResourceQuota")
    assert config.gpu.gpus <= int(quota["spec"]["hard"]["requests.nvidia.com/gpu"])
    assert amount(config.gpu.memory) <= amount(quota["spec"]["hard"]["requests.memory"])


@pytest.mark.parametrize("folder", OVERLAYS)
def test_mlflow_answers_by_the_name_that_steps_use(folder):
    (profile,) = profiles(folder).values()
    host = profile["settings"]["kubeflow"]["mlflow_uri"].removeprefix("http://")
    (settings,) = [m for m in of_kind(folder, "ConfigMap") if m["metadata"]["name"] == "mlflow"]
    allowed = settings["data"]["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    assert is_allowed_host_header(allowed, host)
    assert is_allowed_host_header(allowed, "localhost:5000")
    assert not is_allowed_host_header(allowed, "rebound.example.org:5000")
    assert (
        settings["data"]["MLFLOW_ARTIFACTS_DESTINATION"].rpartition("/")[0]
        == profile["store"].rpartition("/")[0]
    )


def test_production_survives_a_node():
    (server,) = of_kind("overlays/gke-prod", "Deployment")
    (budget,) = of_kind("overlays/gke-prod", "PodDisruptionBudget")
    assert server["spec"]["replicas"] > budget["spec"]["maxUnavailable"]


def test_the_schedule_submits_what_this_library_has():
    (schedule,) = of_kind("argo", "CronWorkflow")
    (container,) = pod_of_workflow(schedule)["spec"]["containers"]
    assert container["command"] == ["python", "-m", "pipelines", "submit", "refresh"]
    options = [tuple(argument.removeprefix("--").split("=", 1)) for argument in container["args"]]
    named = dict(option for option in options if len(option) == 2 and option[0] != "set")
    settings = [option[1] for option in options if option[0] == "set"]
    validate(gather(named.get("preset"), settings))
    assert schedule["spec"]["concurrencyPolicy"] == "Forbid"
    token = {m["name"]: m["mountPath"] for m in container["volumeMounts"]}["kubeflow-token"]
    (settings_of_runner,) = of_kind("argo", "ConfigMap")
    assert settings_of_runner["data"]["KF_PIPELINES_SA_TOKEN_PATH"] == f"{token}/token"


def test_the_schedule_submits_with_the_overlay_s_profile(monkeypatch, tmp_path):
    """Its settings are those that a person's run has; of the connection it has its own way to Kubeflow."""
    (schedule,) = of_kind("argo", "CronWorkflow")
    pod = pod_of_workflow(schedule)["spec"]
    (container,) = pod["containers"]
    (environment,) = [settings["data"] for settings in of_kind("argo", "ConfigMap")]
    (volume,) = [v["name"] for v in pod["volumes"] if v.get("configMap") == {"name": "multiview-profile"}]
    (mounted,) = [m["mountPath"] for m in container["volumeMounts"] if m["name"] == volume]
    (shipped,) = [m for m in of_kind("overlays/gke-prod", "ConfigMap") if "profile" in name_of(m)[1]]
    for name, content in shipped["data"].items():
        (tmp_path / name).write_text(content)
    folder, _, file = environment["MULTIVIEW_PROFILES"].rpartition("/")
    assert folder == mounted
    monkeypatch.setenv("MULTIVIEW_PROFILES", str(tmp_path / file))
    profile = resolve_profile(None, {"host": environment["KF_PIPELINES_ENDPOINT"]})
    options = [argument.removeprefix("--set=") for argument in container["args"] if "--set=" in argument]
    found = validate(merge(profile.settings, gather(None, options)))
    (declared,) = profiles("overlays/gke-prod").values()
    assert found.kubeflow == validate(declared["settings"]).kubeflow
    assert found.kubeflow.gpu.retries == 5 and found.kubeflow.mlflow_uri and found.kubeflow.gpu.node_selector
    assert (profile.namespace, profile.store) == (declared["namespace"], declared["store"])
    assert not any(name in environment for name in ("MULTIVIEW_STORE", "KFP_NAMESPACE"))


@pytest.mark.parametrize("folder", OVERLAYS)
def test_who_starts_runs_may_use_their_service_account(folder):
    """As KFP 2.18 asks with several users."""
    accounts = {profile["settings"]["kubeflow"]["service_account"] for profile in profiles(folder).values()}
    (role,) = (each for each in of_kind(folder, "Role") if each["metadata"]["name"] == "multiview-runner")
    (rule,) = (rule for rule in role["rules"] if "use" in rule["verbs"])
    assert (rule["apiGroups"], rule["resources"]) == ([""], ["serviceaccounts"])
    assert set(rule["resourceNames"]) == accounts == {"multiview-steps"}
