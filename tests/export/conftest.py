from tests.fixtures.refreshed_corpora import corpus
from tests.fixtures.system_indexes import indexes

__all__ = ["corpus", "indexes"]
