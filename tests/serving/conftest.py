import pytest

import multiview
from multiview.serving.retriever import Retriever
from tests.fixtures.answering_server import answering, of_one
from tests.fixtures.crowned import crowned

__all__ = ["crowned"]


@pytest.fixture(scope="module")
def loaded(indexes) -> Retriever:
    return multiview.load(indexes.index("camvr"))


@pytest.fixture(scope="module")
def client(loaded):
    with answering(of_one(loaded)) as client:
        yield client


class Failing(Retriever):
    """Fails at one question, with an error that repeats it."""

    PLANTED = "Whose zebra drinks lamp oil at Xyzzy?"

    def search(self, questions, k=10, *, explain=False, where=None):
        if self.PLANTED in questions:
            raise RuntimeError(f"cannot encode {questions[0]}")
        return super().search(questions, k, explain=explain, where=where)


@pytest.fixture
def failing(indexes) -> Failing:
    retriever = multiview.load(indexes.index("camvr"))
    retriever.__class__ = Failing
    assert isinstance(retriever, Failing)
    return retriever
