from tests.fixtures.evaluated_run import copied_run, evaluated_run
from tests.fixtures.system_indexes import indexes as system_indexes

__all__ = ["copied_run", "evaluated_run", "system_indexes"]
