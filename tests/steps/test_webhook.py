"""Notifications arrive as JSON, also where the address is busy at first."""

import pytest
import requests

from multiview.steps.webhook import post
from tests.fixtures.servers import inbox

MESSAGE = {"status": "refresh promoted", "champion": {"number": 3}, "says": "größer"}


def test_a_message_arrives_as_json() -> None:
    with inbox() as received:
        post(received.url, MESSAGE)
    assert received.messages == [MESSAGE]


@pytest.mark.parametrize("busy", [429, 500, 502, 503, 504])
def test_a_busy_address_is_asked_again(busy: int) -> None:
    with inbox(busy) as received:
        post(received.url, MESSAGE)
    assert (received.messages, received.posts) == ([MESSAGE], 2)


@pytest.mark.parametrize("refusal", [400, 401, 404])
def test_a_refusal_is_final(refusal: int) -> None:
    with inbox(refusal) as received, pytest.raises(requests.HTTPError, match=str(refusal)):
        post(received.url, MESSAGE)
    assert (received.messages, received.posts) == ([], 1)
