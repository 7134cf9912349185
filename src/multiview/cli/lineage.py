"""`multiview lineage`: the tree of an artifact's inputs, or one JSON object with every record."""

import json
from collections import Counter
from collections.abc import Sequence

from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text
from rich.tree import Tree

from multiview.artifacts.record import Record
from multiview.cli.console import Console
from multiview.cli.settings import flattened
from multiview.config import JsonObject
from multiview.errors import InputError, counted
from multiview.lineage.trace import Lineage, LineageInput, LineageNode, flaws

SHORT = 12
"""Digits of a digest or commit that are shown."""
WIDE = 10_000
"""Width of output to a file or pipe: no line is broken, so that all can be searched."""
FILES = 3
"""Number of source files that are named; the others are counted."""


def show_lineage(lineage: Lineage, *, verify: bool = False, json: bool = False) -> None:
    """Print a lineage; with `verify`, also read every byte of it. Raises InputError with the first flaw."""
    console, log = Console(), Console(stderr=True, soft_wrap=True)
    if not json:
        print_lineage(console, lineage)
    lines = read_all(log, lineage) if verify else lineage.broken
    if json:
        print(as_json(lineage, lines))
    if lines:
        raise InputError(lines[0] + (f" (and {len(lines) - 1} more)" if len(lines) > 1 else ""))
    if verify and not json:
        console.print(verified(lineage))


def print_lineage(console: Console, lineage: Lineage) -> None:
    """Print a tree for each root. An artifact that several steps read is shown once, and named where it is read again."""
    if not console.is_terminal:
        console.width = WIDE
    shown: set[LineageNode] = set()
    for root in lineage.roots:
        top = Tree("")
        _add(top, "", root, shown)
        console.print(top.children[0])
    console.print(Text(f"{counted(len(lineage.nodes), 'artifact')}, {decimal(lineage.bytes)}", "dim"))


def _add(parent: Tree, name: str, artifact: LineageInput, shown: set[LineageNode]) -> None:
    """Adds an artifact, and all that it was made from, to a tree; one that was `shown` before is added only by name."""
    node = artifact.node
    again = node in shown
    label = _line(name, artifact, again)
    branch = parent.add(label)
    if node is None or again:
        return
    # The step is described once, even if it has several outputs.
    step_is_shown = any(other.record.key == node.record.key for other in shown)
    for line in [Text(f"{node.record.step}, as above", "dim")] if step_is_shown else _details(node.record):
        label.append("\n").append_text(line)
    if node.last:
        label.append(f"\nwhat made it: multiview lineage {node.address}", "dim")
    shown.add(node)
    for name, artifacts in node.inputs.items():
        for read in artifacts:
            _add(branch, name, read, shown)


def _line(name: str, artifact: LineageInput, again: bool) -> Text:
    """The line of an artifact in the tree: name of the input, kind and key, rows, bytes and digest."""
    text, node = Text().append(f"{name}: " if name else "", "dim"), artifact.node
    if node is None:
        return text.append(artifact.reference.address, "red").append(f"  {artifact.flaw}", "red")
    record = node.record
    text.append(record.kind, "bold").append(f"/{record.key}")
    if artifact.reference.file:
        text.append(f" {artifact.reference.file}")
    if again:
        return text.append("  (above)", "dim")
    if node.collected:
        return text.append(f"  collected  {record.digest[:SHORT]}", "dim")
    rows = f"{counted(node.rows, 'row')}, " if node.rows is not None else ""
    return text.append(f"  {rows}{decimal(node.bytes)}  {record.digest[:SHORT]}", "dim")


