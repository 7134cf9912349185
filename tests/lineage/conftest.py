from tests.fixtures.evaluated_run import copied_run, evaluated_run

__all__ = ["copied_run", "evaluated_run"]
