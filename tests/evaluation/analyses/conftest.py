import pytest

from tests.fixtures.analysed_model import AnalysedModel


@pytest.fixture(scope="session")
def camvr(tmp_path_factory):
    """A model whose views are means of their snippets; none is padding."""
    return AnalysedModel(
        tmp_path_factory.mktemp("camvr"), architecture="camvr", pooling="snippet", normalise=True
    )


@pytest.fixture(scope="session")
def unpadded(tmp_path_factory):
    """The paper's viewer tokens, padding views left out of the index."""
    return AnalysedModel(tmp_path_factory.mktemp("unpadded"), architecture="camvr")


@pytest.fixture(scope="session")
def padded(tmp_path_factory):
    """Sums of viewer tokens and snippets' means, the title apart; padding views are indexed."""
    settings = {"pooling": "both", "normalise": True, "merge_title": False}
    return AnalysedModel(tmp_path_factory.mktemp("padded"), padding=True, architecture="camvr", **settings)


@pytest.fixture(scope="session")
def dpr(tmp_path_factory):
    """A model with one view per passage."""
    return AnalysedModel(tmp_path_factory.mktemp("dpr"), architecture="dpr")
