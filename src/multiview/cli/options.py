"""Options that several commands take, of `multiview` and of `python -m pipelines`: each is declared once."""

from __future__ import annotations

from typing import Annotated

import typer
from typer.models import OptionInfo

from multiview import environment


def _store(description: str) -> OptionInfo:
    return typer.Option("--store", envvar=environment.STORE, help=description)


StoreUrl = Annotated[str, _store("Local folder, or gs:// or s3:// URL, of the artifacts.")]
BucketUrl = Annotated[str | None, _store("gs:// or s3:// URL of the artifacts; default: the profile's.")]
IndexStoreUrl = Annotated[
    str | None,
    _store("Local folder, or gs:// or s3:// URL, of the artifacts; default: the address's, else store."),
]
EarlierStoreUrl = Annotated[
    str | None,
    _store(
        "Local folder, or gs:// or s3:// URL, of the artifacts; default: the store of the (first) earlier run."
    ),
]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri",
        envvar=environment.MLFLOW_TRACKING_URI,
        help="URI of MLflow; default: mlflow.db in a local store, else in the current folder.",
    ),
]
Preset = Annotated[str | None, typer.Option("--preset", help="A preset's name, or a YAML file.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.NAME=VALUE", help="Override a setting; repeatable."),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, only print what would be done.")]
Wait = Annotated[bool, typer.Option("--wait", help="On Kubeflow: follow the run to its end.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks, and KFP's own output.")]
