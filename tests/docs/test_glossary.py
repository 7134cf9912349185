"""docs/glossary.md: every term has a sentence and a module that is there, in alphabetical order."""

import re

from tests.fixtures.project import ROOT

LINES = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("\n- ")[2].splitlines()
ENTRY = re.compile(r"(?:- )?\*\*(?P<term>.+?)\*\*: (?P<text>.+\.) `(?P<module>[\w/]+\.py)`")
ENTRIES = [ENTRY.fullmatch(line) for line in LINES]


def test_each_line_is_a_term_with_its_meaning_and_module():
    assert len(LINES) > 40
    assert all(ENTRIES), [line for line, entry in zip(LINES, ENTRIES, strict=True) if not entry]


def test_terms_are_in_alphabetical_order():
    terms = [entry["term"].casefold() for entry in ENTRIES if entry]
    assert terms == sorted(set(terms))


def test_every_module_exists():
    gone = [entry["module"] for entry in ENTRIES if entry and not (ROOT / entry["module"]).is_file()]
    assert not gone
