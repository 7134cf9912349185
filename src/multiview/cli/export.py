"""`multiview export`: writes an index or a model for other systems. Each command imports what it needs when it runs."""

from pathlib import Path
from typing import Annotated

import typer

from multiview import environment, names
from multiview.artifacts.staging import stage
from multiview.cli.console import Console
from multiview.cli.options import Debug, Index, StoreUrl, TrackingUri, check_folder
from multiview.config import Export
from multiview.errors import counted

app = typer.Typer(
    no_args_is_help=True, help="Write for other systems: views as Parquet, models; or load into Qdrant."
)


def _check_out(out: Path) -> Path:
    """Raises InputError for a folder that is not empty, or cannot be made."""
    from multiview.export.files import refuse_filled

    refuse_filled(out)
    check_folder("--out", out)
    return out


OUT_HELP = "A folder that is made; it may be there already if it is empty."
Out = Annotated[Path, typer.Option(callback=_check_out, help=OUT_HELP)]
Model = Annotated[
    str | None, typer.Option(help="A model's address; default: the model of the index.", show_default=False)
]


@app.command()
def views(
    out: Out,
    index: Index = None,
    store: StoreUrl = names.DEFAULT_STORE,
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Write the views of an index, with their snippets and the corpus's own columns, as Parquet (docs/export.md)."""
    from multiview.cli.lookup import Lookup
    from multiview.export.files import write_views
    from multiview.export.views import IndexViews

    opened = IndexViews.open(Lookup(store, tracking_uri).index(index))
    if opened.notice:
        Console(stderr=True).warn(opened.notice)
    manifest = write_views(opened, out)
    print(f"{out}: {counted(manifest['views'], 'view')} of {opened.name.index}")


@app.command()
def model(
    out: Out,
    index: Index = None,
    model: Model = None,
    store: StoreUrl = names.DEFAULT_STORE,
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Write a model as a folder that sentence-transformers loads, with a model card (docs/export.md)."""
    from multiview.cli.lookup import Lookup
    from multiview.export.model_card import describe, read_subject
    from multiview.export.sentence_transformers import write_sentence_transformers

    subject, searched = read_subject(model or Lookup(store, tracking_uri).index(index))
    alone = write_sentence_transformers(stage(*subject).path, out, describe(subject, searched))
    needs = "" if alone else ", with trust_remote_code=True and multiview-retrieval installed"
    print(f"{out}: {subject.record.folder}, for sentence-transformers 6.2 or later{needs}")


@app.command()
def onnx(
    out: Out,
    index: Index = None,
    model: Model = None,
    store: StoreUrl = names.DEFAULT_STORE,
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Write the encoder of questions in ONNX, with its tokenizer (docs/export.md)."""
    from multiview.cli.lookup import Lookup
    from multiview.export.model_card import question_length, read_subject
    from multiview.export.onnx import write_onnx

    subject, searched = read_subject(model or Lookup(store, tracking_uri).index(index))
    write_onnx(stage(*subject).path, out, question_length(searched))
    print(f"{out}: the question encoder of {subject.record.folder}")


@app.command()
def qdrant(
    url: Annotated[
        str | None,
        typer.Option(
            envvar=environment.QDRANT_URL,
            help=f"Qdrant's URL; its API key is read from {environment.QDRANT_API_KEY}.",
        ),
    ] = None,
    path: Annotated[
        Path | None,
        typer.Option(help="Instead of a server, the folder of Qdrant's local mode, for one process."),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            help="An index's address, models:/NAME@ALIAS or a run's id: its collection is loaded, and no alias changes. Default: "
            "the store's champion, which the alias then refers to."
        ),
    ] = None,
    alias: Annotated[
        str, typer.Option(help="The alias that follows the champion, and how collections' names begin.")
    ] = Export().alias,
    keep: Annotated[
        int, typer.Option(min=0, help="Collections of earlier champions that are kept for rollbacks.")
    ] = Export().keep,
    store: StoreUrl = names.DEFAULT_STORE,
    tracking_uri: TrackingUri = None,
    debug: Debug = False,
) -> None:
    """Load an index into Qdrant, one point per passage, and let an alias follow the champion (docs/databases.md)."""
    from multiview.cli.lookup import Lookup
    from multiview.export.qdrant import follow_champion, load_index, open_client

    lookup = Lookup(store, tracking_uri)
    with open_client(None if path else url, path) as client:
        if index in (None, names.CHAMPION):
            loaded = follow_champion(lookup.store, client, alias, keep)
            refers = f"alias {alias} refers to it"
        else:
            loaded = load_index(client, lookup.index(index), alias)
            refers = "no alias was changed"
    if loaded.notice:
        Console(stderr=True).warn(loaded.notice)
    points = f"{counted(loaded.points, 'point')}, {loaded.uploaded} uploaded, {loaded.deleted} deleted"
    print(f"collection {loaded.name}: {points}; {refers}")
