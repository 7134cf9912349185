"""The device that a model runs on."""

import torch

from multiview.errors import InputError


def device(name: str, setting: str) -> torch.device:
    """Returns the device called `name`; `auto` is the GPU if there is one, otherwise the CPU.

    Raises InputError that names `setting` for a device that does not exist.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise InputError(f"{setting}: {name}, but torch sees no GPU here; use auto or cpu")
    try:
        return torch.device(name)
    except RuntimeError:
        raise InputError(f"{setting}: there is no device {name!r}; use auto, cpu or cuda") from None
