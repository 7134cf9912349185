"""The steps of a refresh that write for other systems: `export` writes the champion's index in the formats that the
settings name; `follow-champion` points a Qdrant server's alias at the champion, and only warns if it cannot."""

import json
import shlex
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from multiview import names
from multiview.artifacts.champions import current
from multiview.artifacts.record import Record
from multiview.artifacts.staging import stage
from multiview.artifacts.store import Store
from multiview.config import Export, ExportFormat
from multiview.errors import one_line, without_secrets
from multiview.export.files import FORMAT_VERSION, write_manifest, write_views
from multiview.export.qdrant import IndexCollection, follow_champion, open_client
from multiview.export.views import IndexViews
from multiview.steps.context import StepContext


def export(context: StepContext) -> None:
    """Step: write `index` in each format of `settings.export.formats`, a folder per format. `export.json` names the
    index and the formats that were written; of an index without passages, none are."""
    folder = context.output(names.EXPORT)
    address = context.recorded_input(names.INDEX).address
    opened = IndexViews.open(address)
    if notice := opened.notice:
        context.events.warning(notice)
    written = list(dict.fromkeys(context.settings.export.formats)) if len(opened.index) else []
    for name in written:
        _write(name, opened, address, folder / name)
    described = {"format": "export", "version": FORMAT_VERSION, "formats": written}
    write_manifest(folder, {**described, **asdict(opened.name)})
    context.events.fact(exported=", ".join(written))


def _write(name: ExportFormat, views: IndexViews, address: str, folder: Path) -> None:
    # Imported only now, because they import torch.
    from multiview.export.model_card import describe, question_length, read_subject
    from multiview.export.onnx import write_onnx
    from multiview.export.sentence_transformers import write_sentence_transformers

    model, searched = read_subject(address)
    match name:
        case "views":
            write_views(views, folder)
        case "model":
            write_sentence_transformers(stage(*model).path, folder, describe(model, searched))
        case "onnx":
            write_onnx(stage(*model).path, folder, question_length(searched))


def follow(context: StepContext) -> None:
    """Step: let the alias `settings.export.alias` of the server `settings.export.qdrant_url` refer to the champion's
    collection. Writes `collection.json`: the alias, the champion's number and its collection, null if there is no
    champion or the alias could not be set. The latter is a warning, and the next refresh tries again."""
    settings, now, loaded = context.settings.export, current(context.store), None
    assert settings.qdrant_url, "the plan has this step only with a server"
    if now:
        loaded = try_to_follow(context.store, settings.qdrant_url, settings, context.events.warning)
    described = {
        "alias": settings.alias,
        "champion": now and now.number,
        "collection": loaded and loaded.name,
    }
    (context.output(names.FOLLOWED) / "collection.json").write_text(json.dumps(described, indent=1) + "\n")
    context.events.fact(champion=now.number if now else 0, collection=loaded.name if loaded else "")


def still_follows(store: Store, record: Record) -> bool:
    """Returns whether a step, by its record, pointed the alias at the store's current champion; asks no server."""
    now = current(store)
    return now is not None and bool(record.facts["collection"]) and record.facts["champion"] == now.number


def try_to_follow(
    store: Store, url: str, settings: Export, report_warning: Callable[[str], object]
) -> IndexCollection | None:
    """Lets a server's alias follow the champion (see `follow_champion`), and returns the collection. If anything
    goes wrong, reports a warning of one line, with the command that makes up for it, and returns None."""
    try:
        with open_client(url) as client:
            loaded = follow_champion(store, client, settings.alias, settings.keep)
    except Exception as error:  # the champion is promoted already, whatever a database says
        shown, alias, keep = without_secrets(url), settings.alias, str(settings.keep)
        words = ["--url", shown, "--store", store.url, "--alias", alias, "--keep", keep]
        report_warning(
            f"{one_line(error)}; alias {settings.alias} does not follow the champion until this succeeds: "
            f"multiview export qdrant {shlex.join(words)}"
        )
        return None
    if loaded.notice:
        report_warning(loaded.notice)
    return loaded
