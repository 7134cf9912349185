"""Notifications are taken by other programs whole, and by chats as their text."""

import requests

from multiview.steps import webhook

NOTICE = {"text": "training-1 failed", "run": "training-1"}


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
    assert len(first) == webhook.LONGEST and others == ["&lt;!channel&gt; &amp; co 2", "last"]
