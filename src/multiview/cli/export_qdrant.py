"""`multiview export qdrant`: loads an index into Qdrant. It imports what it needs when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from multiview import environment, names
from multiview.cli.options import Debug, StoreUrl, TrackingUri
from multiview.config import Export
from multiview.errors import counted


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
        typer.Option(
            help="Instead of a server, the folder of Qdrant's local mode, which one process uses at a time."
        ),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            help="An index's address, models:/NAME@ALIAS or a run's id: its collection is loaded, and no alias changes. Default: "
            "the store's champion, which the alias then refers to."
        ),
    ] = None,
    alias: Annotated[
        str,
        typer.Option(
            help="The alias that follows the champion, and the beginning of the collections' names."
        ),
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
    points = (
        f"{counted(loaded.content.points, 'point')}, {loaded.uploaded} uploaded, {loaded.deleted} deleted"
    )
    print(f"collection {loaded.name}: {points}; {refers}")
