"""Studies: many runs of one pipeline that differ in a few settings; and the rows of comparisons of runs."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from multiview import names
from multiview.artifacts.record import Reference, in_store
from multiview.artifacts.store import Store
from multiview.config import Comparison, JsonObject, PaperFigures, Section
from multiview.config.documents import find_document
from multiview.config.overrides import Overrides, merge, parse_setting, read_preset, validate, value_at
from multiview.config.section import matching
from multiview.errors import InputError
from multiview.evaluation.costs import check_alike
from multiview.evaluation.tables import baseline_of
from multiview.plans.plan import Plan
from multiview.steps.path import StepPath, last_rounds, unfinished_rounds
from multiview.tracking import TrackedRun

RowName = Annotated[
    str,
    Field(coerce_numbers_to_str=True),
    matching(r"[^|\r\n]+", "expected a row's name, without | and line ends"),
]


class Study(Section):
    """Runs of one pipeline with different overrides, each a row of a table."""

    name: str
    """The study's name; default: the name of its file."""
    about: str = ""
    """The study's subject, in a line."""
    pipeline: str = "training"
    """The pipeline that all rows run."""
    settings: Overrides = {}
    """Settings of all rows; they override the preset's."""
    systems_of: str | None = None
    """A preset, by its name or as a YAML file: the systems of its comparison are the study's first rows, and it is the preset of all rows where none is named."""
    runs: dict[RowName, Overrides]
    """The settings that each row changes, by the row's name; if that is a system of `systems_of`, they override the system's."""
    paper: dict[RowName, PaperFigures] = {}
    """What a paper reports for a row; in a file it is written in the row, beside the settings."""
    seeds: tuple[int, ...] = ()
    """Seeds: every row runs once with each of them; empty: once, with the configured seed."""
    by_seed: dict[int, Overrides] = {}
    """Settings of all rows with a seed, over `settings`, such as the model that another run trained with that seed."""

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, content: JsonObject) -> JsonObject:
        """Adds the systems of a preset to the rows, and takes papers' figures out of them."""
        preset, rows = content.get("systems_of"), content.get("runs", {})
        if not isinstance(rows, dict) or ("runs" not in content and not isinstance(preset, str)):
            return content
        if isinstance(preset, str):
            rows = merge(validate(read_preset(preset)).comparison.systems, rows)
        cited = {row: dict(changes) for row, changes in rows.items() if isinstance(changes, dict)}
        figures = {row: changes.pop("paper") for row, changes in cited.items() if "paper" in changes}
        return content | {"runs": rows | cited, "paper": content.get("paper", {}) | figures}

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds: has one twice, and a run with it would count twice: {list(self.seeds)}")
        if unknown := [seed for seed in self.by_seed if seed not in self.seeds]:
            raise ValueError(f"by_seed.{unknown[0]}: none of the seeds {list(self.seeds)}")
        given = {f"runs.{row}": changes for row, changes in self.runs.items()}
        given |= {f"by_seed.{seed}": changes for seed, changes in self.by_seed.items()}
        seeded = (at for at, changes in given.items() if value_at(changes, "train.seed") is not None)
        if self.seeds and (at := next(seeded, None)):
            raise ValueError(
                f"{at}.train.seed: would train the same model for each of the seeds {list(self.seeds)}; leave it out"
            )
        if len(self.runs) * max(1, len(self.seeds)) < 2:
            raise ValueError(
                "runs: expected two or more rows, each with the settings that it changes, or several seeds"
            )
        return self

    def chosen(self, rows: Collection[str], seeds: Collection[int]) -> Self:
        """Returns the study with only these rows, in its own order, and these seeds; none given: its own. Raises
        InputError for an unknown row or seed, a seed given twice, and a single row without several seeds."""
        if unknown := [row for row in rows if row not in self.runs]:
            raise InputError(
                f"--row {unknown[0]}: the study {self.name} has no such row; its rows: {', '.join(self.runs)}"
            )
        if twice := [seed for seed, count in Counter(seeds).items() if count > 1]:
            raise InputError(f"--seed {twice[0]}: given twice, and a run with it would count twice")
        if unknown := [seed for seed in seeds if self.by_seed and seed not in self.seeds]:
            raise InputError(
                f"--seed {unknown[0]}: the study {self.name} has settings by seed, and its seeds are {list(self.seeds)}"
            )
        kept, seeds = [row for row in self.runs if row in rows] or [*self.runs], tuple(seeds) or self.seeds
        if len(kept) * max(1, len(seeds)) < 2:
            raise InputError(
                f"a study compares two rows or more, or several seeds, and of {self.name} one is left: "
                f"{', '.join(kept)}; name another one with --row or --seed"
            )
        runs, paper = ({row: of[row] for row in kept if row in of} for of in (self.runs, self.paper))
        return self.model_copy(update={"runs": runs, "paper": paper, "seeds": seeds})

    def check_given(self, settings: Iterable[str]) -> None:
        """Raises InputError for a `--set` setting that the study overrides with other values in all of its rows."""
        for setting in settings:
            given, name = parse_setting(setting), setting.partition("=")[0]
            shared = merge(given, self.settings)
            rows = [merge(shared, row) for row in self.overrides(given).values()]
            if not any(merge(row, given) == row for row in rows):
                values = " or ".join(dict.fromkeys(str(value_at(row, name)) for row in rows))
                raise InputError(
                    f"--set {setting}: the study {self.name} sets {name}={values} in all of its rows; "
                    "leave it out, or write a study of your own (docs/studies.md)"
                )

    def overrides(self, base: Overrides) -> dict[str, Overrides]:
        """Returns all overrides of each row: the row's over the study's over `base`, without `comparison.baseline`,
        which names one of the rows. Raises InputError for a stage of training that would have one seed for several of the study's."""
        base = merge(base, self.settings)
        if comparison := base.get("comparison"):
            base |= {"comparison": {name: of for name, of in comparison.items() if name != "baseline"}}
        if not self.seeds:
            return {row: merge(base, changes) for row, changes in self.runs.items()}
        rows = {
            _seeded(row, seed): merge(
                base, {"model": {"seed": seed}, "train": {"seed": seed}}, self.by_seed.get(seed, {}), changes
            )
            for row, changes in self.runs.items()
            for seed in self.seeds
        }
        for row, stage in product(self.runs, ("warm_up", "round_two")):
            given = {str(value_at(rows[_seeded(row, seed)], f"train.{stage}.seed")) for seed in self.seeds}
            if given != {"None"} and len(given) < len(self.seeds):
                raise InputError(
                    f"{row}: train.{stage}.seed would be one for several of the seeds {list(self.seeds)}; leave it out"
                )
        return rows


