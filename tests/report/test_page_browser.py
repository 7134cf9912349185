"""The page in a real browser."""

import pytest

from multiview.data.questions import Question
from multiview.report.contents import LOOKS
from tests.fixtures.browser import Browser, browser, needs_chromium
from tests.fixtures.colours import COLOURS, contrast
from tests.fixtures.compared_systems import BM25, CAMVR, MVR, PASSAGES, QUESTIONS, ComparedSystems, System
from tests.fixtures.hostile_texts import HOSTILE, hostile_systems
from tests.fixtures.page_tree import read

__all__ = ["browser"]

pytestmark = needs_chromium

PHONE = 360


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    page = ComparedSystems(folder).page()
    assert read(page).all("figure")
    return folder / "report" / "report.html"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    hostile_systems(folder).page()
    return folder / "report" / "report.html"


def shown(browser: Browser) -> list[str]:
    """Ids of the questions that can be seen."""
    visible = "[...document.querySelectorAll('.question')].filter(q => q.getClientRects().length)"
    return browser.ask(f"{visible}.map(q => q.querySelector('dd code').textContent)")


def choose(browser: Browser, outcome: str = "", words: str = "") -> list[str]:
    """The ids of the questions that are shown after a choice."""
    browser.ask(
        "for (const [name, value] of Object.entries(" + repr({"outcome": outcome, "text": words}) + ")) {"
        " const field = document.querySelector('form').elements[name]; field.value = value;"
        " field.dispatchEvent(new Event('input', {bubbles: true})); }"
    )
    return shown(browser)


@pytest.mark.parametrize("width", [PHONE, 1280])
def test_nothing_goes_wrong_and_nothing_scrolls_sideways(browser, file, width):
    browser.open(file, width)
    browser.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert browser.ask("document.scrollingElement.scrollWidth") <= width
    drawn = browser.ask("[...document.images].map(i => [i.naturalWidth, i.getBoundingClientRect().right])")
    assert drawn and all(natural > 0 and right <= width for natural, right in drawn)
    assert not browser.problems


@pytest.mark.parametrize("systems", [1, 5, 11])
def test_a_question_has_room_beside_or_above_the_ranks(browser, tmp_path, systems):
    plain = (System(MVR.found), System(CAMVR.found))
    ComparedSystems(tmp_path, {f"a system of a long name {n}": plain[n % 2] for n in range(systems)}).page()
    for width in (PHONE, 700, 1024, 1920):
        browser.open(tmp_path / "report" / "report.html", width)
        widths = browser.ask(
            "[...document.querySelectorAll('.asked')].map(a => a.getBoundingClientRect().width)"
        )
        assert min(widths) >= min(width, 400) * 0.8, width
        assert browser.ask("document.scrollingElement.scrollWidth") <= width


def test_what_users_wrote_is_text_in_the_browser_too(browser, hostile):
    browser.open(hostile)
    browser.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    text = browser.ask("document.body.textContent")
    for written in HOSTILE:
        for field in ("system", "title", "text", "question", "answer", "qid"):
            if field != "system" or written in HOSTILE[:4]:
                assert f"{field} {written}" in text, field
    assert browser.ask("document.querySelectorAll('script, iframe, object').length") == 1
    assert choose(browser, words=f"question {HOSTILE[4]}") == [f"qid {HOSTILE[4]}"]
    browser.open(hostile, PHONE)
    assert browser.ask("document.scrollingElement.scrollWidth") <= PHONE
    assert not browser.problems


def test_questions_are_filtered_by_outcome_and_by_words(browser, file):
    browser.open(file)
    everything = {question.qid for question in QUESTIONS}
    assert set(shown(browser)) == everything
    count = "document.querySelector('output').textContent"
    assert browser.ask(count) == "5 of 5 shown"
    expected = {f"won {number}": set() for number in (1, 2)} | {f"lost {number}": set() for number in (1, 2)}
    wrong = set()
    for question in QUESTIONS:
        ranks = [rank_of(question, system.found.get(question.qid, ())) for system in (MVR, CAMVR, BM25)]
        wrong |= {question.qid} if 1 not in ranks else set()
        for number in (1, 2):
            if ranks[number] != ranks[0]:
                expected[f"{'won' if ranks[number] < ranks[0] else 'lost'} {number}"].add(question.qid)
    assert any(expected.values()) and wrong
    for outcome, qids in {**expected, "wrong": wrong}.items():
        assert set(choose(browser, outcome)) == qids, outcome
    assert choose(browser, words="BOATS colour") == ["q3"]
    assert browser.ask(count) == "1 of 5 shown"
    assert choose(browser, "won 1", "marohaven wealthy") == ["q0"]
    assert choose(browser, words="no such words") == []
    assert set(choose(browser)) == everything
    assert not browser.problems


def rank_of(question: Question, found) -> float:
    texts = {passage.id: passage.text for passage in PASSAGES}
    return next((r for r, p in enumerate(found, 1) if question.answers[0] in texts[p]), float("inf"))


def test_without_scripts_all_questions_are_there_and_the_filter_is_not(browser, file):
    browser.open(file, scripts=False)
    document = browser.send("DOM.getDocument", depth=-1)["root"]["nodeId"]
    assert len(browser.send("DOM.querySelectorAll", nodeId=document, selector=".question")["nodeIds"]) == 5
    form = browser.send("DOM.querySelector", nodeId=document, selector="form")["nodeId"]
    assert "hidden" in browser.send("DOM.getAttributes", nodeId=form)["attributes"]
    assert not browser.problems


def test_the_keyboard_reaches_everything_and_shows_where_it_is(browser, file):
    browser.open(file)
    reached = set()
    for _ in range(200):
        browser.press("Tab", 9)
        element = browser.ask("document.activeElement.localName")
        if element == "body":
            break
        reached.add(element)
        if element in ("a", "summary", "select", "input"):
            style = "getComputedStyle(document.activeElement)"
            assert browser.ask(f"{style}.outlineStyle + ' ' + {style}.outlineWidth") != "none 0px"
    assert {"a", "summary", "select", "input", "div"} <= reached
    browser.ask("document.querySelector('.question summary').focus()")
    browser.press("Enter", 13, "\r")
    assert browser.ask("document.querySelector('.question').open")


def test_text_stands_out_from_what_is_behind_it(browser, file):
    """WCAG's AA: 4.5 for all text here, 3 for what is drawn."""
    browser.open(file)
    browser.ask("document.querySelectorAll('details').forEach(d => d.open = true)")
    found = browser.ask(COLOURS)
    assert len(found) > 3
    for ink, paper, where in found:
        assert contrast(ink, paper) >= 4.5, (where, ink, paper)
    for colour, _, _ in LOOKS:
        assert contrast(f"rgb{tuple(bytes.fromhex(colour[1:]))}", "rgb(255, 255, 255)") >= 3, colour


def test_on_paper_no_column_is_cut_off(browser, file):
    browser.open(file, 718)  # A4 within margins of a centimetre
    browser.send("Emulation.setEmulatedMedia", media="print")
    edges = browser.ask("[...document.querySelectorAll('table')].map(t => t.getBoundingClientRect().right)")
    assert edges and max(edges) <= 718
    clipped = "[...document.querySelectorAll('.scrolled')].map(s => getComputedStyle(s).overflowX)"
    assert {*browser.ask(clipped)} == {"visible"}
