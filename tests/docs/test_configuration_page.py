"""docs/configuration.md, written from the settings: `python -m tests.docs.test_configuration_page > docs/configuration.md`."""

import ast
from collections.abc import Iterator
from pathlib import Path

from multiview import environment
from multiview.cli.settings import about, flattened, paragraph, sections
from multiview.config.documents import document_names
from multiview.model.layouts import LAYOUTS


def test_the_page_is_up_to_date():
    page = Path(__file__).parents[2] / "docs/configuration.md"
    assert page.read_text(encoding="utf-8") == markdown(), "run make docs"


def markdown() -> str:
    """Returns the text of docs/configuration.md."""
    parts = [
        "# Configuration\n\n"
        "*Written by `make docs` from `src/multiview/config/`; `multiview config` shows the same.*\n\n"
        "Settings are changed by a preset (`--preset`, a name or a YAML file; of several, later ones win) and then by "
        "`--set SECTION.NAME=VALUE`, whose value is YAML: `--set train.warmup_steps=null`, "
        "`--set 'corpus.columns={id: pid}'`. A preset may begin with `extends: NAME`, the preset that it changes, or "
        "`extends: [NAME, NAME]`, where later ones win. Defaults are the papers' unless marked *ours*. A setting "
        "marked ° is not part of artifact keys: it changes how a step runs but not what it writes, it names "
        "something that the key holds by content, or it shapes the pipeline.\n"
    ]
    for section, settings in sections().items():
        rows = [
            (f"`{each.name}`{'' if each.keyed else ' °'}", f"`{each.type}`", f"`{each.default}`", each.about)
            for each in settings
        ]
        parts.append(f"## {section}\n\n{about(section)}\n")
        parts.append(_table(("setting", "type", "default", "meaning"), rows))
    parts.append(
        "## Architectures\n\nEach architecture has defaults of its own, which presets and settings override.\n"
    )
    own = {
        name: ", ".join(f"`{setting}={value}`" for setting, value in flattened(layout.defaults))
        for name, layout in LAYOUTS.items()
    }
    rows = [(f"`{name}`", defaults or "none of its own") for name, defaults in own.items()]
    parts.append(_table(("`model.architecture`", "defaults"), rows))
    parts.append(
        f"## Presets\n\n{', '.join(f'`{name}`' for name in document_names('preset'))}: `multiview config --preset NAME` shows all "
        "settings with one, and the files are in `src/multiview/config/presets/`.\n"
    )
    rows = [(f"`{name}`", about) for name, about in environment_variables()]
    parts += [
        "## Environment\n\nVariables of the environment that multiview reads besides; their values are no part of keys.\n",
        _table(("variable", "meaning"), rows),
    ]
    return "\n".join(parts)


def environment_variables() -> Iterator[tuple[str, str]]:
    """Yields each variable that a person chooses, as `multiview.environment` declares and documents it."""
    text = Path(environment.__file__).read_text(encoding="utf-8")
    chosen = text.partition("chosen by a person")[2].partition("# ---")[0].partition("\n")[2]
    statements = ast.parse(chosen).body
    for declared, documented in zip(statements[::2], statements[1::2], strict=True):
        assert isinstance(declared, ast.Assign) and isinstance(documented, ast.Expr)
        yield ast.literal_eval(declared.value), paragraph(ast.literal_eval(documented.value))


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table. Bars in cells are escaped: each would begin another cell."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *escaped))


if __name__ == "__main__":
    print(markdown(), end="")
