"""An MLflow database, and what it holds after one uninterrupted shipping."""

import pytest

from multiview import tracking
from tests.fixtures.reported_run import ReportedRun
from tests.fixtures.servers import new_database


@pytest.fixture(scope="session")
def uri(tmp_path_factory) -> str:
    return new_database(tmp_path_factory.mktemp("mlflow"))


@pytest.fixture(scope="session")
def expected(tmp_path_factory, uri) -> dict:
    """What MLflow holds after one uninterrupted shipping."""
    reported = ReportedRun(tmp_path_factory.mktemp("expected"), uri, "expected")
    reported.report_all()
    assert tracking.ship(reported.store, reported.run.id, uri)
    return reported.seen()
