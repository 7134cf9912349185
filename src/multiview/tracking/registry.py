"""From a registered model to the index that it answers from."""

from __future__ import annotations

import re

from multiview import names
from multiview.errors import InputError
from multiview.tracking.client import connect, database, explained

SCHEME = "models:/"
_REGISTERED = re.compile(r"models:/(?P<name>[^/@]+)(@(?P<alias>[^/@]+)|/(?P<version>\d+))")


def registered_index(uri: str, model: str) -> str:
    """The index's address of `models:/NAME@ALIAS` or `models:/NAME/VERSION`: the model version's tag
    `multiview.index`, else its source. Raises InputError if MLflow at `uri` has no such model.
    """
    match = _REGISTERED.fullmatch(model)
    if match is None:
        raise InputError(
            f"{model} names no registered model: give models:/NAME@ALIAS or models:/NAME/VERSION"
        )
    if database(uri) == "absent":
        raise InputError(f"there is no MLflow database at {uri}: give --tracking-uri or --store")
    with explained(uri):
        client = connect(uri)
        if match["alias"]:
            version = client.get_model_version_by_alias(match["name"], match["alias"])
        else:
            version = client.get_model_version(match["name"], match["version"])
    address = version.tags.get(names.TAG_INDEX) or version.source
    if not address:
        raise InputError(
            f"{model}: version {version.version} has neither a tag {names.TAG_INDEX} nor a source: "
            "set the tag to the index's address"
        )
    return address
