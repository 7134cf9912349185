"""What each step does to a store, which is what its account needs, beside the table of docs/security.md."""

from __future__ import annotations

from multiview.steps.table import STEPS
from tests.fixtures.project import ROOT
from tests.fixtures.watched_store import OPERATIONS, Call, Watched

HEADER = "| step | reads | writes | lists | deletes |"


def table_of(calls: list[Call]) -> dict[str, dict[str, list[str]]]:
    """Per step, the folders at the top of the store that it reads, writes, lists and deletes in."""
    # What a local store notes of files that it found whole, no bucket has.
    calls = [call for call in calls if not call.path.endswith(".verified.json")]
    return {
        step: {
            group: sorted(
                {c.path.partition("/")[0] for c in calls if c.step == step and c.operation in operations}
            )
            for group, operations in OPERATIONS.items()
        }
        for step in sorted({call.step for call in calls})
    }


def test_the_page_lists_what_each_step_does_to_a_store(watched: Watched) -> None:
    rows = [
        f"| `{step}` | "
        + " | ".join(", ".join(f"`{folder}`" for folder in groups[group]) or "—" for group in OPERATIONS)
        + " |"
        for step, groups in table_of(watched.calls).items()
    ]
    page = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
    table = page.partition(f"{HEADER}\n")[2].partition("\n\n")[0].splitlines()[1:]
    assert table == rows, "docs/security.md needs:\n" + "\n".join(rows)


def test_every_step_is_in_the_table(watched: Watched) -> None:
    assert table_of(watched.calls).keys() == STEPS.keys()
