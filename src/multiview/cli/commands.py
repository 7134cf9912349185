"""The commands of `multiview`. Each imports what it needs when it runs, so that `--help` is quick."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from gc import freeze
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.models import OptionInfo

from multiview import names
from multiview.artifacts.record import load_record
from multiview.artifacts.store import Store, open_store
from multiview.cli.options import (
    Debug,
    Device,
    Index,
    IndexStoreUrl,
    Presets,
    Settings,
    StoreUrl,
    TrackingUri,
    Views,
)
from multiview.cli.serve import serve
from multiview.errors import InputError, counted, print_line, safe, without_secrets

if TYPE_CHECKING:
    from multiview.lineage.garbage import ArtifactId, ReportKept


def search(
    question: Annotated[str | None, typer.Argument(help="The question, quoted.")] = None,
    index: Index = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages per question.")] = 10,
    questions: Annotated[
        Path | None, typer.Option(allow_dash=True, help="File with a question per line; - is standard input.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Also print the score of every view.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per question, each on its line.")
    ] = False,
    where: Annotated[
        str | None,
        typer.Option(help="Only passages whose columns satisfy a condition, as in 'year >= 2000'."),
    ] = None,
    views: Views = None,
    device: Device = "auto",
    verify: Annotated[
        bool, typer.Option("--verify", help="First check index, model and passages against their sha256.")
    ] = False,
    store: StoreUrl = names.DEFAULT_STORE,
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Search an index: the best passages first, each with the snippet that matched."""
    from multiview.cli.lookup import Lookup
    from multiview.cli.search import print_answers, read_questions

    batches = read_questions(question, questions)
    address = Lookup(store, tracking_uri).index(index)
    how = {"device": device, "verify": verify, "views": views}
    print_answers(batches, address, k, explain=explain, where=where, json=json, **how)
    freeze()  # or Python spends half a second at exit looking for cycles in all that was imported


def lineage(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="An artifact's address; a run's id (multiview's, MLflow's or Kubeflow's); a step's id in MLflow; a logged "
            "model's id (m-…); models:/NAME@ALIAS; champion or challenger.",
        ),
    ],
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every byte of every artifact; status 2 if one is damaged.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object with every record.")] = False,
    store: StoreUrl = names.DEFAULT_STORE,
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Show what an artifact was made from: models, negatives, passages, settings, code, sources."""
    from multiview.cli.lineage import show_lineage
    from multiview.cli.lookup import Lookup
    from multiview.lineage.trace import trace

    show_lineage(trace(Lookup(store, tracking_uri).artifacts(name)), verify=verify, json=json)


def repair(
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="An artifact's address, as an error line names it.")
    ],
    debug: Debug = False,
) -> None:
    """Delete a damaged artifact so that the next run recreates it; keep a whole one."""
    from multiview.lineage import repair

    for line in repair.repair(address):
        print_line(line)


def register(
    index: Annotated[
        str,
        typer.Argument(
            metavar="INDEX",
            help="An index's address, models:/NAME@ALIAS, a run's id, champion or challenger.",
        ),
    ],
    aliases: Annotated[
        list[str] | None,
        typer.Option("--alias", help="An alias for the version, such as champion; repeatable."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--name", help="The registered model; default: a name made from the corpus.")
    ] = None,
    store: IndexStoreUrl = None,
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Register an index in MLflow as a version of a model, and give it aliases."""
    from multiview import tracking
    from multiview.cli.lookup import Lookup

    lookup = Lookup(store, tracking_uri)
    reference = load_record(lookup.index(index)).reference
    model = model or tracking.model_name(reference)
    version = tracking.register(lookup.tracking_uri_for(index), reference, model, aliases or ())
    for name in (f"/{version}", *(f"@{alias}" for alias in aliases or ())):
        print(f"models:/{model}{name}")


def sync(
    store: StoreUrl = names.DEFAULT_STORE, tracking_uri: TrackingUri = None, debug: Debug = False
) -> None:
    """Send everything to MLflow that the store's runs have not sent yet."""
    from multiview import tracking

    opened = open_store(store)
    uri = tracking_uri or tracking.tracking_uri(opened)
    shipped, failed = tracking.sync(opened, uri)
    if shipped or not failed:
        listed = f": {', '.join(shipped)}" if shipped else ""
        print(f"{without_secrets(uri)}: {counted(len(shipped), 'run')} brought up to date{listed}")
    if failed:
        raise InputError("; ".join(f"{run}: {why}" for run, why in failed.items()))


