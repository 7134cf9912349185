"""Settings of notifications: the webhook that hears of failed runs and of verdicts."""

from __future__ import annotations

from typing import Annotated

from multiview.config.section import HOW, Address, Section


class Notify(Section):
    """Notifications of failed runs on Kubeflow and of the verdicts of refreshes. *Ours.*"""

    url: Annotated[Address | None, HOW] = None
    """Address that receives JSON by POST: the failed steps and their error lines when a run on Kubeflow fails, and the verdict of every refresh. Its `text` says it in a few lines, so the address of a chat's incoming webhook will do."""
    kubeflow: Annotated[Address | None, HOW] = None
    """Address of Kubeflow's pages, as in https://kubeflow.example.org/pipeline, for the link in `text`; none: those that `submit` or `schedule apply` spoke to, and no link where these are not known either."""
    mlflow: Annotated[Address | None, HOW] = None
    """Address of MLflow's pages, for the link in `text`, where people have another one than pods."""
