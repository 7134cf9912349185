from tests.lineage.conftest import made
from tests.serving.conftest import world

__all__ = ["made", "world"]
