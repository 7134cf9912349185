from tests.fixtures.base_model import one_thread

__all__ = ["one_thread"]
