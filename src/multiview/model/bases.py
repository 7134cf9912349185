"""Where a checkpoint lies that a setting names, and what it is by content. Needs neither torch nor transformers."""

import contextlib
import functools
import hashlib
import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec

from multiview.errors import InputError

SETTINGS_FILE = "multiview.json"
"""A saved model's file with its settings."""
PACKAGE = "package:"
_PATTERNS = ("*.safetensors", "*.json", "*.txt", "*.model")
"""Weights, configuration and tokenizer; never pickled weights, which run code when they are read."""


@contextlib.contextmanager
def staged_base(base: str, setting: str = "model.base") -> Iterator[str]:
    """A local folder with the checkpoint that `setting` names; of a hub model, the files of the commit that the key names.

    A remote folder is copied to a temporary one that lives as long as the context. InputError if it is not there.
    """
    if (folder := _folder(base, setting)) is not None:
        yield str(folder)
    elif "://" in base:
        with tempfile.TemporaryDirectory(prefix="base-") as folder:
            filesystem, files = _remote(base, setting)
            for path in files:
                filesystem.get_file(path, str(Path(folder) / Path(path).name))
            yield folder
    else:
        import huggingface_hub

        commit = _hub_commit(base, setting)
        try:
            yield huggingface_hub.snapshot_download(base, revision=commit, allow_patterns=list(_PATTERNS))
        except (OSError, ValueError) as error:
            raise InputError(f"{setting}: cannot fetch {base} at {commit}: {error}") from error


def fingerprint(settings: Any) -> dict[str, str]:
    """What `settings.model.base` is by content: part of the key of the model made from it."""
    return content_of(settings.model.base)


def content_of(base: str, setting: str = "model.base") -> dict[str, str]:
    """What the checkpoint that `setting` names is by content.

    A folder by the digests of its files, a remote one by its file system's checksums, a hub name by its
    commit where the hub or the local cache knows one.
    """
    if (folder := _folder(base, setting)) is not None:
        return {"files": _digest({path.name: _sha256(path) for path in _model_files(folder, setting)})}
    if "://" in base:
        filesystem, files = _remote(base, setting)
        return {"checksums": _digest({Path(path).name: str(filesystem.checksum(path)) for path in files})}
    return {"hub": base, "commit": _hub_commit(base, setting)}


def _folder(base: str, setting: str) -> Path | None:
    """The local folder that `base` names, none for a hub name or a URL."""
    if base.startswith(PACKAGE):
        return _package_folder(base.removeprefix(PACKAGE), setting)
    if "://" in base:
        return None
    path = Path(base).expanduser()
    if path.is_dir():
        _model_files(path, setting)
        return path
    if path.is_absolute() or base.startswith((".", "~")):
        raise InputError(
            f"{setting}: there is no folder {base}; give a folder, a hub name, a URL or package:NAME"
        )
    return None


def _package_folder(name: str, setting: str) -> Path:
    """The folder of an installed package that holds a checkpoint; the package's code is not run."""
    spec = importlib.util.find_spec(name.replace("-", "_")) if name.isidentifier() or "-" in name else None
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"{setting}: no package {name!r} is installed; install it with pip, or give a folder or a hub name"
        )
    for root in spec.submodule_search_locations:
        for config in sorted(Path(root).rglob("config.json")):
            if any(config.parent.glob("*.safetensors")):
                return config.parent
    raise InputError(f"{setting}: package {name!r} carries no config.json with safetensors weights beside it")


def _model_files(folder: Path, setting: str) -> list[Path]:
    """The files of a checkpoint in order of their names; InputError if it is none."""
    files = sorted(
        {path for pattern in _PATTERNS for path in folder.glob(pattern)}, key=lambda path: path.name
    )
    _check_checkpoint(setting, str(folder), [path.name for path in files])
    return files


def _remote(base: str, setting: str) -> tuple[fsspec.AbstractFileSystem, list[str]]:
    """The file system of a URL, and the paths of the checkpoint's files there in order."""
    try:
        filesystem, root = fsspec.core.url_to_fs(base)
        files = sorted(path for path in filesystem.ls(root, detail=False) if Path(path).match("*.*"))
    except (OSError, ImportError, ValueError) as error:
        raise InputError(f"{setting}: cannot read {base}: {error}") from error
    files = [path for path in files if any(Path(path).match(pattern) for pattern in _PATTERNS)]
    _check_checkpoint(setting, base, [Path(path).name for path in files])
    return filesystem, files


def _check_checkpoint(setting: str, place: str, names: list[str]) -> None:
    if "config.json" not in names:
        raise InputError(
            f"{setting}: {place} holds no config.json; give the folder that save_pretrained wrote"
        )
    if not any(name.endswith(".safetensors") for name in names):
        raise InputError(
            f"{setting}: {place} holds no *.safetensors; load and save the model once with transformers to convert it"
        )


@functools.cache
def _hub_commit(name: str, setting: str) -> str:
    """The commit of a hub model: as the hub says now, else as the local cache has it."""
    import huggingface_hub
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    try:
        if commit := huggingface_hub.HfApi().model_info(name, timeout=10).sha:
            return commit
    except (HFValidationError, RepositoryNotFoundError) as error:
        raise InputError(f"{setting}: {name} is neither a folder here nor a model of the hub") from error
    except Exception:  # offline or unreachable: whatever the reason, the cache is asked next
        pass
    cached = huggingface_hub.try_to_load_from_cache(name, "config.json")
    if isinstance(cached, str):
        return Path(cached).parent.name
    raise InputError(
        f"{setting}: {name} is no folder here, and the hub cannot be reached; give a folder, a URL or package:NAME"
    )


def _digest(files: dict[str, str]) -> str:
    text = "\n".join(f"{name} {digest}" for name, digest in sorted(files.items()))
    return hashlib.sha256(text.encode()).hexdigest()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
