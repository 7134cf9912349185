"""Which settings the source reads, told from its syntax: attributes of what is a section of the configuration.

What an expression is, is told by annotations (of parameters, attributes and returned values), by assignments, and by
one rule: what is called `settings` or `config` and is no section by its annotation is the whole configuration.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from multiview.config import Config, Section

ROOTS = ("settings", "config")
Types = frozenset[str]
"""The classes that an expression may have: a section by its name, any other by its module too; empty: not known."""
UNKNOWN: Types = frozenset()
Read = tuple[str, str]
"""Name of a section's class, and of one of its settings."""
Places = dict[Read, list[ast.expr]]
"""The expressions of a module that read a setting."""


def _sections(kind: type[Section]) -> dict[str, dict[str, str]]:
    """Each section's class by name, with its settings: to the name of the section that one is, empty for a value."""
    found: dict[str, dict[str, str]] = {kind.__name__: {}}
    for name, setting in kind.model_fields.items():
        inner = setting.annotation
        if isinstance(inner, type) and issubclass(inner, Section):
            found |= _sections(inner)
            found[kind.__name__][name] = inner.__name__
        else:
            found[kind.__name__][name] = ""
    return found


SECTIONS = _sections(Config)


def settings(kind: str = "Config", path: str = "") -> Iterator[tuple[str, Read]]:
    """Every setting by its dotted name, with what reads it."""
    for name, inner in SECTIONS[kind].items():
        if inner:
            yield from settings(inner, f"{path}{name}.")
        else:
            yield f"{path}{name}", (kind, name)


class Source:
    """Modules by their dotted names, and what their annotations say."""

    def __init__(self, trees: Mapping[str, ast.Module]) -> None:
        self.trees = trees
        self.scopes = {module: dict(_scope(module, tree)) for module, tree in trees.items()}
        self.attributes: dict[str, dict[str, Types]] = {name: {} for name in SECTIONS}
        """Class to attribute or method to what it is or returns."""
        self.bases: dict[str, list[str]] = {}
        self.returns: dict[str, Types] = {}
        classes = [
            (module, self.scopes[module].get(node.name, f"{module}.{node.name}"), node)
            for module, tree in trees.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.ClassDef)
        ]
        for module, name, node in classes:
            self.attributes.setdefault(name, {})
            self.bases[name] = [b.id for b in node.bases if isinstance(b, ast.Name)]
            self.bases[name] = [self.scopes[module].get(base, base) for base in self.bases[name]]
        for module, tree in trees.items():
            for node in tree.body:
                if isinstance(node, ast.FunctionDef):
                    self.returns[f"{module}.{node.name}"] = self.annotated(module, node.returns)
        for module, name, node in classes:
            self.attributes[name] |= self._declared(module, node)

    def _declared(self, module: str, node: ast.ClassDef) -> dict[str, Types]:
        found: dict[str, Types] = {}
        for inner in ast.walk(node):
            match inner:
                case ast.AnnAssign(
                    target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=annotation
                ):
                    found[name] = self.annotated(module, annotation)
                case ast.FunctionDef(name=name, returns=returns):
                    found[name] = self.annotated(module, returns)
                    reader = Reader(self, module)
                    reader.names.append(reader.parameters(inner))
                    for assign in ast.walk(inner):
                        match assign:
                            case ast.Assign(targets=[ast.Attribute(ast.Name("self"), attr)], value=value):
                                found.setdefault(attr, reader.types(value))
        return found

    def annotated(self, module: str, annotation: ast.expr | None) -> Types:
        """The classes that an annotation names; a container of some is taken for one of them."""
        names: set[str] = set()
        for node in ast.walk(annotation) if annotation else ():
            match node:
                case ast.Name(id=name):
                    names.add(self.scopes[module].get(name, name))
                case ast.Constant(value=str(text)) if text.isidentifier():
                    names.add(self.scopes[module].get(text, text))
        return frozenset(names & self.attributes.keys())

    def attribute(self, kind: str, name: str) -> Types:
        if kind in SECTIONS:
            return frozenset([inner]) if (inner := SECTIONS[kind].get(name)) else UNKNOWN
        for owner in (kind, *self.bases.get(kind, ())):
            if name in self.attributes.get(owner, ()):
                return self.attributes[owner][name]
        return UNKNOWN

    def reads(self, module: str, tree: ast.Module | None = None) -> Places:
        """The reads of settings in a module, or in `tree` instead, outside of the sections' own classes."""
        reader = Reader(self, module)
        reader.visit(tree or self.trees[module])
        found: Places = defaultdict(list)
        for (kind, name), node in reader.reads:
            for section in SECTIONS:
                if section == kind or kind in self.bases.get(section, ()):
                    found[section, name].append(node)
        return found


def _scope(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What a module's names stand for: what it defines and what it imports, by their dotted names."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(origin), names=aliases):
                for alias in aliases:
                    is_section = origin.startswith("multiview.config") and alias.name in SECTIONS
                    yield alias.asname or alias.name, alias.name if is_section else f"{origin}.{alias.name}"
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) if node in tree.body:
                is_section = module.startswith("multiview.config") and name in SECTIONS
                yield name, name if is_section else f"{module}.{name}"


