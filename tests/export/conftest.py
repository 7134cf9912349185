from tests.fixtures.base_model import one_thread
from tests.fixtures.crowned import crowned
from tests.fixtures.refreshed_corpora import corpus

__all__ = ["corpus", "crowned", "one_thread"]
