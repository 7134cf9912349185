"""One tiny base model for all tests of this folder."""

from pathlib import Path

import pytest
import torch

from tests.tiny import tiny_bert


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """So small a model is faster on one thread, much so where cores are shared."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tiny BERT."""
    return tiny_bert(tmp_path_factory.mktemp("base") / "bert")
