"""`multiview`: what one does with a store without running a pipeline."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from multiview.cli.options import Debug, Preset, Settings, StoreUrl, TrackingUri
from multiview.errors import InputError, StepFailed, one_line

app = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help="Multi-view retrieval."
)


@app.callback()
def _root() -> None:
    """Multi-view retrieval: what one does with a store without running a pipeline."""


@app.command()
def search(
    question: Annotated[str | None, typer.Argument(help="What to ask; quote it.")] = None,
    index: Annotated[
        str | None,
        typer.Option(
            envvar="MULTIVIEW_INDEX",
            help="Address of an index, models:/NAME@ALIAS, a run's id, or champion. Default: the store's champion, or else its newest.",
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, help="Passages a question.")] = 10,
    questions: Annotated[
        Path | None,
        typer.Option(allow_dash=True, help="File with a question a line; - is standard input."),
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Also the score of every view.")] = False,
    json: Annotated[bool, typer.Option("--json", help="A JSON object a question, a line each.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, or auto.")] = "auto",
    verify: Annotated[
        bool, typer.Option("--verify", help="Read every byte of what is loaded against its sha256.")
    ] = False,
    store: StoreUrl = "store",
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Ask an index: passages, best first, with the snippet that matched."""
    from multiview.cli.search import ask, index_address, questions_of

    ask(
        questions_of(question, questions),
        index_address(index, store, tracking_uri),
        k,
        explain=explain,
        json=json,
        device=device,
        verify=verify,
    )


@app.command()
def lineage(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="An artifact's address; a run of the store, of MLflow (also a step's) or of Kubeflow; a logged "
            "model's id (m-…); models:/NAME@ALIAS.",
        ),
    ],
    verify: Annotated[
        bool,
        typer.Option("--verify", help="Read every byte of every artifact. Status 2 if one is not right."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object with every record.")] = False,
    store: StoreUrl = "store",
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """What an artifact was made from: models, negatives, passages, settings, code, sources."""
    from multiview.cli.lineage import as_json, print_lineage, verified
    from multiview.cli.lineage import verify as verify_all
    from multiview.cli.lookup import artifacts_named
    from multiview.lineage.trace import trace

    found = trace(artifacts_named(name, store, tracking_uri))
    console, aside = Console(highlight=False), Console(stderr=True, highlight=False, soft_wrap=True)
    if not json:
        print_lineage(console, found)
    flaws = verify_all(aside, found) if verify else found.broken
    if json:
        print(as_json(found, flaws))
    if flaws:
        raise InputError(flaws[0] + (f" (and {len(flaws) - 1} more)" if len(flaws) > 1 else ""))
    if verify and not json:
        console.print(verified(found))


@app.command()
def register(
    name: Annotated[
        str,
        typer.Argument(metavar="INDEX", help="Address of an index, models:/NAME@ALIAS, or a run's id."),
    ],
    alias: Annotated[
        list[str] | None, typer.Option("--alias", help="An alias for it, such as champion; repeatable.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--name", help="The registered model; default: by the corpus.")
    ] = None,
    store: StoreUrl = "store",
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Make an index a version of a registered model in MLflow, and aliases stand for it."""
    from multiview import tracking
    from multiview.artifacts.store import open_store
    from multiview.cli.search import index_address
    from multiview.lineage.trace import reference_of

    index = reference_of(index_address(name, store, tracking_uri))
    uri = tracking_uri or tracking.tracking_uri(open_store(store))
    model = model or tracking.model_name(index)
    version = tracking.register(uri, index, model, alias or ())
    for named in [f"models:/{model}/{version}", *(f"models:/{model}@{one}" for one in alias or ())]:
        print(named)


@app.command()
def sync(store: StoreUrl = "store", tracking_uri: TrackingUri = None) -> None:
    """Ship to MLflow what runs of this store have not shipped yet."""
    from multiview import tracking
    from multiview.artifacts.store import open_store

    opened = open_store(store)
    uri = tracking_uri or tracking.tracking_uri(opened)
    shipped, failed = tracking.sync(opened, uri)
    print(f"{uri}: {len(shipped)} runs brought up to date{': ' if shipped else ''}{', '.join(shipped)}")
    if failed:
        raise StepFailed("; ".join(f"{run}: {why}" for run, why in failed.items()), bad_input=False)


@app.command()
def gc(
    delete: Annotated[
        bool, typer.Option("--delete", help="Remove it; without, only say what would go.")
    ] = False,
    days: Annotated[
        float, typer.Option(min=0, help="Keep what was written, and what runs have used, in the last days.")
    ] = 7.0,
    champions: Annotated[
        int, typer.Option(min=1, help="Keep the indexes of as many champions, the newest first.")
    ] = 3,
    store: StoreUrl = "store",
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Collect attempts, checkpoints, embeddings and indexes that no champion, alias or recent run refers to."""
    from multiview import tracking
    from multiview.artifacts.store import open_store
    from multiview.lineage import garbage

    opened = open_store(store)
    indexes = tracking.aliased_indexes(tracking_uri or tracking.tracking_uri(opened))
    keep = garbage.kept(opened, days, champions, indexes)
    found = []
    for one in garbage.garbage(opened, keep, days):
        found.append(one)
        print(f"{one.bytes / 1e6:12,.3f} MB  {one.what:<11} {one.path}")
        if delete:
            garbage.remove(opened, one)
    if not found:
        print("nothing to collect")
    elif delete:
        print(f"removed {garbage.summary(found)}")
    else:
        print(f"would remove {garbage.summary(found)}: --delete does it")


@app.command()
def inspect(
    named: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SOURCE]…", help="Files, folders, patterns or URLs; what each is for is told from it."
        ),
    ] = None,
    preset: Preset = None,
    settings: Settings = None,
    debug: Debug = False,
) -> None:
    """What a run would read: counts, lengths, first rows, and all that is wrong. Status 2 if anything is."""
    from multiview.cli.inspection import print_inspection
    from multiview.config.overrides import gather, validate
    from multiview.data import inspection

    given = settings or []
    uses = inspection.uses_of(named or [], validate(gather(preset, given)))
    given = [
        *given,
        *(f"{inspection.SETTING[use]}={_yaml(sources)}" for use, sources in uses.items() if sources),
    ]
    with Console(stderr=True).status("reading") as status:
        found = inspection.inspect(
            validate(gather(preset, given)), lambda done: status.update(f"{done:,} passages read")
        )
    options = [*(["--preset", preset] if preset else []), *(w for s in given for w in ("--set", s))]
    print_inspection(Console(highlight=False), found, options)
    if found.problems.counts:
        raise typer.Exit(2)


