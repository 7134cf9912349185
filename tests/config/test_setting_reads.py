"""Every declared setting is read somewhere."""

import ast

from tests.fixtures.imports import module_paths
from tests.fixtures.setting_reads import Source, settings


def test_every_setting_is_read_somewhere():
    source = Source({module: ast.parse(path.read_text("utf-8")) for module, path in module_paths().items()})
    read = {read for module in source.trees for read in source.reads(module)}
    every = dict(settings())
    assert len(every) > 150 and [name for name, place in every.items() if place not in read] == []


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
