import shutil
from pathlib import Path

import pytest

from tests.fixtures import overlays


@pytest.fixture
def copied(tmp_path, monkeypatch) -> Path:
    """A copy of `manifests/` to change, which is what is built."""
    shutil.copytree(overlays.MANIFESTS, tmp_path / "manifests")
    monkeypatch.setattr(overlays, "MANIFESTS", tmp_path / "manifests")
    return tmp_path / "manifests"
