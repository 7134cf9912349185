from tests.lineage.conftest import made
from tests.lineage.conftest import world as copied_run
from tests.serving.conftest import world

__all__ = ["copied_run", "made", "world"]
