"""Files to split."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fixtures.split_run import small_files


@pytest.fixture
def files(tmp_path: Path) -> SimpleNamespace:
    return small_files(tmp_path)
