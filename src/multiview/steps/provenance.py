"""The code and the machine that run a step, for records and states."""

import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from multiview import environment, names


def code_version() -> dict[str, str]:
    """Returns the commit and the image of the running code, as far as they are known."""
    known = {"git_sha": git_sha(), "image": os.environ.get(environment.IMAGE)}
    return {name: value for name, value in known.items() if value}


def git_sha() -> str | None:
    """Returns the commit of the running code: the image's, else the checkout's."""
    return os.environ.get(environment.GIT_SHA) or _checkout()


@cache
def _checkout() -> str | None:
    """The commit of this checkout, with `-dirty` if its files differ; None outside a checkout."""
    if shutil.which("git") is None:
        return None
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    command += ["--abbrev=40", "--exclude=*"]  # only the commit, without tags
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() or None


def machine(device: str = "auto") -> dict[str, object]:
    """Returns the code's version, and everything that can change the last bits of a float on a device (`encode.device`)."""
    description: dict[str, object] = {
        **code_version(),
        "multiview": names.VERSION,
        "python": sys.version.split()[0],
        "processor": processor(),
    }
    if kernels := {name: os.environ[name] for name in environment.KERNEL_VARIABLES if name in os.environ}:
        description["kernels"] = kernels
    for name in ("numpy", "faiss"):
        if library := sys.modules.get(name):
            description[name] = library.__version__
    if torch := sys.modules.get("torch"):
        description["torch"] = torch.__version__
        description["instruction_set"] = torch.backends.cpu.get_cpu_capability()
        description["threads"] = torch.get_num_threads()
        on_gpu = device != "cpu" and torch.cuda.is_available()
        description["device"] = torch.cuda.get_device_name() if on_gpu else "cpu"
    return description


@cache
def processor() -> str:
    """Returns the processor's name, else that of its architecture."""
    file = Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.is_file() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())
