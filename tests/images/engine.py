"""A container engine for tests: Docker where it answers, else buildah and podman, which need no daemon."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fixtures.project import ROOT

PROGRAMS = ("buildah", "podman", "runc", "debootstrap")
CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
"""
"""Limits and control groups that a process may set which is in a container itself, as CI's often are."""


@dataclass(frozen=True)
class Engine:
    """`build` is the program that builds images, `run` the one that runs them."""

    build: str
    run: str
    base: str | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def image(self, name: str, *options: str) -> str:
        """Build `images/<name>` by `make`; the image's name. Packages are not fetched but taken from images/wheels."""
        subprocess.run([sys.executable, "images/packages.py", "wheels"], cwd=ROOT, check=True)
        build = ["--build-arg PIP_NO_INDEX=1", *options, *(["--pull-never"] if self.base else [])]
        settings = [f"ENGINE={self.build}", "REGISTRY=localhost/", "TAG=test", f"BUILD={' '.join(build)}"]
        if self.base:
            settings.append(f"BASE={self.base}")
        made = subprocess.run(
            ["make", "--no-print-directory", f"image-{name}", *settings],
            cwd=ROOT,
            env={**os.environ, **self.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert made.returncode == 0, made.stdout
        return f"localhost/multiview-{name}:test"

    def __call__(self, *words: str) -> str:
        """What a command of the engine prints; it must succeed."""
        done = subprocess.run(
            [self.run, *words], env={**os.environ, **self.environment}, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def inspect(self, image: str) -> dict[str, Any]:
        return json.loads(self("image", "inspect", image))[0]

    def python(self, image: str, program: str) -> str:
        """What a Python program prints in a container of the image, without network."""
        offline = ["--rm", "--network=none", "--env=HF_HUB_OFFLINE=1", "--entrypoint=python"]
        return self("run", *offline, image, "-c", program)


def why_not() -> str | None:
    """Why this machine has no engine, if it has none."""
    if _docker():
        return None
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"no Docker engine answers, and without one these are needed: {', '.join(missing)}"
    return None if os.geteuid() == 0 else "no Docker engine answers, and podman's way round it needs root"


@contextmanager
def engine() -> Iterator[Engine]:
    """The engine of this machine; podman's answers Docker's API as long as the block runs."""
    if _docker():
        yield Engine("docker", "docker")
        return
    # Not pytest's folder: a socket's path may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="engine-") as scratch:
        settings, socket = Path(scratch) / "containers.conf", Path(scratch) / "podman.sock"
        settings.write_text(CONTAINERS_CONF)
        environment = {
            "CONTAINERS_CONF": str(settings),
            "DOCKER_HOST": f"unix://{socket}",
            "BUILDAH_ISOLATION": "chroot",
            "BUILDAH_LAYERS": "true",
        }
        base = "localhost/multiview-base:bookworm"
        made = {**os.environ, **environment}
        subprocess.run(["sh", str(ROOT / "tests/images/base.sh"), base], env=made, check=True)
        service = subprocess.Popen(["podman", "system", "service", "-t", "0", f"unix://{socket}"], env=made)
        try:
            while not socket.exists():
                assert service.poll() is None, "podman's service ended"
                time.sleep(0.1)
            yield Engine("buildah", "podman", base, environment)
        finally:
            service.terminate()
            service.wait(30)


def _docker() -> bool:
    return (
        bool(shutil.which("docker"))
        and not subprocess.run(["docker", "info"], capture_output=True).returncode
    )
