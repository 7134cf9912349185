"""Options shared by commands of `multiview` and `python -m pipelines`, each declared once."""

import inspect
import tempfile
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from pydantic import BaseModel
from typer.models import OptionInfo

from multiview import environment
from multiview.errors import InputError


def _store(description: str) -> OptionInfo:
    return typer.Option("--store", envvar=environment.STORE, help=description)


STORE_HELP = "Local folder, or gs:// or s3:// URL, of the artifacts"
StoreUrl = Annotated[str, _store(f"{STORE_HELP}.")]
BucketUrl = Annotated[str | None, _store("gs:// or s3:// URL of the artifacts; default: the profile's.")]
IndexStoreUrl = Annotated[str | None, _store(f"{STORE_HELP}; default: the address's, else store.")]
EarlierStoreUrl = Annotated[
    str | None, _store(f"{STORE_HELP}; default: the store of the (first) earlier run.")
]
TrackingUri = Annotated[
    str | None,
    typer.Option(
        "--tracking-uri",
        envvar=environment.MLFLOW_TRACKING_URI,
        help="URI of MLflow; default: mlflow.db in a local store, else in the current folder.",
    ),
]
Presets = Annotated[
    list[str] | None,
    typer.Option("--preset", help="A preset's name, or a YAML file; repeatable, later ones win."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="SECTION.NAME=VALUE", help="Override a setting; repeatable."),
]
Index = Annotated[
    str | None,
    typer.Option(
        envvar=environment.INDEX,
        help="An index's address, models:/NAME@ALIAS, a run's id, champion or challenger. Default: the store's champion, or "
        "where there is none, the index of the newest finished run.",
    ),
]
Device = Annotated[str, typer.Option(help="cpu, cuda, or auto.")]
Views = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Search the first views of each passage alone, this many (architecture meta). Default: all.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Change nothing, only print what would be done.")]
Wait = Annotated[bool, typer.Option("--wait", help="On Kubeflow: follow the run to its end.")]
Again = Annotated[
    bool, typer.Option("--again", help="On Kubeflow: start another run beside one that has been silent.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks, and what steps print.")]
"""Taken by every command, and read by `multiview.cli.app`, which prints what commands raise."""


def options_of(section: type[BaseModel], panel: str, optional: bool = False) -> list[inspect.Parameter]:
    """Returns an option for each setting of a section, with its docstring, default, bounds and environment variable
    (`json_schema_extra`), listed in the help under `panel`. With `optional`, an option that is not given is None,
    whatever the setting's default. The section's own validators check the values."""
    options, kinds = [], get_type_hints(section)  # without validators, which Typer would call
    for name, field in section.model_fields.items():
        extra: Any = field.json_schema_extra or {}
        bounds: Any = {
            word: getattr(limit, bound)
            for limit in field.metadata
            for word, bound in (("min", "ge"), ("max", "le"))
            if hasattr(limit, bound)
        }
        flag, about = f"--{name.replace('_', '-')}", field.description
        option = typer.Option(flag, envvar=extra.get("variable"), help=about, rich_help_panel=panel, **bounds)
        kind, default = kinds[name], None if optional else field.default
        annotation = Annotated[kind | None if optional else kind, option]
        keyword = inspect.Parameter.KEYWORD_ONLY
        options.append(inspect.Parameter(name, keyword, default=default, annotation=annotation))
    return options


def with_options(
    argument: str, options: Sequence[inspect.Parameter], gather: Callable[[dict[str, Any]], object]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command further options; `gather` turns their values by name into the command's `argument`."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters.values()
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in (*own, *options)
            if parameter.name != argument
        ]

        @wraps(command)
        def call(**values: Any) -> None:
            further = {option.name: values.pop(option.name) for option in options}
            command(**values, **{argument: gather(further)})

        call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return call

    return decorated


def check_folder(option: str, folder: Path) -> None:
    """Raises InputError for an option's folder that cannot be made or written to, before work begins. Tries to
    write in the folder, or its nearest existing parent, and leaves nothing there."""
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{option} {folder}: it is a file; name a folder")
    nearest = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.exists())
    try:
        with tempfile.TemporaryDirectory(dir=nearest):
            pass
    except OSError as error:
        raise InputError(
            f"{option} {folder}: nothing can be written in {nearest} ({error.strerror}); name another folder"
        ) from None
