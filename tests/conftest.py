"""What tests of several rooms need."""

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest


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
