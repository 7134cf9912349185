"""The explorer in a real browser."""

from __future__ import annotations

import json

import pytest

from multiview.artifacts.champions import champion_of, rollback
from tests.fixtures.answering_server import answering, of_champion, wait_for
from tests.fixtures.browser import Browser, browser, needs_chromium
from tests.fixtures.champions import read_again
from tests.fixtures.colours import COLOURS, contrast
from tests.fixtures.crowned import index_record, promote
from tests.fixtures.hostile_texts import HOSTILE
from tests.fixtures.system_indexes import SYSTEMS, make

__all__ = ["browser"]

pytestmark = needs_chromium

PHONE = 360
QUESTION = "Where was Tesla born?"
TEXTS = (*HOSTILE, "\x1b[31mred\x1b[0m \x07", "'; DROP TABLE passages; --" + "W" * 300)
"""The former texts and escapes of terminals, and a word that is wider than any screen."""


@pytest.fixture
def client(crowned):
    with answering(of_champion(crowned, poll_seconds=0.05)) as client:
        yield client


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    indexes = make(tmp_path_factory.mktemp("hostile"), {"camvr": SYSTEMS["camvr"]}, TEXTS)
    promote(indexes, "camvr")
    with answering(of_champion(indexes)) as client:
        yield client


def open_page(browser: Browser, client, width: int = 1280, fragment: str = "", dark: bool = False) -> None:
    browser.open("about:blank")
    browser.open(f"{client.url}/{fragment}", width, dark)


def ask(browser: Browser, question: str) -> list[str]:
    """Types a question as a person does; the ids of the passages of the first side."""
    browser.ask("document.querySelector('#question').select()")
    browser.type(question)
    browser.press("Enter", 13, "\r")
    browser.wait("document.querySelector('#answers').ariaBusy === 'false' && document.querySelector('.hit')")
    return shown(browser)


def shown(browser: Browser, side: int = 0) -> list[str]:
    return browser.ask(
        f"[...document.querySelectorAll('.side')[{side}].querySelectorAll('.about code')].map(c => c.textContent)"
    )


def text(browser: Browser, selector: str) -> str:
    return browser.ask(f"document.querySelector({json.dumps(selector)})?.textContent")


def open_everything(browser: Browser) -> None:
    browser.ask("document.querySelectorAll('.open').forEach(b => b.click())")
    browser.wait("document.querySelectorAll('.views').length === document.querySelectorAll('.hit').length")


def test_a_typed_question_is_answered_as_the_search_answers(browser, client):
    open_page(browser, client)
    browser.wait("document.querySelector('#state').textContent")
    assert "Champion 1 · camvr · 32 passages" in text(browser, "#state")
    assert browser.ask("document.activeElement.id") == "question"
    found = client.search(QUESTION, explain=True)["answers"][0]["hits"]
    assert ask(browser, QUESTION) == [hit["id"] for hit in found]
    marks = browser.ask("[...document.querySelectorAll('mark')].map(m => m.textContent)")
    assert marks == [hit["snippet"].rstrip() for hit in found]
    open_everything(browser)
    scores = browser.ask(
        "[...document.querySelectorAll('.hit')].map(h => [...h.querySelectorAll('.scored')].map(s => parseFloat(s.textContent)))"
    )
    for shown_scores, hit in zip(scores, found, strict=True):
        assert shown_scores == pytest.approx([view["score"] for view in hit["views"]], abs=0.002)
    assert not browser.problems


def test_two_indexes_stand_beside_each_other_with_what_differs(browser, client, crowned):
    key = index_record(crowned, "dpr").key
    open_page(browser, client, fragment=f"#q=Where+was+Tesla+born%3F&index1={key}&k=5&where=url+is+not+null")
    browser.wait("document.querySelectorAll('.side').length === 2")
    sides = [
        client.search(QUESTION, k=5, where="url is not null", index=index)["answers"][0]["hits"]
        for index in (None, key)
    ]
    ids = [[hit["id"] for hit in side] for side in sides]
    assert [shown(browser, side) for side in (0, 1)] == ids
    both = set(ids[0]) & set(ids[1])
    assert f"{len(both)} on both sides" in text(browser, "#message")
    assert browser.ask("document.querySelectorAll('span.apart').length") == 2 * (5 - len(both))
    moved = sum(ids[0].index(id) != ids[1].index(id) for id in both)
    assert browser.ask("document.querySelectorAll('span.moved').length") == 2 * moved
    assert moved or len(both) < 5, "these differ"
    named = "document.querySelector('#index-0').value = 'none'; ask()"
    browser.ask(named)
    browser.wait("!document.querySelector('#problem').hidden")
    assert not [problem for problem in browser.problems if "404" not in problem]


