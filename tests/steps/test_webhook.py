"""Notifications arrive as JSON, also where the address is busy at first; chats get their text alone."""

import pytest
import requests

from multiview.errors import one_line
from multiview.steps import webhook
from multiview.steps.webhook import post
from tests.fixtures.servers import inbox

NOTICE = {"text": "training-1 failed", "run": "training-1"}
MESSAGE = {"status": "refresh promoted", "champion": {"number": 3}, "says": "größer"}


@pytest.mark.parametrize("busy", [429, 503])
def test_a_busy_address_is_asked_again(busy: int) -> None:
    with inbox(busy) as received:
        post(received.url, MESSAGE)
    assert (received.messages, received.posts) == ([MESSAGE], 2)


def test_an_address_that_stays_busy_is_named_with_its_answer(monkeypatch) -> None:
    monkeypatch.setattr(webhook, "RETRY", webhook.RETRY.new(backoff_factor=0))
    with inbox(*[503] * 6) as received, pytest.raises(requests.RequestException, match=r"1 answered 503$"):
        post(received.url, MESSAGE)
    assert (received.messages, received.posts) == ([], 6)


@pytest.mark.parametrize("refusal", [400, 401, 404])
def test_a_refusal_is_final_and_names_the_host_alone(refusal: int) -> None:
    """The rest of a chat's address is a token."""
    with inbox(refusal) as received, pytest.raises(requests.RequestException) as refused:
        post(f"{received.url}/services/T0/the-token?key=the-token", MESSAGE)
    assert (received.messages, received.posts) == ([], 1)
    assert one_line(refused.value).startswith(f"RequestException: 127.0.0.1 answered {refusal}")
    assert "the-token" not in repr(refused.value) and refused.value.__cause__ is None


def test_known_chats_get_the_text_alone_and_others_the_whole_notice(monkeypatch):
    """Google Chat refuses fields that it does not know; what is behind these addresses is all that is not real here."""
    sent = {}

    def send(self: requests.Session, request: requests.PreparedRequest, **more: object) -> requests.Response:
        sent[request.url] = request.body
        response = requests.Response()
        response.status_code = 200
        return response

    monkeypatch.setattr(requests.Session, "send", send)
    for url in (
        "https://chat.googleapis.com/v1/spaces/A/messages?key=k",
        "https://hooks.slack.com/services/T/B/x",
        "https://mattermost.example.org/hooks/x",
        "https://chat.googleapis.com.example.org/",
    ):
        webhook.post(url, NOTICE)
    assert [b'"run"' in body for body in sent.values()] == [False, False, True, True]
    assert all(b'"text": "training-1 failed"' in body for body in sent.values())


def test_a_text_is_short_and_escaped():
    text = webhook.chat_text("a" * 1000, None, "", "<!channel> & co\n2", "last")
    first, *others = text.split("\n")
    assert len(first) == webhook.LONGEST_LINE and others == ["&lt;!channel&gt; &amp; co 2", "last"]
