from tests.fixtures.base_model import base, one_thread
from tests.fixtures.refreshed_corpora import corpus
from tests.fixtures.system_indexes import indexes

__all__ = ["base", "corpus", "indexes", "one_thread"]