def test_the_keyboard_reaches_all(browser, client, crowned):
    open_page(browser, client, fragment=f"#index1={index_record(crowned, 'mvr').key}")
    browser.wait("document.querySelector('#index-1').value")
    ask(browser, QUESTION)
    reached = set()
    for _ in range(60):
        browser.press("Tab", 9)
        reached.add(browser.ask("document.activeElement.id || document.activeElement.className"))
        style = "getComputedStyle(document.activeElement)"
        if browser.ask("document.activeElement !== document.body"):
            assert browser.ask(f"{style}.outlineStyle + ' ' + {style}.outlineWidth") != "none 0px"
    assert {"index-0", "index-1", "k", "where", "plain open"} <= reached
    browser.ask("document.querySelector('.open').focus()")
    browser.press("Enter", 13, "\r")
    assert browser.ask("document.activeElement.ariaExpanded") == "true"
    assert browser.ask("document.querySelector('.hit .views') !== null")
    assert not browser.problems


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, 1280])
def test_what_others_wrote_is_text_and_nothing_scrolls_sideways(browser, hostile, width, dark):
    open_page(browser, hostile, width, "#k=32", dark)
    browser.wait("document.querySelector('#state').textContent")
    assert len(ask(browser, TEXTS[0])) == 32
    open_everything(browser)
    written = browser.ask("document.body.textContent")
    for each in TEXTS:
        pictured = each.replace("\x1b", "␛").replace("\x07", "␇")
        assert written.count(pictured) >= 4, "title, id, text, column"
    assert browser.ask("document.querySelectorAll('script').length") == 1
    assert browser.ask("document.querySelectorAll('img, iframe, object, h1 ~ h1, body style').length") == 0
    assert browser.ask(
        "[...document.querySelectorAll('a')].every(a => a.href.startsWith('https://example.org/'))"
    )
    overridden = "[...document.querySelectorAll('*')].filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.includes('\\u202e')))"
    assert browser.ask(
        f"{overridden}.filter(e => e.localName !== 'script').every(e => ['isolate', 'plaintext', 'isolate-override']"
        ".includes(getComputedStyle(e.closest('bdi, .text, dd, td') ?? document.body).unicodeBidi))"
    )
    assert browser.ask("document.scrollingElement.scrollWidth") <= width
    colours = browser.ask(COLOURS)
    assert len(colours) > 4
    for ink, paper, where in colours:
        assert contrast(ink, paper) >= 4.5, (where, ink, paper)
    assert not browser.problems


def test_a_swap_while_the_page_is_open_is_told(browser, client, crowned):
    open_page(browser, client)
    browser.wait("document.querySelector('#state').textContent")
    before = ask(browser, QUESTION)
    promote(crowned, "mvr")
    wait_for(lambda: client.get("/readyz").json()["champion"] == 2)
    browser.ask("look()")
    browser.wait("!document.querySelector('#changed').hidden")
    notice = "Champion 2 answers now, no longer champion 1. These answers are from champion 1."
    assert text(browser, "#changed span") == notice
    assert shown(browser) == before, "what is shown stays"
    assert text(browser, ".side h2") == "Champion 1"
    browser.wait("document.querySelector('#state').textContent.includes('Champion 2 · mvr')")
    browser.ask("document.querySelector('#changed button').click()")
    browser.wait("document.querySelector('.side h2').textContent === 'Champion 2'")
    assert browser.ask("document.querySelector('#changed').hidden")
    rollback(crowned.store)
    wait_for(lambda: client.get("/readyz").json()["champion"] == 3)
    assert ask(browser, QUESTION + " ") and browser.ask("sides[0].champion") == 3
    browser.wait("!document.querySelector('#changed').hidden")
    assert text(browser, "#changed span") == "Champion 3 answers now, no longer champion 2."
    assert not browser.problems


