from tests.lineage.conftest import copied_run, evaluated_run
from tests.serving.conftest import indexes as system_indexes

__all__ = ["copied_run", "evaluated_run", "system_indexes"]
