"""Parameters of routes."""

from __future__ import annotations

from starlette.convertors import PathConvertor, register_url_convertor


class _AnyText(PathConvertor):
    """The rest of a path as it is: `path` ends before a line end, and so would find another passage."""

    regex = "(?s:.*)"


register_url_convertor("text", _AnyText())
ID = "{id:text}"
"""An id of the corpus, which may hold any characters."""
