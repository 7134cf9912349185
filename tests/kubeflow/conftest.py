import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.fixtures.servers import answering


class Receiver:
    """An address that takes notices, answering 503 to as many as it is given."""

    def __init__(self, failures: int = 0):
        self.notices: list[dict] = []
        self.failures = failures
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.failures:
                    receiver.failures -= 1
                    self.send_response(503)
                else:
                    receiver.notices.append(json.loads(body))
                    self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(failures=1)
    with answering(made.server):
        yield made