def gc(
    delete: Annotated[bool, typer.Option("--delete", help="Delete them; otherwise only list them.")] = False,
    days: Annotated[
        float, typer.Option(min=0, help="Keep what was written, and what runs have used, in the last days.")
    ] = 7.0,
    champions: Annotated[
        int, typer.Option(min=1, help="Keep the indexes of this many champions, the newest first.")
    ] = 3,
    store: StoreUrl = names.DEFAULT_STORE,
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Collect attempts, checkpoints, embeddings, changes, indexes and exports that no champion, alias or recent run refers to."""
    from multiview import tracking
    from multiview.lineage.garbage import referenced

    opened = open_store(store)
    opened.check_exists()
    if names.RUNS not in opened.folders(""):
        raise InputError(f"store {opened.url}: no run was made in it; is it the right one?")
    uri = tracking_uri or tracking.tracking_uri(opened)
    absent, shipped = tracking.database(uri) == "absent", tracking.shipped_here(opened, uri)
    asked = f"{without_secrets(uri)} is asked which indexes aliases keep"
    line = f"there is no MLflow database at {uri}, so no alias keeps an index" if absent else asked
    if False in shipped and (tracking_uri is None or True not in shipped):
        line = f"{line}, but runs were shipped to another MLflow: name the one to ask with --tracking-uri (multiview sync sends it what it lacks)"
        if delete:
            raise InputError(line)
        print(line)
    elif absent:
        print(f"{line}; name another with --tracking-uri")

    def referenced_now(report: ReportKept) -> set[ArtifactId]:
        return referenced(opened, days, champions, tracking.aliased_indexes(uri), report)

    collect(opened, referenced_now, days, delete)


def collect(
    store: Store, referenced: Callable[[ReportKept], set[ArtifactId]], days: float, delete: bool
) -> None:
    """Print a line per piece that can be collected from a store, and their sums. With `delete`, delete each piece that
    `referenced` still does not return by then. Damaged files come last, each with what is kept because of it."""
    from multiview.lineage import garbage

    kept: dict[str, None] = {}
    found = garbage.collectable(store, referenced(kept.setdefault), days, kept.setdefault)
    sizes = defaultdict[str, list[int]](list)
    for piece in garbage.remove_all(store, found, lambda: referenced(kept.setdefault)) if delete else found:
        sizes[piece.kind].append(piece.bytes)
        print(f"{piece.bytes / 1e6:12,.3f} MB  {piece.kind:<11} {safe(piece.path)}")
    total = ", ".join(f"{len(of)} {kind} ({sum(of) / 1e6:,.1f} MB)" for kind, of in sorted(sizes.items()))
    if not sizes:
        print("nothing to collect")
    else:
        print(f"removed {total}" if delete else f"would remove {total}: --delete does it")
    for line in kept:
        print(f"kept: {safe(line)}")


def inspect(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]…",
            help="Files, folders, patterns or URLs; the use of each is recognised by its content and name.",
        ),
    ] = None,
    presets: Presets = None,
    settings: Settings = None,
    debug: Debug = False,
) -> None:
    """Show what a run would read: counts, lengths, first rows and every problem. Exit status 2 if there is one."""
    from multiview.cli.inspection import show_inspection

    if show_inspection(sources or [], presets or [], settings or []).problems.counts:
        raise typer.Exit(2)


def config(
    name: Annotated[
        str | None, typer.Argument(help="A section, such as train, or a setting, such as train.epochs.")
    ] = None,
    presets: Presets = None,
    settings: Settings = None,
    debug: Debug = False,
) -> None:
    """Show every setting with its value (the default, or the presets'), type and meaning."""
    from multiview.cli.settings import show_settings

    show_settings(name, presets, settings or [])


def _counted(about: str) -> OptionInfo:
    return typer.Option(min=1, max=1e12, metavar="NUMBER", help=about)


def plan(
    passages: Annotated[float, _counted("Passages of the corpus, as in 21e6.")],
    words: Annotated[float, _counted("Words per passage; default: DPR's.")] = 100,
    training_questions: Annotated[
        float | None, _counted("Training questions; default: those that are made, or 58,880 as DPR.")
    ] = None,
    dev_questions: Annotated[float, _counted("Dev questions; default: DPR's of Natural Questions.")] = 8_757,
    changed: Annotated[
        float, typer.Option(min=0, max=1, help="Share of the passages that a refresh finds changed.")
    ] = 0.01,
    model: Annotated[
        str | None,
        typer.Option(help="minilm-l6, bert-base, bert-large, or as model.base; default: the settings'."),
    ] = None,
    gpus: Annotated[int, typer.Option(min=0, help="GPUs in all; 0: processors do everything.")] = 0,
    gpu: Annotated[str, typer.Option(help="h100, a100 or l4.")] = "h100",
    cores: Annotated[int, typer.Option(min=1, help="Cores of a step's pod.")] = 8,
    memory: Annotated[float, _counted("Main memory of a step's pod in GB.")] = 64,
    pipeline: Annotated[str, typer.Option(help="training, comparison or refresh.")] = "training",
    calibrated: Annotated[
        str | None, typer.Option("--from", metavar="RUN", help="Scale the seconds of a run of the store.")
    ] = None,
    presets: Presets = None,
    settings: Settings = None,
    store: StoreUrl = names.DEFAULT_STORE,
    debug: Debug = False,
) -> None:
    """Estimate time, GPUs, memory and disk of each step, and the bytes of each kind of index."""
    from multiview.cli.plan import plan_lines
    from multiview.config.overrides import gather
    from multiview.plans.estimate import base_config, drafts
    from multiview.plans.scenario import Scenario, shape_of

    overrides = gather(presets, settings or [])
    config = base_config(pipeline, overrides)
    data = round(passages), words, round(training_questions or 58_880), round(dev_questions)
    shape = shape_of(model or config.model.base)
    scenario = Scenario(*data, shape, changed, gpus, gpu, cores, memory * 1e9, config)
    if training_questions is None and config.questions.origin != "labelled":
        scenario = replace(scenario, questions=round(drafts(scenario)))
    asked = min(scenario.questions, config.questions.limit or sys.maxsize)
    dev_asked = min(scenario.dev_questions, config.questions.dev_limit or sys.maxsize)
    scenario = replace(scenario, questions=asked, dev_questions=dev_asked)
    measured = (open_store(store), calibrated) if calibrated else None
    print(*plan_lines(pipeline, scenario, overrides, measured), sep="\n")


COMMANDS = (search, serve, lineage, repair, register, sync, gc, inspect, config, plan)