def _literals(function: ast.FunctionDef) -> Iterator[tuple[str, set[str]]]:
    """The values of parameters that are annotated with some."""
    for argument in function.args.args:
        for node in ast.walk(argument.annotation) if argument.annotation else ():
            match node:
                case ast.Subscript(ast.Name("Literal"), values):
                    strings = (n.value for n in ast.walk(values) if isinstance(n, ast.Constant))
                    yield argument.arg, {value for value in strings if isinstance(value, str)}


class Reader(ast.NodeVisitor):
    """Finds the reads of settings in a module."""

    def __init__(self, source: Source, module: str) -> None:
        self.source, self.module, self.scope = source, module, source.scopes[module]
        self.names: list[dict[str, Types]] = [{}]
        self.classes: list[str] = []
        self.values: list[dict[str, set[str]]] = [{}]
        """What parameters may be that are annotated as a `Literal`."""
        self.reads: list[tuple[Read, ast.expr]] = []

    def types(self, node: ast.expr) -> Types:
        """What an expression may be; the whole configuration where only its name says so."""
        found = self._types(node)
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return frozenset(["Config"]) if name in ROOTS and not found & SECTIONS.keys() else found

    def _types(self, node: ast.expr) -> Types:
        match node:
            case ast.Name(name):
                return next((names[name] for names in reversed(self.names) if name in names), UNKNOWN)
            case ast.Attribute(value, name):
                return self._joined(self.source.attribute(owner, name) for owner in self.types(value))
            case ast.Call(ast.Attribute(value, "model_copy" | "model_validate" | "model_validate_json")):
                return self.types(value) or self.source.annotated(self.module, value)
            case ast.Call(ast.Name() | ast.Attribute() as function):
                name = self._dotted(function)
                made = frozenset([name] if name in self.source.attributes else ())
                return made or self.source.returns.get(name, UNKNOWN) or self.types(function)
            case ast.Subscript(value) | ast.NamedExpr(_, value) | ast.Starred(value):
                return self.types(value)
            case ast.IfExp(_, body, other):
                return self.types(body) | self.types(other)
            case ast.BoolOp(_, values) | ast.Tuple(values) | ast.List(values):
                return self._joined(map(self.types, values))
        return UNKNOWN

    @staticmethod
    def _joined(types: Iterator[Types]) -> Types:
        return UNKNOWN.union(*types)

    def _dotted(self, node: ast.expr) -> str:
        match node:
            case ast.Name(name):
                return self.scope.get(name, name)
            case ast.Attribute(value, name):
                return f"{self._dotted(value)}.{name}"
        return ""

    def parameters(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> dict[str, Types]:
        given = function.args
        found = {
            argument.arg: self.source.annotated(self.module, argument.annotation)
            for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)
        }
        return found | {"self": frozenset(self.classes[-1:])} if "self" in found else found

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.ctx, ast.Load):
            self._note(node, node.value, {node.attr})
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        match node:
            case ast.Call(ast.Name("getattr"), [section, ast.Constant(str(name)), *_]):
                self._note(node, section, {name})
            case ast.Call(ast.Name("getattr"), [section, ast.Name(name), *_]):
                self._note(node, section, self.values[-1].get(name, set()))
        self.generic_visit(node)

    def _note(self, node: ast.expr, section: ast.expr, names: set[str]) -> None:
        for kind in self.types(section) & SECTIONS.keys():
            self.reads += [((kind, name), node) for name in names if name in SECTIONS[kind]]

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        if (name := self.scope.get(node.name, node.name)) not in SECTIONS:
            self.classes.append(name)
            self.generic_visit(node)
            self.classes.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self.names.append(self.parameters(node))
        self.values.append(dict(_literals(node)))
        self.generic_visit(node)
        self.names.pop()
        self.values.pop()

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        for target in node.targets:
            self._bind(target, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self.generic_visit(node)
        if isinstance(node.target, ast.Name):
            self.names[-1][node.target.id] = self.source.annotated(self.module, node.annotation)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.generic_visit(node)
        self._bind(node.target, node.value)

    def visit_For(self, node: ast.For) -> None:
        self._bind(node.target, node.iter)
        self.generic_visit(node)

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> None:
        for generator in node.generators:
            self._bind(generator.target, generator.iter)
        self.generic_visit(node)

    visit_ListComp = visit_SetComp = visit_GeneratorExp = visit_DictComp = _comprehension

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        match target, value:
            case ast.Tuple(targets), ast.Tuple(values) if len(targets) == len(values):
                for one, other in zip(targets, values, strict=True):
                    self._bind(one, other)
            case ast.Tuple(targets), _:
                for one in targets:
                    self._bind(one, value)
            case ast.Name(name), _:
                self.names[-1][name] = self.types(value)