def _details(record: Record) -> list[Text]:
    """The step of an artifact, its time and its code; settings that are not defaults; sources."""
    created = f"{record.created[:16].replace('T', ' ')} UTC"
    code = _code(record.environment)
    step = f"{record.step}, version {record.step_version}, {created}, {record.seconds:.1f} s"
    lines = [Text(f"{step}{', by ' if code else ''}{', '.join(code)}", "dim")]
    if record.config:
        settings = [f"{name}={value}" for name, value in flattened(record.config) if value != "{}"]
        lines += [Text(", ".join(settings), "cyan")] if settings else []
    lines += [Text(line, "green") for line in _sources(record.sources)]
    return lines


def _code(environment: JsonObject) -> list[str]:
    """The commit and the image of the code that ran; the version of multiview where neither is known."""
    code = []
    if commit := environment.get("git_sha"):
        code.append(commit[:SHORT] + ("-dirty" if commit.endswith("-dirty") else ""))
    if name := environment.get("image"):
        image, at, digest = name.rsplit("/", 1)[-1].partition("@sha256:")
        code.append(f"{image}@{digest[:SHORT]}" if at else image)
    if "multiview" in environment and not code:
        code.append(f"multiview {environment['multiview']}")
    return code


def _sources(sources: JsonObject) -> list[str]:
    """One line per source outside the store: files with their digests, or a hub model with its commit."""
    if "hub" in sources:
        return [f"hub {sources['hub']} at {sources['commit'][:SHORT]}"]
    lines = []
    for name, source in sources.items():
        if isinstance(source, list) and source:
            more = f" and {len(source) - FILES} more" if len(source) > FILES else ""
            lines.append(f"{name}: {', '.join(_file(file) for file in source[:FILES])}{more}")
        elif isinstance(source, dict):
            lines += [f"{name}: {line}" for line in _sources(source)]
        elif isinstance(source, str):
            lines.append(f"{name} {source[:SHORT]}")
    return lines


def _file(file: JsonObject) -> str:
    """The name of a source file, and the beginning of its checksum, ETag or date."""
    identity = next((str(value) for name, value in file.items() if name not in ("name", "bytes")), "")
    return f"{file['name']} {identity[:SHORT]}".rstrip()


def as_json(lineage: Lineage, flaw_lines: Sequence[str]) -> str:
    """Returns the artifacts of a lineage with their whole records, and its flaws; inputs and roots are named by address."""
    content = {
        "roots": [_named(root) for root in lineage.roots],
        "artifacts": [
            {
                "address": node.address,
                **node.record.model_dump(mode="json"),
                "inputs": {name: [_named(read) for read in inputs] for name, inputs in node.inputs.items()},
            }
            for node in lineage.nodes
        ],
        "flaws": list(flaw_lines),
    }
    return json.dumps(content, indent=1)


def _named(artifact: LineageInput) -> dict[str, str]:
    """An artifact by its address, in the store where it was found."""
    reference = artifact.reference
    address = artifact.node.address if artifact.node else reference.address
    file = {"file": reference.file} if reference.file else {}
    return {"address": address, "digest": reference.digest, **file}


def read_all(log: Console, lineage: Lineage) -> list[str]:
    """Read every byte of a lineage under a progress bar, and return one line per flaw."""
    columns = TextColumn("verifying"), BarColumn(), DownloadColumn(), TimeRemainingColumn()
    with Progress(*columns, console=log, transient=True, disable=not log.is_terminal) as progress:
        task = progress.add_task("verifying", total=lineage.bytes)
        return list(flaws(lineage, lambda size: progress.advance(task, size)))


def verified(lineage: Lineage) -> str:
    """Returns how many artifacts were read, how many of them from other stores, and how many had been collected."""
    collected = sum(node.collected for node in lineage.nodes)
    more = f"; the files of {collected} more were collected" if collected else ""
    read = len(lineage.nodes) - collected
    own = {root.node.store.url for root in lineage.roots if root.node}
    others = Counter(node.store.url for node in lineage.nodes if not node.collected)
    elsewhere = "".join(f"; {count} of them in {url}" for url, count in others.items() if url not in own)
    return f"verified: {counted(read, 'artifact')}, every byte as it was written{elsewhere}{more}"
