"""Who imports whom: no circles, and packages import only from layers below their own.

Every import counts: at the top of a module, inside a function, and under `TYPE_CHECKING`. The table of steps
names its functions by strings ("multiview.index.build:build_index"): in this way the engine starts what
lies above it without knowing it.
"""

from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.fixtures.imports import LAYERS, Import, imports_of, module_paths
from tests.fixtures.project import ROOT

ONLY_IN = {
    "fastapi": ["multiview.serving"],
    "prometheus_client": ["multiview.serving"],
    "qdrant_client": ["multiview.export"],
    "uvicorn": ["multiview.cli"],
    "mlflow": ["multiview.tracking"],
    "onnx_ir": ["multiview.export"],
    "sentence_transformers": ["multiview.export"],
    "kfp": ["components", "pipelines"],
    "kfp_kubernetes": ["components", "pipelines"],
}
"""Libraries that only these packages import."""

LOOSE = 6
"""So many modules lie right below `multiview` at most, its `__init__` among them."""


EVERY_WAY = """
import a.b
from a import b
from a.b import function
from . import sibling
from ..c import function
"multiview.index.build:build_index"
if TYPE_CHECKING:
    from a import kind
def lazily():
    import numpy.linalg
    importlib.import_module("a.b")
    importlib.import_module(name)
"""


def test_imports_are_found_wherever_they_stand(tmp_path):
    names = ["a", "a.b", "here", "here.package", "here.package.sibling", "here.c"]
    path = tmp_path / "module.py"
    path.write_text(EVERY_WAY)
    found = imports_of("here.package.module", path, names)
    expected = ["a.b", "a.b", "a.b", "here.package.sibling", "here.c", "a", "numpy", "a.b"]
    assert [each.imported for each in sorted(found, key=lambda each: each.line)] == expected


@pytest.fixture(scope="module")
def modules() -> dict[str, Path]:
    return module_paths()


@pytest.fixture(scope="module")
def imports(modules: dict[str, Path]) -> list[Import]:
    return [found for name, path in modules.items() for found in imports_of(name, path, modules)]


def package(module: str) -> str:
    """The package that a module lies in: what is right below `multiview`, and elsewhere the top package."""
    parts = module.split(".")
    return ".".join(parts[: 2 if parts[0] == "multiview" else 1])


def circle(graph: dict[str, set[str]]) -> list[str]:
    """One circle of a graph, its first node again at the end; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1][::-1]
    return []


def packages_above(module: str) -> list[str]:
    parts = module.split(".")
    return [".".join(parts[:length]) for length in range(1, len(parts))]


def module_graph(imports: list[Import], modules: dict[str, Path]) -> dict[str, set[str]]:
    """What each module's import executes: the module named, and the `__init__` of each package above it.

    Not of the importer's own packages, which are being imported already.
    """
    graph = defaultdict(set)
    for importer, imported, _ in imports:
        if imported in modules:
            graph[importer] |= {imported, *packages_above(imported)} - {importer, *packages_above(importer)}
    return graph


def test_no_modules_import_each_other_in_a_circle(imports, modules):
    found = circle(module_graph(imports, modules))
    assert not found, " -> ".join(found)


def layer_of() -> dict[str, int]:
    return {name: layer for layer, names in enumerate(LAYERS) for name in names.split()}


def wrong_way(imports: list[Import], modules: dict[str, Path]) -> list[str]:
    """Imports of a package that is not below, a line each."""
    layers = layer_of()
    lines = (
        f"{modules[importer].relative_to(ROOT)}:{line} imports {imported}"
        for importer, imported, line in imports
        if imported in modules
        and package(imported) != package(importer)
        and layers[package(imported)] >= layers[package(importer)]
    )
    return list(dict.fromkeys(lines))


def test_packages_import_only_packages_of_lower_layers(imports, modules):
    found = wrong_way(imports, modules)
    assert not found, "\n".join(found)


def test_every_package_has_its_layer(modules):
    assert sorted({package(module) for module in modules}) == sorted(layer_of())


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_is_imported_only_in_its_packages(library, imports):
    packages = {package(importer) for importer, imported, _ in imports if imported == library}
    assert packages <= set(ONLY_IN[library])


def test_few_modules_lie_loose(modules):
    assert len([path for path in modules.values() if path.parent == ROOT / "src" / "multiview"]) <= LOOSE
