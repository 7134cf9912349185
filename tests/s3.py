"""A server of S3's protocol (moto), which answers one request at a time, so that of two that create one
object exclusively one is refused. Of names with these words in them it

- loses the first answer to an upload: `lost-answer`;
- refuses as other makers' servers do, without AWS's name for the broken condition: `other-maker`;
- knows no conditions: `no-conditions`;
- answers 503 to the first of equal requests: `busy`.

It writes a line of JSON for each request (`tests.bucket.Asked`). Run as `python -m tests.s3 PORT BUCKET LOG`; prints a
line when it listens.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote

from tests.bucket import Asked

CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Faults:
    """A WSGI application around another: what S3's servers do at times."""

    def __init__(self, application, log):
        self.application = application
        self.log = log
        self.unanswered: set[str] = set()

    def __call__(self, environ, start_response):
        path = environ["PATH_INFO"]
        whole = f"{path}?{unquote(environ['QUERY_STRING'])}"
        request = f"{environ['REQUEST_METHOD']} {whole}"
        if "busy" in whole and request not in self.unanswered:
            self.unanswered.add(request)
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            start_response("503 Service Unavailable", [("Content-Length", "0")])
            return [b""]
        if "no-conditions" in path:
            environ.pop("HTTP_IF_NONE_MATCH", None)
        answer: list = []
        body = b"".join(
            self.application(environ, lambda status, headers, *_: answer.extend((status, headers)))
        )
        status, headers = answer
        if environ["REQUEST_METHOD"] == "PUT" and "lost-answer" in path and path not in self.unanswered:
            self.unanswered.add(path)
            status, body = "503 Service Unavailable", b""
        if "other-maker" in path:
            body = re.sub(rb"<Condition>.*?</Condition>", b"", body)
        if environ["REQUEST_METHOD"] != "HEAD":  # whose answer says how long the body would be
            headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
            headers.append(("Content-Length", str(len(body))))
        received = int(environ.get("CONTENT_LENGTH") or 0)
        with Path(self.log).open("a") as lines:
            lines.write(json.dumps(Asked(environ["REQUEST_METHOD"], whole, received, len(body))) + "\n")
        start_response(status, headers)
        return [body]


def serve(port: int, bucket: str, log: str) -> None:
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server
    from werkzeug.test import Client

    application = Faults(DomainDispatcherApplication(create_backend_app), log)
    signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request"}
    Client(application).put(f"/{bucket}", headers=signed)
    server = make_server("127.0.0.1", port, application, threaded=False)
    print("listening", flush=True)
    server.serve_forever()


@contextmanager
def s3_server(port: int, bucket: str = "bucket", log: Path = Path(os.devnull)) -> Iterator[dict[str, str]]:
    """A running server with one bucket; the environment that makes s3fs use it."""
    command = [sys.executable, "-m", "tests.s3", str(port), bucket, str(log)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        assert server.stdout.readline().strip() == "listening"
        yield {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}"}
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], sys.argv[3])
