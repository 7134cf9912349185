"""Addresses in notices: those that people can open, and the address that is a secret."""

import pytest

from multiview.config.kubeflow import Notify, notified, reached_by_people


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


def test_an_address_that_is_a_secret_is_in_no_setting(monkeypatch):
    monkeypatch.delenv("MULTIVIEW_NOTIFY_URL", raising=False)
    assert notified(Notify()) is None
    monkeypatch.setenv("MULTIVIEW_NOTIFY_URL", "https://hooks.example.org/the-token")
    assert notified(Notify()) == "https://hooks.example.org/the-token"
    assert "the-token" not in Notify().model_dump_json()
    assert notified(Notify(url="http://host:1/a")) == "http://host:1/a", "a setting comes first"
