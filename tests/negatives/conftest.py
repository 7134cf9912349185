from tests.fixtures.retrieval_run import retrieval

__all__ = ["retrieval"]
