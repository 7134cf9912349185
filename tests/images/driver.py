"""`python -m pipelines` with every step in a container of its own: `python -m tests.images.driver FOLDER OPTIONS …`.

Steps see FOLDER at its own path and no network, and run as the user of their image, unless OPTIONS say otherwise: the
JSON of what docker's `containers.run` takes besides.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import docker.api.client
import docker.errors
import docker.types
from kfp import local

import pipelines.runs.local
from multiview.cli.app import run_app
from pipelines.__main__ import app
from tests.fixtures.kfp_local import through_kfp

raise_plain = docker.errors.create_api_error_from_http_exception


def raise_not_found(error: Any) -> None:
    """podman 4 answers 500 where Docker answers 404: for a container that has ended and is removed."""
    if error.response.status_code == 500 and "no such container" in error.response.text.lower():
        raise docker.errors.NotFound(
            error, response=error.response, explanation=error.response.text
        ) from error
    raise_plain(error)


def in_containers(folder: str, options: dict[str, Any]) -> Any:
    """What runs KFP's steps: containers that see `folder`."""
    variables = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", **options.pop("environment", {})}

    def runner(root: str) -> local.DockerRunner:
        Path(root).chmod(0o777)
        return local.DockerRunner(
            mounts=[docker.types.Mount(folder, folder, type="bind")],
            environment=variables,
            **{"network_mode": "none", **options},
        )

    return runner


if __name__ == "__main__":
    folder, options = sys.argv.pop(1), json.loads(sys.argv.pop(1))
    os.umask(0)  # the images' user writes beside what this process has written
    setattr(docker.api.client, "create_api_error_from_http_exception", raise_not_found)  # noqa: B010
    pipelines.runs.local.execute = through_kfp(in_containers(folder, options))
    run_app(app)
