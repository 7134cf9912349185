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
def test_memory_that_no_step_runs_in_is_refused_and_a_pod_has_a_minute(pod):
    for memory in ("64Mi", "68M", "1G", "2Ti"):
        assert getattr(validate({"kubeflow": {pod: {"memory": memory}}}).kubeflow, pod).memory == memory
    for memory in ("64", 64, "65535Ki", "1.5Gi", "0Gi"):
        line = rf"^kubeflow.{pod}.memory: expected a whole number of a unit.*, not '?{memory}'?$"
        with pytest.raises(InputError, match=line):
            validate({"kubeflow": {pod: {"memory": memory}}})
    with pytest.raises(InputError, match=rf"^kubeflow.{pod}.timeout_hours: "):
        validate({"kubeflow": {pod: {"timeout_hours": 0.0001}}})


def test_an_address_that_is_a_secret_is_in_no_setting(monkeypatch):
    monkeypatch.delenv("MULTIVIEW_NOTIFY_URL", raising=False)
    assert notified(Notify()) is None
    monkeypatch.setenv("MULTIVIEW_NOTIFY_URL", "https://hooks.example.org/the-token")
    assert notified(Notify()) == "https://hooks.example.org/the-token"
    assert "the-token" not in Notify().model_dump_json()
    assert notified(Notify(url="http://host:1/a")) == "http://host:1/a", "a setting comes first"
