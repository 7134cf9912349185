"""The steps of a refresh that write for other systems: `export`, the champion's index in the formats that the settings
name, and `follow-champion`, which lets a Qdrant server's alias follow the champion and fails nothing where it cannot."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from multiview import names
from multiview.artifacts.champions import current
from multiview.artifacts.record import Record
from multiview.artifacts.store import Store
from multiview.config import Export, ExportFormat
from multiview.errors import InputError, one_line
from multiview.export.delta import OtherModel, write_delta
from multiview.export.files import FORMAT_VERSION, write_manifest, write_views
from multiview.export.qdrant import Loaded, follow_champion, open_client
from multiview.export.views import IndexViews
from multiview.steps.context import StepContext

FOLLOWED_FILE = "collection.json"

EXPORT_FORMAT = "export"
"""The format that the manifest of the step's output names; each folder below it has its own."""


@dataclass(frozen=True)
class Exported:
    """An index and the index that it replaced, by address; each is opened when a format first needs it."""

    address: str
    replaced: str

    @cached_property
    def views(self) -> IndexViews:
        """The index."""
        return IndexViews.open(self.address)

    @cached_property
    def views_before(self) -> IndexViews:
        """The index that was replaced; for the first champion an empty one."""
        return IndexViews.open(self.replaced)


Write: TypeAlias = Callable[[Exported, Path], object]
"""A function that writes one format of an index into a new folder."""


def _views(index: Exported, folder: Path) -> None:
    write_views(index.views, folder)


def _delta(index: Exported, folder: Path) -> None:
    write_delta(index.views_before, index.views, folder)


def _model(index: Exported, folder: Path) -> None:
    from multiview.export.model_card import describe, read_subject
    from multiview.export.sentence_transformers import write_sentence_transformers  # late: it imports torch

    model, searched = read_subject(index.address)
    write_sentence_transformers(model.folder(), folder, describe(model, searched))


def _onnx(index: Exported, folder: Path) -> None:
    from multiview.export.model_card import read_subject
    from multiview.export.onnx import write_onnx  # late: it imports torch

    write_onnx(read_subject(index.address)[0].folder(), folder)


FORMATS: dict[ExportFormat, Write] = {"views": _views, "delta": _delta, "model": _model, "onnx": _onnx}
"""The formats by their names in `export.formats`, which are the names of their folders too."""


def export(context: StepContext) -> None:
    """Step: write `index` in each format of `settings.export.formats`, a folder per format.

    The delta is from the index `replaced`; where that is of another model, it is left out with a warning. The model's
    card tells the evaluations of the index that the store has. `export.json` names the index and the formats that were
    written. Nothing is written of an index without passages.
    """
    folder = context.output(names.EXPORT)
    index = Exported(
        context.recorded_input(names.INDEX).address, context.recorded_input(names.REPLACED).address
    )
    written: list[str] = []
    for name in dict.fromkeys(context.settings.export.formats) if index.views.passages else ():
        try:
            FORMATS[name](index, folder / name)
        except OtherModel as error:
            context.events.warning(f"export.formats: {name} is left out: {error}")
        else:
            written.append(name)
    described = {"format": EXPORT_FORMAT, "version": FORMAT_VERSION, "formats": written}
    write_manifest(folder, {**described, **asdict(index.views.name)})
    context.events.fact("exported", ", ".join(written))


def follow(context: StepContext) -> None:
    """Step: let the alias `settings.export.alias` of the server `settings.export.qdrant_url` refer to the champion's collection.

    Writes `collection.json`: the alias, the champion's number and its collection, null where there is no champion or
    the server cannot be reached. That is a warning, and the next refresh tries again.
    """
    settings, now, loaded = context.settings.export, current(context.store), None
    assert settings.qdrant_url, "the plan has this step only with a server"
    if now:
        loaded = try_to_follow(context.store, settings.qdrant_url, settings, context.events.warning)
    described = {
        "alias": settings.alias,
        "champion": now and now.number,
        "collection": loaded and loaded.name,
        "digest": loaded and loaded.content.digest,
    }
    folder = context.output(names.FOLLOWED)
    (folder / FOLLOWED_FILE).write_text(json.dumps(described, indent=1) + "\n")
    context.events.fact("champion", now.number if now else 0)
    context.events.fact("collection", loaded.name if loaded else "")


def still_follows(store: Store, record: Record) -> bool:
    """Returns whether a step let the alias follow the champion that the store names now. The server is not asked."""
    now = current(store)
    return now is not None and bool(record.facts["collection"]) and record.facts["champion"] == now.number


def try_to_follow(
    store: Store, url: str, settings: Export, report_warning: Callable[[str], object]
) -> Loaded | None:
    """Lets a server's alias follow the champion (see `follow_champion`), and returns the collection.

    What goes wrong is reported as a warning of one line with the command that makes up for it; then returns None.
    """
    try:
        with open_client(url) as client:
            return follow_champion(store, client, settings.alias, settings.keep)
    except Exception as error:  # the champion is promoted already, whatever a database says
        line = str(error) if isinstance(error, InputError) else one_line(error)
        words = ["--url", url, "--store", store.url, "--alias", settings.alias, "--keep", str(settings.keep)]
        report_warning(
            f"{line}; alias {settings.alias} does not follow the champion until this succeeds: "
            f"multiview export qdrant {shlex.join(words)}"
        )
        return None
