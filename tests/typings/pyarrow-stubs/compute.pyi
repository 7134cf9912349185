# pyarrow.compute defines its functions when it is imported, where a type checker does not see them.
from typing import Any

def __getattr__(name: str) -> Any: ...
