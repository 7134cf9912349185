"""Notifications, posted as JSON to an address."""

import html
import re
from collections.abc import Mapping
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

BUSY = (429, 500, 502, 503, 504)
RETRY = Retry(5, backoff_factor=1, status_forcelist=BUSY, allowed_methods=None, raise_on_status=False)

CHATS = re.compile(r"https://(hooks\.slack(-gov)?\.com|chat\.googleapis\.com)/")
"""Webhooks that get only `text`: Google Chat refuses a message with an unknown field."""

LONGEST_LINE = 300
"""Most characters of a line in a chat's message."""


def post(url: str, message: Mapping[str, object]) -> None:
    """Posts `message`, with retries while the address is busy; a chat in `CHATS` gets only its `text`. Raises
    requests.RequestException, which names only the host, because the rest of a chat's address is a secret."""
    sent = {"text": message["text"]} if CHATS.match(url) else message
    try:
        with requests.Session() as session:
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=RETRY))
            session.post(url, json=sent, timeout=30).raise_for_status()
    except requests.RequestException as error:
        answer = f" answered {error.response.status_code}" if error.response is not None else ""
        raise requests.RequestException(
            f"{urlsplit(url).hostname}{answer or f' gave no answer ({type(error).__name__})'}"
        ) from None


def chat_text(*lines: str | None) -> str:
    """Returns the lines that are not None as a chat's message: shortened, and with <, > and & escaped."""
    shown = (" ".join(line.split()) for line in lines if line)
    short = (line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…" for line in shown)
    return html.escape("\n".join(short), quote=False)
