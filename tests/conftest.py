"""What tests of several rooms need."""

import inspect
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.documents import beginning_with


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of documented commands are given them."""
    if mark := metafunc.definition.get_closest_marker("documented"):
        lines = beginning_with(*mark.args, **mark.kwargs)
        if "documented_lines" in metafunc.fixturenames:
            metafunc.parametrize("documented_lines", [lines], ids=[""])
        else:
            metafunc.parametrize("documented", lines, ids=str)


@pytest.fixture(autouse=True, scope="session")
def names_of_callers() -> Iterator[None]:
    """KFP asks for the whole stack with its source lines whenever a task is told something, to know a caller's name.

    Under pytest, with all that is imported, that takes a fifth of a second each time: minutes in all.
    """

    def stack(context: int = 1) -> list[inspect.FrameInfo]:
        found, frame = [], sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            found.append(inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None))
            frame = frame.f_back
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspect, "stack", stack)
        yield


class Quiet(SimpleHTTPRequestHandler):
    """Python's own web server, which knows neither ranges nor ETags."""

    dates = True

    def log_message(self, format, *args):
        pass

    def send_header(self, keyword, value):
        if self.dates or keyword != "Last-Modified":
            super().send_header(keyword, value)


@pytest.fixture
def website(tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    Quiet.dates = True
