from tests.fixtures.refreshed_corpora import corpus

__all__ = ["corpus"]
