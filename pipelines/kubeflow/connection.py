"""The connection to Kubeflow Pipelines: its settings, given by flags, environment variables or a profile file."""

import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import typer
from pydantic import AfterValidator, Field

from multiview import environment
from multiview.cli.options import options_of, with_options
from multiview.config import Section
from multiview.config.documents import checked, read_document
from multiview.config.kubeflow import reached_by_people
from multiview.config.overrides import PLATFORM_SECTIONS, Overrides
from multiview.config.section import Address, matching
from multiview.errors import InputError, nearest

PROFILES = "~/.config/multiview/kubeflow.yaml"
DEFAULT_PROFILE = "default"


def variable(name: str, shown: bool = True) -> Any:
    """Declares a setting's environment variable (KFP's own if there is one), and whether lines may show its value."""
    return Field(json_schema_extra={"variable": name}, repr=shown)


ROOT_EXPECTED = "expected a place in a bucket as in gs://BUCKET/PREFIX, s3:// or minio://"
Root = Annotated[str, matching(r"(gs|s3|minio)://[^\s/]+\S*", ROOT_EXPECTED)]
"""A place where KFP's launcher writes."""


def _check_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(f"there is no time zone {name!r}; it is named as in Europe/Berlin or UTC") from error
    return name


TimeZone = Annotated[str, AfterValidator(_check_zone)]
"""The name of a time zone."""


class Connection(Section):
    """Address of Kubeflow Pipelines, and the credentials for it. If there are several, the first in this order counts:
    token, IAP, token file, kube context; cookies are sent with any of them."""

    host: Annotated[Address | None, variable(environment.KFP_HOST)] = None
    """Address of Kubeflow Pipelines, as in https://kubeflow.example.org/pipeline."""
    ui_host: Annotated[Address | None, variable(environment.KFP_UI_HOST)] = None
    """Address of its pages, if it differs."""
    mlflow_ui: Annotated[Address | None, variable(environment.MLFLOW_UI)] = None
    """Address of MLflow as this machine and its browser reach it, if pods use another."""
    namespace: Annotated[str | None, variable(environment.KFP_NAMESPACE)] = None
    """Namespace of the runs, if Kubeflow has several users; with a kube context, Kubeflow's own."""
    experiment: Annotated[str, variable(environment.KFP_EXPERIMENT)] = "multiview"
    """Experiment of the runs; it is made if it does not exist."""
    token: Annotated[str | None, variable(environment.KFP_TOKEN, shown=False)] = None
    """A bearer token; better in the environment than on the command line."""
    cookie: Annotated[str | None, variable(environment.KUBEFLOW_COOKIE, shown=False)] = None
    """Cookies of a session, as in oauth2_proxy_kubeflow=VALUE, if Dex or oauth2-proxy signs people in; better in the environment."""
    iap_client_id: Annotated[str | None, variable(environment.IAP_CLIENT_ID)] = None
    """OAuth client of Google's Identity-Aware Proxy in front of Kubeflow."""
    app_client_id: Annotated[str | None, variable(environment.APP_CLIENT_ID)] = None
    """With IAP, the desktop client that a person signs in through; none: the machine's service account."""
    app_client_secret: Annotated[str | None, variable(environment.APP_CLIENT_SECRET, shown=False)] = None
    """The desktop client's secret."""
    token_file: Annotated[str | None, variable(environment.KFP_TOKEN_FILE)] = None
    """File with a service account's token, read anew for each request: a projected volume of a pod."""
    kube_context: Annotated[str | None, variable(environment.KUBE_CONTEXT)] = None
    """Context of the kubeconfig; Kubeflow is then reached through the Kubernetes API, without a host."""
    ca_file: Annotated[str | None, variable(environment.KUBEFLOW_CA)] = None
    """Certificate authority of the host, if it is your own."""
    pipeline_root: Annotated[Root | None, variable(environment.PIPELINE_ROOT)] = None
    """Where KFP keeps what flows between steps (records of some KB); none: its own default."""
    time_zone: Annotated[TimeZone, variable(environment.CRON_TIME_ZONE)] = "UTC"
    """Time zone in which this Kubeflow reads every cron: cronScheduleTimezone of its pipeline-install-config."""

    @property
    def pages(self) -> str | None:
        """Address of Kubeflow's pages as people reach them; None if none is known, as from inside the cluster."""
        return reached_by_people(self.ui_host or self.host)


class Profile(Connection):
    """A cluster as a profile describes it: its connection, its store, and its own settings."""

    store: str | None = None
    """Store of the runs, unless --store or MULTIVIEW_STORE names one."""
    settings: Overrides = {}
    """Settings of kubeflow and notify; a preset and --set override them."""


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command an option for each connection setting and for the profile; it gets a Profile as `connection`."""
    option = typer.Option(
        "--profile",
        envvar=environment.PROFILE,
        help=f"Name of a profile in {PROFILES} ({environment.PROFILES}); default: `{DEFAULT_PROFILE}`, if there.",
    )
    kind, annotation = inspect.Parameter.KEYWORD_ONLY, Annotated[str | None, option]
    profile = inspect.Parameter("profile", kind, default=None, annotation=annotation)
    options = [profile, *options_of(Connection, "Kubeflow", optional=True)]
    return with_options("connection", options, lambda of: resolve_profile(of.pop("profile"), of))(command)


def resolve_profile(name: str | None, flags: dict[str, str | None]) -> Profile:
    """Returns a profile of the profile file, with flags and environment over it. Raises InputError."""
    path = Path(os.environ.get(environment.PROFILES) or PROFILES).expanduser()
    profiles = read_document(path, "profiles").content if name or path.exists() else {}
    if name is not None and name not in profiles:
        raise InputError(f"{path} has no profile {name!r}{nearest(name, profiles)}")
    chosen = name or DEFAULT_PROFILE
    where = f"profile {chosen} of {path}"
    settings = profiles.get(chosen, {})
    if not isinstance(settings, dict):
        raise InputError(f"{where}: expected names with values")
    set_flags = {name: value or None for name, value in flags.items() if value is not None}  # "" unsets one
    profile = checked(Profile, settings | set_flags, where if settings else "")
    if unknown := set(profile.settings) - PLATFORM_SECTIONS:
        raise InputError(
            f"{where}: settings.{min(unknown)} decides what a run does: a profile has {' and '.join(sorted(PLATFORM_SECTIONS))} alone"
        )
    return profile
