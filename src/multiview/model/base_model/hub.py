"""Base models of the Hugging Face hub: their commit and their files."""

import contextlib
import functools
from pathlib import Path

from multiview.errors import InputError
from multiview.model.base_model.files import PATTERNS, PICKLED, SAFETENSORS, check_names


def split_name(base: str) -> tuple[str, str | None]:
    """Returns the name and the revision of `NAME` or `NAME@REVISION`; a revision is a branch, a tag or a commit."""
    name, _, revision = base.partition("@")
    return name, revision or None


@functools.cache
def commit_of(base: str) -> str:
    """Returns the commit of a hub model: the hub's current one or, if it cannot be reached, the one in the local cache.

    Raises InputError if the hub has no such model, no such revision, or a model without weights that can be read.
    """
    from huggingface_hub import HfApi, errors

    name, revision = split_name(base)
    info = None
    try:
        info = HfApi().model_info(name, revision=revision, timeout=10)
    except errors.GatedRepoError as error:
        raise InputError(
            f"{name} is shown by the hub to those with permission alone: set HF_TOKEN"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise InputError(f"{name} has no revision {revision} on the hub") from error
    except (errors.HFValidationError, errors.RepositoryNotFoundError) as error:
        raise InputError(f"{base} is neither a folder here nor a model of the hub") from error
    except Exception:  # for any failure, such as being offline, the cache is used next
        pass
    if info and info.sha:
        check_names(base, [file.rfilename for file in info.siblings or []])
        return info.sha
    if commit := _cached_commit(name, revision):
        return commit
    raise InputError(
        f"{base} is no folder here, and the hub cannot be reached; give a folder, a URL or package:NAME"
    )


def fetch(base: str) -> Path:
    """Returns the folder of the hub's cache with the files of a model at its commit. Raises InputError that names the
    model if it cannot be fetched."""
    commit = commit_of(base)
    snapshot = _download(base, commit, PATTERNS)
    return snapshot if any(snapshot.glob(SAFETENSORS)) else _download(base, commit, (*PATTERNS, PICKLED))


def _cached_commit(name: str, revision: str | None) -> str | None:
    """The commit of a model in the local cache; None if it is not there."""
    from huggingface_hub import constants, errors, scan_cache_dir, try_to_load_from_cache

    cached = try_to_load_from_cache(name, "config.json", revision=revision)
    if isinstance(cached, str):
        return Path(cached).parent.name
    # As `fetch` asks by commit, the cache does not know the hub's newest: its last modified one is taken.
    if revision is None:
        with contextlib.suppress(errors.CacheNotFound):
            for repository in scan_cache_dir(constants.HF_HUB_CACHE).repos:
                if (repository.repo_type, repository.repo_id) == ("model", name) and repository.revisions:
                    return max(repository.revisions, key=lambda found: found.last_modified).commit_hash
    return None


def _download(base: str, commit: str, patterns: tuple[str, ...]) -> Path:
    import huggingface_hub

    name, _ = split_name(base)
    try:
        return Path(huggingface_hub.snapshot_download(name, revision=commit, allow_patterns=list(patterns)))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot fetch {base} at {commit}: {' '.join(str(error).split())}") from error
