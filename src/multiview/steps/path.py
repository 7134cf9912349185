"""The position of a step in its run, as in `split`, `camvr/initial-model` and `camvr/round-2/encode/shard-03`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Self

WARM_UP = "warm-up"
"""The stage of a training on generated queries, before its rounds."""

_ROUND = re.compile(r"round-(\d+)")
_SHARD = re.compile(r"shard-\d+")


@dataclass(frozen=True)
class StepPath:
    """The path of a step: `[SYSTEM/[STAGE/]]STEP[/SHARD]`.

    >>> path = StepPath.parse("camvr/round-2/encode/shard-03")
    >>> path.system, path.round, path.step, path.shard
    ('camvr', 2, 'encode', 'shard-03')
    >>> str(path.whole)
    'camvr/round-2/encode'
    """

    step: str
    system: str = ""
    """The system of the step; empty for a step that all systems share."""
    stage: str = ""
    """The stage of the system's training, such as `round-2` or `warm-up`; round 0 is the untrained model."""
    shard: str = ""
    """The shard that the step works on; empty for a whole step."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Returns the path that a text names; the inverse of `str`. Raises ValueError for a text that is no path."""
        *parents, last = text.split("/")
        shard = ""
        if parents and _SHARD.fullmatch(last):
            shard, last = last, parents.pop()
        if len(parents) > 2 or not all((*parents, last)):
            raise ValueError(
                f"{text!r} is no path of a step: SYSTEM/STAGE/STEP/SHARD, as in camvr/round-2/encode"
            )
        system, stage = (*parents, "", "")[:2]
        return cls(last, system, stage, shard)

    def __str__(self) -> str:
        return "/".join(part for part in (self.system, self.stage, self.step, self.shard) if part)

    @property
    def round(self) -> int | None:
        """The number of the round; None outside of rounds."""
        match = _ROUND.fullmatch(self.stage)
        return int(match[1]) if match else None

    @property
    def row(self) -> str:
        """The row for a step's results: its system's name, or the step's if it has no system."""
        return self.system or self.step

    @property
    def whole(self) -> Self:
        """The path of the whole step, without the shard."""
        return replace(self, shard="")

    def of_shard(self, shard: str) -> Self:
        return replace(self, shard=shard)


def shard_name(number: int) -> str:
    """Returns the name of a shard, counted from 0."""
    return f"shard-{number:02d}"


def shard_file(shard: str) -> str:
    """Returns the file name of a shard in an artifact of one file per shard."""
    return f"{shard}.parquet"


def last_rounds(paths: Iterable[StepPath]) -> dict[str, StepPath]:
    """Returns per row the path with the highest round (the last one of equals); rows are in the order of `paths`."""
    last: dict[str, StepPath] = {}
    for path in paths:
        known = last.get(path.row)
        if known is None or (path.round or 0) >= (known.round or 0):
            last[path.row] = path
    return last


def unfinished_rounds(done: Mapping[str, StepPath], planned: Iterable[str], step: str) -> list[str]:
    """Returns each row's last `planned` step called `step`, if only one of an earlier round is `done`."""
    last = last_rounds(path for path in map(StepPath.parse, planned) if path.step == step)
    return [
        str(path) for row, path in last.items() if row in done and (path.round or 0) > (done[row].round or 0)
    ]
