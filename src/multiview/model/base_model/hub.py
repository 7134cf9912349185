"""Base models of the Hugging Face hub: their commit, their files, and pickled weights as safetensors."""

import contextlib
import functools
import tempfile
from pathlib import Path

from multiview.errors import InputError
from multiview.model.base_model.files import SAFETENSORS, check_names

PATTERNS = (SAFETENSORS, "*.json", "*.txt", "*.model", "*.jinja")
"""Weights, configuration, tokenizer and its chat template; never pickled weights, which run code when they are read."""

PICKLED = "pytorch_model*.bin"
"""Weights as pickles. They are read only if a model of the hub has no others, and then as tensors and nothing else."""

WEIGHTS = "model.safetensors"
"""The file of converted weights, under the name by which transformers looks for it."""


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
        check_names(base, [file.rfilename for file in info.siblings or []], (SAFETENSORS, PICKLED))
        return info.sha
    if commit := _cached_commit(name, revision):
        return commit
    raise InputError(
        f"{base} is no folder here, and the hub cannot be reached; give a folder, a URL or package:NAME"
    )


def fetch(base: str, stack: contextlib.ExitStack) -> str:
    """Returns a local folder with the files of a hub model at its commit, its weights as safetensors.

    The folder is the hub's cache, or for pickled weights a temporary one of links and converted weights that `stack`
    deletes. Raises InputError that names the model if it cannot be fetched or has no weights that can be read.
    """
    commit = commit_of(base)
    snapshot = _download(base, commit, PATTERNS)
    if not any(snapshot.glob(SAFETENSORS)):
        snapshot = _download(base, commit, (*PATTERNS, PICKLED))
    check_names(base, [file.name for file in snapshot.iterdir()], (SAFETENSORS, PICKLED))
    if any(snapshot.glob(SAFETENSORS)):
        return str(snapshot)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="base-")))
    for file in snapshot.iterdir():
        if not file.match(PICKLED) and not file.name.endswith(".bin.index.json"):
            (folder / file.name).symlink_to(file.resolve())
    convert(base, snapshot, folder / WEIGHTS)
    return str(folder)


def convert(base: str, source: Path, target: Path) -> None:
    """Writes the pickled weights of a checkpoint into the file `target`, as safetensors.

    torch reads tensors alone (`weights_only`): a pickle with anything else raises InputError, and its code is not run.
    """
    import torch
    from safetensors.torch import save_file

    tensors: dict[str, torch.Tensor] = {}
    for file in sorted(source.glob(PICKLED)):
        try:
            content = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:
            raise InputError(
                f"{base}: {file.name} is not a file of tensors alone, and nothing else is read from a pickle"
            ) from error
        if not isinstance(content, dict) or not all(isinstance(v, torch.Tensor) for v in content.values()):
            raise InputError(f"{base}: {file.name} does not map names to tensors")
        tensors |= {name: tensor.clone().contiguous() for name, tensor in content.items()}
    save_file(tensors, target, metadata={"format": "pt"})


def _cached_commit(name: str, revision: str | None) -> str | None:
    """The commit of a model in the local cache; None if it is not there."""
    from huggingface_hub import errors, scan_cache_dir, try_to_load_from_cache

    cached = try_to_load_from_cache(name, "config.json", revision=revision)
    if isinstance(cached, str):
        return Path(cached).parent.name
    # As `fetch` asks by commit, the cache does not know the hub's newest: its last modified one is taken.
    if revision is None:
        with contextlib.suppress(errors.CacheNotFound):
            for repository in scan_cache_dir().repos:
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
