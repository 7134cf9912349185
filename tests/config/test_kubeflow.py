"""Addresses in notices: those that people can open, and the address that is a secret."""

import pytest

from multiview.config.kubeflow import Notify, notified, reached_by_people
from multiview.config.overrides import validate
from multiview.errors import InputError


@pytest.mark.parametrize(
    ("address", "reached"),
    [
        ("https://mlflow.example.org", True),
        ("http://127.0.0.1:5000", True),
        ("http://mlflow:5000", False),
        ("http://mlflow.mlflow.svc:5000", False),
        ("http://mlflow.mlflow.svc.cluster.local:5000", False),
        ("sqlite:///mlflow.db", False),
        ("", False),
        (None, False),
    ],
)
def test_an_address_in_a_cluster_is_no_page(address, reached):
    assert reached_by_people(address) == (address if reached else None)


@pytest.mark.parametrize("pod", ["cpu", "gpu"])
@pytest.mark.parametrize(
    ("memory", "enough"),
    [
        *(("64", False), (64, False), ("65535Ki", False), ("1.5Gi", False), ("0Gi", False)),
        *(("64Mi", True), ("68M", True), ("1G", True), ("2Ti", True)),
    ],
)
def test_memory_that_no_step_runs_in_is_refused(pod, memory, enough):
    if enough:
        assert getattr(validate({"kubeflow": {pod: {"memory": memory}}}).kubeflow, pod).memory == memory
    else:
        with pytest.raises(
            InputError,
            match=rf"^kubeflow.{pod}.memory: expected a whole number of a unit.*, not '?{memory}'?$",
        ):
            validate({"kubeflow": {pod: {"memory": memory}}})


def test_a_pod_has_a_minute():
    with pytest.raises(InputError, match="^kubeflow.cpu.timeout_hours: "):
        validate({"kubeflow": {"cpu": {"timeout_hours": 0.0001}}})


def test_an_address_that_is_a_secret_is_in_no_setting(monkeypatch):
    monkeypatch.delenv("MULTIVIEW_NOTIFY_URL", raising=False)
    assert notified(Notify()) is None
    monkeypatch.setenv("MULTIVIEW_NOTIFY_URL", "https://hooks.example.org/the-token")
    assert notified(Notify()) == "https://hooks.example.org/the-token"
    assert "the-token" not in Notify().model_dump_json()
    assert notified(Notify(url="http://host:1/a")) == "http://host:1/a", "a setting comes first"
