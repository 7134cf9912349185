"""The job of the kind overlay, run here against a server of S3's protocol."""

import os

from tests.fixtures.bucket import free_port
from tests.fixtures.forked import run_forked
from tests.fixtures.overlays import of_kind
from tests.fixtures.s3 import s3_server

WRITABLE = """
from multiview.artifacts.store import open_store
open_store("s3://multiview/store").check_writable()
"""


def test_the_job_makes_the_bucket_of_the_store_once():
    (job,) = of_kind("overlays/kind", "Job")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    python, option, *arguments = container["command"]
    assert (python, option) == ("python", "-c")
    with s3_server(free_port(), bucket="another") as server:
        environment = {**os.environ, **server}
        for _ in range(2):
            assert run_forked(*arguments, environment=environment).status == 0
        assert run_forked(WRITABLE, environment=environment).status == 0
