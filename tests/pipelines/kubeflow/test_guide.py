"""docs/kubeflow.md and the first runs of docs/cluster.md: their commands are run, with its profile, and its lines are those that are printed."""

import re
from pathlib import Path

import fsspec
import pytest
import yaml
from kfp.kubernetes import kubernetes_executor_config_pb2

from multiview.config.overrides import gather, validate
from pipelines.kubeflow.connection import resolve_profile
from pipelines.kubeflow.pod_template import FS_GROUP
from pipelines.kubeflow.pods import Pods
from pipelines.kubeflow.schedules import read_schedules
from pipelines.kubeflow.versions import VERSIONS
from tests.fixtures.compiled import compiled_file
from tests.fixtures.project import ROOT
from tests.fixtures.split_run import passage_rows, question_rows, write

DOCUMENT = (ROOT / "docs" / "kubeflow.md").read_text(encoding="utf-8")
PROFILES, SHARED, SCHEDULES, NOTIFY = (
    yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```", DOCUMENT, re.M | re.S)
)


def profile_of(written: dict, kubeflow, monkeypatch, folder: Path) -> dict:
    """The user's profile: one that is written somewhere, but for the address. A run that is looked at has succeeded."""
    profile = {name: value for name, value in written.items() if name != "kube_context"}
    profile["host"] = kubeflow.url
    (folder / "profiles.yaml").write_text(yaml.safe_dump({"default": profile}))
    monkeypatch.setenv("MULTIVIEW_PROFILES", str(folder / "profiles.yaml"))
    for module in ("follow", "submission"):
        monkeypatch.setattr(f"pipelines.kubeflow.{module}.readable", lambda store: None)
    kubeflow.on_run = lambda run: setattr(run, "state", "SUCCEEDED")
    return profile


@pytest.mark.documented(
    "python -m pipelines submit ", "python -m pipelines schedule ", document="kubeflow.md"
)
def test_every_command_of_the_document_is_run(documented_lines, kubeflow, command, monkeypatch, tmp_path):
    """With the document's own profile."""
    profile = profile_of(PROFILES["default"], kubeflow, monkeypatch, tmp_path)
    (tmp_path / "manifests").symlink_to(ROOT / "manifests")
    kubeflow.namespaces = (profile["namespace"],)
    assert len(documented_lines) > 5
    for line in documented_lines:
        command(line.removeprefix("python -m pipelines "))
    assert {run.service_account for run in kubeflow.runs.values()} == {"multiview-steps"}
    assert not kubeflow.recurring, "made, listed and deleted"


GUIDE = (ROOT / "docs" / "cluster.md").read_text(encoding="utf-8")
FIRST_RUNS = re.findall(r"MULTIVIEW_PROFILES=(\S+)(?:\n.*?)*?\n(python -m pipelines .*)", GUIDE)


@pytest.mark.documented("python -m pipelines submit ", document="cluster.md")
def test_the_first_runs_of_the_guide_start(documented, kubeflow, command, monkeypatch, tmp_path):
    """With the overlay's own profile; files in a bucket of this process's memory."""
    file = next((file for file, line in FIRST_RUNS if line == documented), FIRST_RUNS[0][0])
    written = yaml.safe_load((ROOT / file).read_text())["default"]
    profile = profile_of(written, kubeflow, monkeypatch, tmp_path)
    monkeypatch.setattr("multiview.model.base_model.hub.commit_of", lambda name: "0" * 40)
    # Compiled earlier, which takes its time.
    monkeypatch.setattr(
        "pipelines.kubeflow.compile.compile_request",
        lambda request, target, *others: compiled_file(request.plan.name, target),
    )
    memory = fsspec.filesystem("memory")
    passages, asked = passage_rows(20), question_rows("t", 20, 20)
    for name, rows in (("passages.parquet", passages), ("questions.jsonl", asked)):
        write(tmp_path / name, rows)
        memory.pipe(f"/files/{name}", (tmp_path / name).read_bytes())
    one_user = "kind" in file  # whose namespace is Kubeflow's own
    kubeflow.namespaces = () if one_user else (profile["namespace"],)
    command(documented.removeprefix("python -m pipelines ").replace("gs://BUCKET/", "memory://files/"))
    (run,) = kubeflow.runs.values()
    assert run.service_account == "multiview-steps"
    assert run.runtime_config.parameters["store"] == profile["store"]


def test_the_guide_has_a_first_run_for_each_way():
    assert len(FIRST_RUNS) == 2 and all("submit" in line for _, line in FIRST_RUNS)


SCRATCH = GUIDE.partition("## Retries and scratch volumes")[2].partition("\n## ")[0]
SETTINGS, POLICY = re.findall(r"^```yaml\n(.*?)^```", SCRATCH, re.M | re.S)
LEFT_OUT = re.search(r"On (2\.\d+) and (2\.\d+) leave `templateDefaults\.securityContext` out", SCRATCH)
BROUGHT = r"^( *)\S.* # what (2\.\d+) brings; leave it out before$"


def workflow_defaults(version: str) -> dict:
    """The `spec` that the guide tells the operators of a version to set: without the lines that it leaves out."""
    lines, left_out = [], None  # the indentation of a setting that is left out
    for line in SETTINGS.splitlines():
        indent = len(line) - len(line.lstrip())
        if left_out is not None and indent > left_out:
            continue
        brought = re.match(BROUGHT, line)
        left_out = indent if brought and version < brought[2] else None
        if left_out is None:
            lines.append(line)
    spec = yaml.safe_load(yaml.safe_load("\n".join(lines))["data"]["workflowDefaults"])["spec"]
    assert LEFT_OUT
    if version in LEFT_OUT.groups():
        del spec["templateDefaults"]["securityContext"]
    return spec


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_guide_tells_operators_to_set_gives_steps_their_volume(version):
    """KFP gives the template of a step a security context of its own since 2.16; Argo takes that of the template, over
    its defaults field by field, or else that of the workflow. What is retried: test_retries.py."""
    spec = workflow_defaults(version)
    assert ("ttlStrategy" in spec) == (version >= "2.17"), "which the settings replace whole"
    if version < "2.16":
        template, workflow = {}, {"runAsUser": 1000}
    else:
        template, workflow = {"seccompProfile": {"type": "RuntimeDefault"}}, {"runAsNonRoot": True}
    template = {**spec["templateDefaults"].get("securityContext", {}), **template}
    effective = template or {**spec["securityContext"], **workflow}
    assert effective["fsGroup"] == FS_GROUP
    assert effective.keys() - {"fsGroup"} == ({"runAsUser"} if version < "2.16" else {"seccompProfile"})


def test_the_policy_gives_steps_their_volume_and_leaves_other_pods_alone():
    (rule,) = yaml.safe_load(POLICY)["spec"]["rules"]
    assert rule["mutate"]["patchStrategicMerge"] == {"spec": {"securityContext": {"+(fsGroup)": FS_GROUP}}}
    (match,) = rule["match"]["any"]
    assert match["resources"]["selector"] == {"matchLabels": {"pipelines.kubeflow.org/v2_component": "true"}}


def test_no_version_of_kfp_knows_the_group_of_a_volume_or_a_priority_class():
    """Or the guide's ways round would be needless."""
    messages = kubernetes_executor_config_pb2.DESCRIPTOR.message_types_by_name
    assert sorted(messages["SecurityContext"].fields_by_name) == [
        "run_as_group", "run_as_non_root", "run_as_user"
    ]  # fmt: skip
    assert not [name for each in messages.values() for name in each.fields_by_name if "priority" in name]


PRIORITIES = GUIDE.partition("## Priorities")[2].partition("\n## ")[0]


def test_the_policy_of_priorities_gives_a_pod_the_class_that_its_label_names():
    """Kubernetes works out a priority before policies and once more after them, and refuses another than the class's."""
    rule_text, labels_text = re.findall(r"^```yaml\n(.*?)^```", PRIORITIES, re.M | re.S)
    (rule,) = yaml.safe_load(rule_text)["spec"]["rules"]
    (match,) = rule["match"]["any"]
    ((label, wanted),) = Pods(validate(yaml.safe_load(labels_text))).pod("train").labels.items()
    assert match["resources"]["selector"] == {"matchExpressions": [{"key": label, "operator": "Exists"}]}
    patch = rule["mutate"]["patchesJson6902"]
    asked = f'{{{{ request.object.metadata.labels."{label}" }}}}'
    assert yaml.safe_load(patch.replace(asked, wanted)) == [
        {"op": "add", "path": "/spec/priorityClassName", "value": wanted},
        {"op": "remove", "path": "/spec/priority"},
        {"op": "remove", "path": "/spec/preemptionPolicy"},
    ]


def test_the_blocks_of_settings_are_settings(monkeypatch, tmp_path):
    (tmp_path / "profiles.yaml").write_text(yaml.safe_dump(PROFILES))
    monkeypatch.setenv("MULTIVIEW_PROFILES", str(tmp_path / "profiles.yaml"))
    assert [resolve_profile(name, {}).host for name in PROFILES] == [p["host"] for p in PROFILES.values()]
    pods = Pods(validate(SHARED))
    assert (pods.pod("index").scratch, pods.pod("encode").priority_class) == ("1Ti", "nightly")
    Path("nightly.yaml").write_text(yaml.safe_dump(SCHEDULES))
    (schedule,) = read_schedules(Path("nightly.yaml")).schedules
    named = SCHEDULES["schedules"][0].keys() - {"time_zone", "enabled"}
    assert schedule.model_dump(exclude_defaults=True).keys() == named
    Path("notify.yaml").write_text(yaml.safe_dump(NOTIFY))
    assert gather("notify.yaml", []) == NOTIFY


FAILURES = DOCUMENT.partition("## What failures look like")[2].partition("**A lost pod.**")[0]


def test_the_failures_have_these_words():
    library = (
        "plans/parameters",
        "plans/pod_settings",
        "artifacts/servers",
        "kubeflow/component",
        "kubeflow/run",
    )
    places = [
        *sorted((ROOT / "pipelines").rglob("*.py")),
        *(ROOT / "src" / "multiview" / f"{name}.py" for name in library),
        *(ROOT / "src" / "multiview" / "steps" / "backends").glob("*.py"),
    ]
    source = "".join(path.read_text() for path in places)
    source = re.sub(r'"\s*f?"', "", source).replace("answers {error.status}", "answers 5")
    told = re.findall(r"^\| `(.*?)` \|", FAILURES, re.M)
    assert len(told) > 5 and not [words for words in told if words not in source]