def test_a_key_is_asked_for_and_kept_in_the_tab_alone(browser, crowned):
    with answering(of_champion(crowned, keys=["secret"])) as client:
        client.headers = {"X-API-Key": "secret"}
        open_page(browser, client)
        # After the wrong key the dialog is open again at once: that it was closed is counted, not seen.
        browser.ask(
            "window.shut = 0, document.querySelector('#locked').addEventListener('close', () => window.shut++)"
        )
        for number, key in enumerate(("wrong", "secret"), 1):
            browser.wait("document.querySelector('#locked').open")
            browser.type(key)
            browser.press("Enter", 13, "\r")
            browser.wait(f"window.shut === {number}")
        browser.wait("document.querySelector('#state').textContent")
        assert ask(browser, QUESTION) == [hit["id"] for hit in client.search(QUESTION)["answers"][0]["hits"]]
        kept = browser.ask(
            "[sessionStorage.length, localStorage.length, document.cookie, location.href.includes('secret')]"
        )
        assert kept == [1, 0, "", False]
        assert not [problem for problem in browser.problems if "401" not in problem]


def test_how_old_the_corpus_is_is_shown_and_marked_where_it_is_too_old(browser, crowned):
    for settings, marked in (({}, "note"), ({"oldest": 1e-6}, "problem")):
        read_again(crowned.store, champion_of(crowned.store), hours=5 - len(settings), **settings)
        with answering(of_champion(crowned)) as client:
            open_page(browser, client)
            wait_for(lambda client=client: client.get("/readyz").json()["freshness"])
            browser.ask("look()")
            browser.wait("document.querySelector('#fresh').textContent.includes('refresh failed ')")
            assert browser.ask("document.querySelector('#fresh').className") == marked


def test_a_server_that_was_away_is_no_problem_once_it_answers(browser, client):
    open_page(browser, client)
    browser.wait("document.querySelector('#state').textContent")
    browser.ask("window.answered = fetch, window.fetch = async () => { throw new TypeError() }, 0")
    told = "document.querySelector('#problem').textContent === 'the server does not answer'"
    browser.wait(f"look() && {told}")  # the page's own first look may end meanwhile
    browser.ask("window.fetch = answered, 0")
    browser.wait("look() && document.querySelector('#problem').hidden")


def test_a_key_that_is_given_late_shows_what_answers(browser, crowned):
    with answering(of_champion(crowned, keys=["secret"])) as client:
        client.headers = {"X-API-Key": "secret"}
        open_page(browser, client)
        browser.wait("document.querySelector('#locked').open")
        browser.press("Escape", 27)
        browser.wait("!document.querySelector('#problem').hidden")
        browser.ask("document.querySelector('#question').focus()")
        browser.type(QUESTION)
        browser.press("Enter", 13, "\r")
        browser.wait("document.querySelector('#locked').open")
        browser.type("secret")
        browser.press("Enter", 13, "\r")
        browser.wait("document.querySelector('.hit') && document.querySelector('#state').textContent")
        assert "Champion 1 · camvr · 32 passages" in text(browser, "#state")


def test_passages_are_shown_where_what_answers_cannot_be_told(browser, client):
    lost = "path === 'indexes' ? Promise.reject(new TypeError()) : all(path, ...more)"
    script = f"const all = fetch; window.fetch = (path, ...more) => {lost}"
    added = browser.send("Page.addScriptToEvaluateOnNewDocument", source=script)
    open_page(browser, client)
    assert ask(browser, QUESTION)
    browser.wait("!document.querySelector('#problem').hidden")
    browser.send("Page.removeScriptToEvaluateOnNewDocument", **added)


def test_whole_numbers_keep_their_digits(browser, client):
    open_page(browser, client)
    written = '{"a": 9007199254740993, "b": [-9007199254740999], "c": 7, "d": 0.5, "e": 1e300}'
    read = browser.ask(f"Object.values(JSON.parse({json.dumps(written)}, exact)).map(valueOf)")
    assert read == ["9007199254740993", "[-9007199254740999]", "7", "0.5", "1e300"]
