"""The type of faiss's objects, named without importing faiss."""

from __future__ import annotations

from typing import Any, TypeAlias

FaissObject: TypeAlias = Any
"""An index or a part of one by the attributes of its C++ class: faiss's stubs lack some and give others the wrong type."""