@app.command()
def config(
    name: Annotated[
        str | None, typer.Argument(help="A section, such as train, or a setting, such as train.epochs.")
    ] = None,
    preset: Preset = None,
    settings: Settings = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print docs/configuration.md.")] = False,
) -> None:
    """Every setting with its value (the default, or the preset's), type and meaning."""
    from multiview.cli.settings import markdown as as_markdown
    from multiview.cli.settings import print_settings
    from multiview.config.overrides import gather
    from multiview.model.systems import resolve

    if markdown:
        print(as_markdown(), end="")
        return
    chosen = gather(preset, settings or [])
    print_settings(Console(highlight=False), name, resolve(chosen) if chosen else None)


def _yaml(values: list[str]) -> str:
    """One value, or several, as `--set` takes them."""
    from multiview.cli.settings import written

    return written(values[0] if len(values) == 1 else values)


def run_app(app: typer.Typer) -> NoReturn:
    """Run a command line: one line and status 2 for bad input, 1 for a step that failed."""
    try:
        app()
    except InputError as error:
        _complain(str(error))
        sys.exit(2)
    except StepFailed as error:
        _complain(str(error))
        sys.exit(2 if error.bad_input else 1)
    except Exception as error:
        if "--debug" in sys.argv:
            raise
        _complain(f"{one_line(error)}; --debug shows more")
        sys.exit(1)
    sys.exit(0)


def _complain(line: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(f"error: {line}", markup=False, style="red")


def main() -> NoReturn:
    run_app(app)
