"""A lineage as a person reads it, and as a program does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text
from rich.tree import Tree

from multiview.artifacts.record import Record
from multiview.lineage.trace import Input, Lineage, Node, flaws

SHORT = 12
"""Digits of a digest or commit that are shown."""
WIDE = 10_000
FILES = 3
"""Source files that are named; the others are counted."""


def print_lineage(console: Console, lineage: Lineage) -> None:
    """A tree for each root. An artifact that several steps read is shown once, and named where it is read again."""
    if not console.is_terminal:  # where lines fold; elsewhere each is whole, to be searched
        console.width = WIDE
    shown: set[Node] = set()
    told: set[str] = set()
    for root in lineage.roots:
        top = Tree("")
        pending = [(top, "", root)]
        while pending:
            parent, name, one = pending.pop()
            again = one.node in shown
            branch = parent.add(_line(name, one, again))
            if one.node is None or again:
                continue
            shown.add(one.node)
            key = one.node.record.key
            same = Text().append(f"{one.node.record.step}, as above", "dim")
            for line in [same] if key in told else _details(one.node):
                branch.label.append("\n").append_text(line)  # type: ignore[union-attr]
            if one.node.last:
                branch.label.append(f"\nwhat made it: multiview lineage {one.node.address}", "dim")  # type: ignore[union-attr]
            told.add(key)
            inputs = [(branch, name, each) for name, of in one.node.inputs.items() for each in of]
            pending += reversed(inputs)
        console.print(top.children[0])
    several = f"{len(lineage.nodes)} artifacts, {decimal(lineage.bytes)}"
    console.print(Text(several, "dim"))


def _line(name: str, one: Input, again: bool) -> Text:
    """The artifact, where it stands in the tree."""
    text = Text().append(f"{name}: " if name else "", "dim")
    if one.node is None:
        return text.append(one.reference.address, "red").append(f"  {one.flaw}", "red")
    record = one.node.record
    text.append(record.kind, "bold").append(f"/{record.key}")
    if one.reference.file:
        text.append(f" {one.reference.file}")
    if again:
        return text.append("  (above)", "dim")
    if one.node.collected:
        return text.append(f"  collected  {record.digest[:SHORT]}", "dim")
    size = decimal(one.node.bytes)
    rows = f"{one.node.rows:,} rows, " if one.node.rows is not None else ""
    return text.append(f"  {rows}{size}  {record.digest[:SHORT]}", "dim")


def _details(node: Node) -> list[Text]:
    """Under an artifact: its step and when; settings that are not defaults; sources; code."""
    record = node.record
    environment = record.environment
    when = record.created[:16].replace("T", " ")
    code = [environment["git_sha"][:SHORT] + _dirty(environment)] if "git_sha" in environment else []
    code += [_image(environment["image"])] if "image" in environment else []
    code += [f"multiview {environment['multiview']}"] if "multiview" in environment and not code else []
    step = f"{record.step} {record.step_version}, {when}, {record.seconds:.1f} s"
    lines = [Text().append(f"{step}{', by ' if code else ''}{', '.join(code)}", "dim")]
    if settings := _settings(record.config):
        lines.append(Text().append(", ".join(settings), "cyan"))
    lines += [Text().append(line, "green") for line in sources_of(record)]
    return lines


def _dirty(environment: Mapping[str, Any]) -> str:
    return "-dirty" if environment["git_sha"].endswith("-dirty") else ""


def _image(name: str) -> str:
    """An image without its registry, its digest shortened."""
    image, _, digest = name.rsplit("/", 1)[-1].partition("@sha256:")
    return f"{image}@{digest[:SHORT]}" if digest else image


def _settings(config: Mapping[str, Any], prefix: str = "") -> list[str]:
    found = []
    for name, value in config.items():
        if isinstance(value, dict):
            found += _settings(value, f"{prefix}{name}.")
        else:
            found.append(f"{prefix}{name}={value if isinstance(value, str) else json.dumps(value)}")
    return found


def sources_of(record: Record) -> list[str]:
    """What a step read from outside the store, a line each: files with digests, a hub model with its commit."""
    sources = record.sources
    if "hub" in sources:
        return [f"hub {sources['hub']} at {sources['commit'][:SHORT]}"]
    lines = []
    for name, found in sources.items():
        if isinstance(found, list) and found:
            more = f" and {len(found) - FILES} more" if len(found) > FILES else ""
            lines.append(f"{name}: {', '.join(_file(file) for file in found[:FILES])}{more}")
        elif isinstance(found, dict):
            lines += [f"{name}: {line}" for line in sources_of(record.model_copy(update={"sources": found}))]
        elif isinstance(found, str):
            lines.append(f"{name} {found[:SHORT]}")
    return lines


def _file(file: Mapping[str, Any]) -> str:
    """A source file: its name, and what its content was known by."""
    known = next((str(value) for name, value in file.items() if name not in ("name", "bytes")), "")
    return f"{file['name']} {known[:SHORT]}".rstrip()


def as_json(lineage: Lineage, found: Sequence[str]) -> str:
    """The artifacts, each once with its whole record; inputs and roots name them by address. `found` are flaws."""
    content = {
        "roots": [_named(root) for root in lineage.roots],
        "artifacts": [
            {
                "address": node.address,
                **node.record.model_dump(mode="json"),
                "inputs": {name: [_named(one) for one in of] for name, of in node.inputs.items()},
            }
            for node in lineage.nodes
        ],
        "flaws": list(found),
    }
    return json.dumps(content, indent=1)


def _named(one: Input) -> dict[str, Any]:
    address = one.node.address if one.node else one.reference.address
    file = {"file": one.reference.file} if one.reference.file else {}
    return {"address": address, "digest": one.reference.digest, **file}


def verified(lineage: Lineage) -> str:
    """What was read, and what is not there to be read."""
    collected = sum(node.collected for node in lineage.nodes)
    more = f"; the files of {collected} more were collected" if collected else ""
    return f"verified: {len(lineage.nodes) - collected} artifacts, every byte as it was written{more}"


def verify(console: Console, lineage: Lineage) -> list[str]:
    """Read all bytes under a progress bar: the lines of what is broken."""
    columns = TextColumn("verifying"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("verifying", total=lineage.bytes)
        return list(flaws(lineage, lambda read: progress.advance(task, read)))
