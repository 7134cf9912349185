from tests.fixtures.evaluated_run import copied_run

__all__ = ["copied_run"]
