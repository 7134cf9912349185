"""Telling an address of what happened, as JSON."""

from __future__ import annotations

from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

RETRY = Retry(total=5, backoff_factor=1, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=None)


def post(url: str, told: dict[str, Any]) -> None:
    """Send `told`, again where the address is busy. Raises requests.RequestException if it does not take it."""
    with requests.Session() as session:
        for scheme in ("http://", "https://"):
            session.mount(scheme, HTTPAdapter(max_retries=RETRY))
        session.post(url, json=told, timeout=30).raise_for_status()
