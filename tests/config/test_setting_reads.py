"""Every declared setting is read somewhere."""

import ast

import pytest

from tests.fixtures.imports import module_paths
from tests.fixtures.setting_reads import Source, settings

TEXTS = {module: path.read_text("utf-8") for module, path in module_paths().items()}
SETTINGS = dict(settings())


@pytest.fixture(scope="module")
def source() -> Source:
    return Source({module: ast.parse(text) for module, text in TEXTS.items()})


@pytest.fixture(scope="module")
def reads(source):
    """The syntax trees of all modules."""
    return {module: source.reads(module) for module in TEXTS}


def unread(reads) -> list[str]:
    return [name for name, read in SETTINGS.items() if not any(read in found for found in reads.values())]


def test_every_setting_is_read_somewhere(reads):
    assert len(SETTINGS) > 150 and unread(reads) == []


def without(text: str, places: list[ast.expr]) -> ast.Module:
    """A module with other expressions at `places`: of an attribute its name, of a `getattr` the whole."""
    lines = [line.encode() for line in text.splitlines()]
    for node in sorted(places, key=lambda node: (node.end_lineno, node.end_col_offset), reverse=True):
        stop = node.end_col_offset or 0
        start = stop - len(node.attr.encode()) if isinstance(node, ast.Attribute) else node.col_offset
        line = lines[(node.end_lineno or 0) - 1]
        lines[(node.end_lineno or 0) - 1] = line[:start] + b"gone" + line[stop:]
    return ast.parse(b"\n".join(lines))


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_that_is_read_no_more_is_noticed(name, source, reads):
    """Its reads are taken out of the source, and so is everything that is read there alone, such as both kinds of pods."""
    removed = {module: found[SETTINGS[name]] for module, found in reads.items() if SETTINGS[name] in found}
    changed = {module: source.reads(module, without(TEXTS[module], removed[module])) for module in removed}
    gone = [
        other
        for other, read in SETTINGS.items()
        if all(
            node in removed.get(module, []) for module, found in reads.items() for node in found.get(read, [])
        )
    ]
    assert name in gone and unread(reads | changed) == gone


READING = """
from __future__ import annotations
from typing import Any, Literal
from multiview.config import Train, Config as Everything

class Kept:
    chosen: Train | None
    def __init__(self, settings: Any):
        self.loss = settings.train.temperature

def plain(settings: Any): return settings.train.{name}
def annotated(given: Train): return given.{name}
def named(all: Everything): found, other = all.train, 1; return found.{name}
def kept(it: Kept): return it.chosen.{name}
def got(config: Any, which: Literal["{name}", "other"]): return getattr(config.train, which)
def each(given: list[Train]): return [one.{name} for one in given]

def of_another_section(settings: Any): return settings.generation.{name}
def of_another_thing(stream: Any): return stream.{name}
def of_its_own(kept: Kept): return kept.{name}
def said(): return "train.{name}, settings.train.{name}"
def written(given: Train): given.{name} = 1
"""


def test_a_read_is_not_confused_with_what_looks_like_one():
    source = Source({"reading": ast.parse(READING.format(name="epochs"))})
    lines = [node.lineno for node in source.reads("reading")["Train", "epochs"]]
    found = [READING.splitlines()[line - 1].split("(")[0] for line in lines]
    assert found == ["def plain", "def annotated", "def named", "def kept", "def got", "def each"]
