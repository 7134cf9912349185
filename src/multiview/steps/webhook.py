"""Notifications, posted as JSON to an address."""

from __future__ import annotations

from collections.abc import Mapping

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

RETRY = Retry(total=5, backoff_factor=1, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=None)


def post(url: str, message: Mapping[str, object]) -> None:
    """Posts `message`, and again while the address is busy. Raises requests.RequestException if the address refuses."""
    with requests.Session() as session:
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=RETRY))
        session.post(url, json=message, timeout=30).raise_for_status()
