"""Settings of notifications: the webhook that hears of failed runs and of verdicts."""

from __future__ import annotations

import os
from typing import Annotated
from urllib.parse import urlsplit

from multiview import environment
from multiview.config.section import DERIVED, UNKEYED, Address, Section


class Notify(Section):
    """Notifications of failed runs on Kubeflow and of the verdicts of refreshes. *Ours.*"""

    url: Annotated[Address | None, UNKEYED] = None
    """Address that receives JSON by POST: the failed steps and their error lines when a run on Kubeflow fails, and the verdict of every refresh. Its `text` says it in a few lines, so the address of a chat's incoming webhook will do. Settings are kept with every run and shown in MLflow: an address that is a secret belongs in MULTIVIEW_NOTIFY_URL, which is read where this is none (`kubeflow.secrets`)."""
    kubeflow: Annotated[Address | None, UNKEYED, DERIVED] = None
    """Address of Kubeflow's pages for the link in `text`: those that `submit` or `schedule apply` spoke to."""


def notified(notify: Notify) -> str | None:
    """Returns the address that is notified: `notify.url`, else MULTIVIEW_NOTIFY_URL's."""
    return notify.url or os.environ.get(environment.NOTIFY_URL) or None


def reached_by_people(address: str | None) -> str | None:
    """Returns an address if a browser may reach its pages; None for a service's in a cluster, and for what is no web page.

    >>> reached_by_people("https://mlflow.example.org"), reached_by_people("http://mlflow.mlflow.svc:5000")
    ('https://mlflow.example.org', None)
    """
    address = address or ""
    labels = (urlsplit(address).hostname or "").split(".")
    return address if address.startswith("http") and len(labels) > 1 and "svc" not in labels else None
