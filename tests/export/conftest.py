from tests.fixtures.base_model import one_thread
from tests.fixtures.refreshed_corpora import corpus

__all__ = ["corpus", "one_thread"]
