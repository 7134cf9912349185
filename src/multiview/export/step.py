"""The step `export`: writes the champion's index for other systems, in the formats that the settings name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

from multiview import names
from multiview.config import ExportFormat
from multiview.export.delta import OtherModel, write_delta
from multiview.export.files import FORMAT_VERSION, write_manifest
from multiview.export.model_card import describe, read_subject
from multiview.export.onnx import write_onnx
from multiview.export.parquet import write_views
from multiview.export.sentence_transformers import write_sentence_transformers
from multiview.export.views import IndexViews
from multiview.steps.context import StepContext

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
    model, searched = read_subject(index.address)
    write_sentence_transformers(model.folder(), folder, describe(model, searched))


def _onnx(index: Exported, folder: Path) -> None:
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
