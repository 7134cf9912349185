"""Rates from which times are estimated, each with where it comes from (rates.yaml), and the devices that do the work."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import Field

from multiview.config.documents import read_document
from multiview.config.section import Section
from multiview.errors import InputError, nearest

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Rate(Section):
    """Work per second, or another constant, and where the figure comes from."""

    value: Positive
    unit: str
    source: str
    """Measured on which machine, or computed from what."""


class Device(Section):
    """An accelerator, by what its maker publishes."""

    name: str
    half_flops: Positive
    """Operations per second in bfloat16 on dense matrices."""
    float32_flops: Positive
    """Operations per second in float32, outside the tensor cores, as `encode.compute: float32` computes."""
    memory: Positive
    """Bytes."""
    source: str


class Rates(Section):
    """The table of rates."""

    rates: dict[str, Rate] = {}
    devices: dict[str, Device] = {}

    def __getitem__(self, name: str) -> float:
        return self.rates[name].value

    def device(self, name: str) -> Device:
        """Returns a device. Raises InputError with the nearest names for an unknown one."""
        if name not in self.devices:
            raise InputError(f"there is no GPU {name!r} in the table of rates{nearest(name, self.devices)}")
        return self.devices[name]


@cache
def default_rates() -> Rates:
    """The table that comes with the package."""
    file = files("multiview.estimates") / "rates.yaml"
    return read_document(file, "rates", file.name).checked(Rates)


def read_rates(file: Path | None) -> Rates:
    """The rates of a file over those of the package, of which it may leave out any; without a file, the package's.

    Raises InputError for a file that is no such table.
    """
    default = default_rates()
    if file is None:
        return default
    given = read_document(file, "--rates").checked(Rates)
    if unknown := [name for name in given.rates if name not in default.rates]:
        raise InputError(
            f"--rates {file}: there is no rate {unknown[0]!r}{nearest(unknown[0], default.rates)}"
        )
    return Rates(rates=default.rates | given.rates, devices=default.devices | given.devices)
