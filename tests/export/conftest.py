from tests.fixtures.system_indexes import indexes

__all__ = ["indexes"]
