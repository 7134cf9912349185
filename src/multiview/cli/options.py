"""Options that several commands take, each declared once."""

from __future__ import annotations

from typing import Annotated

import typer

Preset = Annotated[str | None, typer.Option("--preset", help="A preset's name, or a YAML file.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.NAME=VALUE", help="Override a setting; repeatable."),
]
StoreUrl = Annotated[
    str,
    typer.Option(
        "--store", envvar="MULTIVIEW_STORE", help="Local folder, or gs:// or s3:// URL, of the artifacts."
    ),
]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri", envvar="MLFLOW_TRACKING_URI", help="MLflow; default: mlflow.db in the store."
    ),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks, and KFP's own output.")]
