import pytest

import multiview
from multiview.serving.follow import Generation, Generations
from multiview.serving.retriever import Retriever
from multiview.serving.search_service import Serving
from tests.fixtures.answering_server import answering


@pytest.fixture(scope="module")
def loaded(indexes) -> Retriever:
    return multiview.load(indexes.index("camvr"))


@pytest.fixture(scope="module")
def client(loaded):
    with answering(Serving(Generations(Generation(loaded)))) as client:
        yield client
