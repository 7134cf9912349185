"""Whose code does a step, and on what machine: for records and states."""

from __future__ import annotations

import os
import sys
from typing import Any

from multiview import environment, names


def code_version() -> dict[str, str]:
    """The commit and the image of the code that runs here, where the environment names them."""
    variables = {"git_sha": environment.GIT_SHA, "image": environment.IMAGE}
    return {name: os.environ[variable] for name, variable in variables.items() if os.environ.get(variable)}


def machine() -> dict[str, Any]:
    """The code's version, and all that can change the last bits of a float: versions, device, instruction set."""
    found: dict[str, Any] = {**code_version(), "multiview": names.VERSION, "python": sys.version.split()[0]}
    if torch := sys.modules.get("torch"):
        found["torch"] = torch.__version__
        found["instruction_set"] = torch.backends.cpu.get_cpu_capability()
        found["threads"] = torch.get_num_threads()
        found["device"] = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    return found
