"""Ids in paths: whatever characters they hold."""

from urllib.parse import quote

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from multiview.serving.routes import ID

app = FastAPI()


@app.get(f"/passages/{ID}")
def read(id: str) -> str:
    return id


@pytest.mark.parametrize("id_", ["a", "a\n", "a\nb", "\r\n", "a/b/", "/", " a ", "é\u2028"])
def test_an_id_arrives_as_it_is(id_: str) -> None:
    """Where `path` would cut the line end at the end, and answer with another passage."""
    assert TestClient(app).get(f"/passages/{quote(id_, safe='')}").json() == id_
