"""Studies: many runs of one pipeline that differ in a few settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import yaml

from multiview.config.overrides import Overrides, merge
from multiview.errors import InputError, nearest


@dataclass(frozen=True)
class Study:
    """A list of overrides over one pipeline."""

    name: str
    about: str
    pipeline: str
    runs: Mapping[str, Overrides]
    """Name of a row to what it changes."""
    seeds: tuple[int, ...] = ()
    """Every run once with each of these; none: once, with the seed that is set."""

    def of_seeds(self) -> dict[str, str]:
        """Row with a seed to the row without."""
        return {f"{row}/seed-{seed}": row for row in self.runs for seed in self.seeds}

    def overrides(self, base: Overrides) -> dict[str, Overrides]:
        """Each row with all of its overrides: the study's are above those given."""
        if not self.seeds:
            return {row: merge(base, own) for row, own in self.runs.items()}
        return {
            f"{row}/seed-{seed}": merge(base, own, {"model": {"seed": seed}, "train": {"seed": seed}})
            for row, own in self.runs.items()
            for seed in self.seeds
        }


def study_names() -> list[str]:
    folder = files("multiview.config") / "studies"
    return sorted(e.name.removesuffix(".yaml") for e in folder.iterdir() if e.name.endswith(".yaml"))


def read_study(name: str) -> Study:
    """A study by its name, or from a YAML file. Raises InputError for one that is not there or is none."""
    if name.endswith((".yaml", ".yml")):
        try:
            text = Path(name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"study {name}: {getattr(error, 'strerror', None) or error}") from error
    elif name in study_names():
        text = (files("multiview.config") / "studies" / f"{name}.yaml").read_text(encoding="utf-8")
    else:
        raise InputError(f"there is no study {name!r}{nearest(name, study_names())}")
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InputError(f"study {name} is not YAML: {' '.join(str(error).split())}") from error
    runs = content.get("runs") if isinstance(content, dict) else None
    if not isinstance(runs, dict) or not all(isinstance(own, dict) for own in runs.values()) or len(runs) < 2:
        raise InputError(
            f"study {name}: expected two or more rows under runs, each with the settings it changes"
        )
    if unknown := set(content) - {"about", "pipeline", "runs", "seeds"}:
        raise InputError(
            f"study {name}: {min(unknown)} is not known; there are about, pipeline, runs and seeds"
        )
    seeds = content.get("seeds") or []
    if not isinstance(seeds, list) or not all(isinstance(seed, int) for seed in seeds):
        raise InputError(f"study {name}: seeds is a list of whole numbers, not {seeds!r}")
    if len(set(seeds)) < len(seeds):
        raise InputError(f"study {name}: seeds has one twice, and a run with it would count twice: {seeds!r}")
    about, pipeline = str(content.get("about", "")), str(content.get("pipeline", "training"))
    return Study(Path(name).stem, about, pipeline, {str(row): own for row, own in runs.items()}, tuple(seeds))
