from tests.fixtures.base_model import base, one_thread

__all__ = ["base", "one_thread"]
