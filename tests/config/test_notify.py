"""Addresses in notices: those that people can open."""

import pytest

from multiview.config.notify import reached_by_people


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