def _seeded(row: str, seed: int) -> str:
    return f"{row}/seed-{seed}"


def read_study(name: str) -> Study:
    """Reads a study by its name, or from a YAML file. Raises InputError for a file that is no study."""
    return find_document(name, "study").checked(Study, name=Path(name).stem)


def rows_of_runs(
    runs: Sequence[TrackedRun], near: Store | None = None
) -> dict[str, tuple[Reference, str | None]]:
    """Returns each row's evaluation and architecture by its system's name, with the end of the run's id if two have the
    same name. Evaluations are looked up first in the store `near`; one that several runs share is one row. Raises
    InputError for a run that adds no evaluation, for a single row, and for different questions or corpora."""
    rows: dict[tuple[str, str], tuple[Reference, str | None]] = {}
    for run in runs:
        evaluations = evaluations_of_run(run)
        if not evaluations:
            raise InputError(
                f"run {run.run.id} has no finished evaluation in MLflow: let it finish, or restore the evaluation's "
                "run if it was deleted there, then compare"
            )
        for system, found in evaluations.items():
            evaluation = in_store(found, near)
            if evaluation not in [known for known, _ in rows.values()]:
                rows[system, run.run.id] = evaluation, run.run.architectures.get(system)
        if run.run.id not in {id_ for _, id_ in rows}:
            raise InputError(f"run {run.run.id} has no evaluation that the runs before it lack: leave it out")
    count = Counter(system for system, _ in rows)
    by_name = {
        system if count[system] == 1 else f"{system}:{run.rpartition('-')[2]}": row
        for (system, run), row in rows.items()
    }
    if len(by_name) < 2:
        raise InputError(f"{', '.join(by_name)}: a comparison needs two systems; name another run")
    check_alike({name: evaluation.address for name, (evaluation, _) in by_name.items()})
    return by_name


def evaluations_of_run(run: TrackedRun) -> dict[str, Reference]:
    """Returns each system's last evaluation, in the run's order; for a run found by a system's id, only that system's.
    Raises InputError if a later round is not evaluated yet."""
    order = {path: number for number, path in enumerate(run.run.steps)}
    evaluated = [path for path, step in run.steps_of_system().items() if names.EVALUATION in step.outputs]
    # MLflow's order differs; steps of the run that a rerun was cut from come last.
    evaluated.sort(key=lambda path: order.get(path, len(order)))
    last = last_rounds(map(StepPath.parse, evaluated))
    if missing := unfinished_rounds(last, run.run.steps, "evaluate"):
        raise InputError(f"run {run.run.id} has not finished {missing[0]}: let it finish, then compare")
    return {system: run.steps[str(path)].outputs[names.EVALUATION] for system, path in last.items()}


def unevaluated(run: TrackedRun) -> list[str]:
    """Returns the systems of a run that MLflow has no evaluation of; none for a run found by a system's id."""
    # A rerun has steps of the run before it too, but not its evaluation of what was made anew.
    paths = [
        path for path in map(StepPath.parse, run.run.steps) if path.step == "evaluate" or run.run.rerun_of
    ]
    systems, evaluated = dict.fromkeys(path.system for path in paths if path.system), evaluations_of_run(run)
    return [] if run.system else [system for system in systems if system not in evaluated]


def evaluation_paths(row: str, plan: Plan) -> dict[str, StepPath]:
    """Returns a plan's last evaluations by row: `row`, or `row/SYSTEM` if there are several. Raises InputError for none."""
    last = last_rounds(path for path, node in plan.nodes.items() if names.EVALUATION in node.step.outputs)
    if not last:
        raise InputError(f"{row}: its pipeline evaluates nothing, so there is nothing to compare")
    return {row if len(last) == 1 else f"{row}/{system}": path for system, path in last.items()}


def comparison_settings(study: Study, rows: Sequence[str], shared: Overrides) -> Comparison:
    """Returns the settings of a study's comparison, over those that its rows share. Raises InputError for a baseline
    that is not a row (with several seeds, a system), and for a paper's figures of a row with several systems."""
    without_seed = {
        row: plain + row.removeprefix(seeded)
        for row in rows
        for plain in study.runs
        for seed in study.seeds
        if row == (seeded := _seeded(plain, seed)) or row.startswith(f"{seeded}/")
    }
    systems = list(dict.fromkeys(without_seed.get(row, row) for row in rows))
    if several := next((row for row in study.paper if row not in systems), None):
        raise InputError(
            f"runs.{several}.paper: its pipeline evaluates several systems, and a figure is of one"
        )
    own = {"rows": tuple(rows), "seeds_of": without_seed, "paper": study.paper}
    comparison = validate({"comparison": shared.get("comparison", {}) | own}).comparison
    baseline_of(comparison.baseline, systems)
    return comparison
