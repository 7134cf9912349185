"""Location and content fingerprint of a base model. Needs neither torch nor transformers."""

import contextlib
import functools
import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path

import fsspec
from fsspec.implementations.local import LocalFileSystem

from multiview.artifacts.record import file_sha256
from multiview.artifacts.scratch import scratch
from multiview.artifacts.servers import errors_explained, file_system
from multiview.config import Config, text_sha256
from multiview.errors import InputError, naming
from multiview.model.base_model import hub
from multiview.model.base_model.files import BASE, CONFIG_FILE, check_files, model_files
from multiview.model.base_model.sentence_transformers import MODULES_FILE, module_folders

SETTINGS_FILE = "multiview.json"
"""File with the settings of a saved model."""
PACKAGE = "package:"
"""Prefix of a base model that is a checkpoint in an installed package."""


@contextlib.contextmanager
def staged_base(base: str, setting: str = BASE) -> Iterator[Path]:
    """Yields a local folder with the base model: of a remote folder a temporary copy, of a hub model the files of the
    commit in the artifact's key. Raises InputError that names `setting`, as `base_fingerprint` does."""
    with contextlib.ExitStack() as stack:
        with naming(setting):
            folder = _folder(base)
            if folder is None and "://" not in base:
                folder = hub.fetch(base)
            filesystem, files = _files(base, folder, setting)
            if folder is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=scratch())))
                for name, path in files.items():
                    (folder / name).parent.mkdir(exist_ok=True)
                    filesystem.get_file(path, str(folder / name))
        yield folder


def model_fingerprint(settings: Config) -> dict[str, str]:
    """Returns the content fingerprint of `settings.model.base`: part of the key of the model made from it."""
    return base_fingerprint(settings.model.base)


def base_fingerprint(base: str, setting: str = BASE) -> dict[str, str]:
    """Returns the content fingerprint of a base model: a digest of a local folder's files, a digest of a remote file
    system's checksums, or a hub model's commit as the hub or the local cache reports it.

    Raises InputError that names `setting` if there is no such model, or the files of a folder do not suit it.
    """
    with naming(setting):
        folder = _folder(base)
        if folder is None and "://" not in base:
            return {"hub": hub.split_name(base)[0], "commit": hub.commit_of(base)}
        filesystem, files = _files(base, folder, setting)
        if folder is None:
            return {
                "checksums": _digest({name: str(filesystem.checksum(path)) for name, path in files.items()})
            }
        return {"files": _digest({name: file_sha256(Path(path)) for name, path in files.items()})}


def _folder(base: str) -> Path | None:
    """Returns the local folder that `base` names; None for a hub name or a URL."""
    if base.startswith(PACKAGE):
        return _package_folder(base.removeprefix(PACKAGE))
    if "://" in base:
        return None
    path = Path(base)
    with contextlib.suppress(RuntimeError):  # ~ of an unknown user
        path = path.expanduser()
    if path.is_dir():
        return path
    if path.is_absolute() or base.startswith((".", "~")):
        raise InputError(f"there is no folder {base}; give a folder, a hub name, a URL or package:NAME")
    return None


def _package_folder(name: str) -> Path:
    """Returns the folder of an installed package that holds a checkpoint; the package's code is not run."""
    module = name.replace("-", "_")
    spec = importlib.util.find_spec(module) if module.isidentifier() else None
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"no package {name!r} is installed; install it with pip, or give a folder or a hub name"
        )
    for root in spec.submodule_search_locations:
        for config in sorted(Path(root).rglob(CONFIG_FILE)):
            if any(config.parent.glob("*.safetensors")):
                return config.parent
    raise InputError(f"package {name!r} contains no config.json with safetensors weights beside it")


def _files(base: str, folder: Path | None, setting: str) -> tuple[fsspec.AbstractFileSystem, dict[str, str]]:
    """Returns the file system of a local `folder`, else of the URL `base`, and the paths of the checkpoint's files and
    those of its modules, by their names within the folder. Raises InputError if they do not suit `setting`."""
    try:
        filesystem, root = (LocalFileSystem(), str(folder.absolute())) if folder else file_system(base)
        with errors_explained(base):
            filesystem.invalidate_cache()  # it may have listed the folder before
            listed = _listed(filesystem, root)
            files = {name: listed[name] for name in model_files(listed)}
            opened = {name: functools.partial(filesystem.open, path, "rb") for name, path in files.items()}
            check_files(base, opened, setting)
            modules = filesystem.cat_file(files[MODULES_FILE]) if MODULES_FILE in files else b"[]"
            for name in module_folders(base, modules):
                with contextlib.suppress(FileNotFoundError):  # a module may have neither settings nor weights
                    inside = _listed(filesystem, f"{root.rstrip('/')}/{name}")
                    files |= {f"{name}/{file}": inside[file] for file in model_files(inside, pickles=False)}
    except (OSError, ImportError, ValueError) as error:
        raise InputError(f"cannot read {base}: {error}") from error
    return filesystem, files


def _listed(filesystem: fsspec.AbstractFileSystem, folder: str) -> dict[str, str]:
    """Returns the paths of a folder's files by their names."""
    return {Path(path).name: path for path in sorted(filesystem.ls(folder, detail=False))}


def _digest(files: dict[str, str]) -> str:
    text = "\n".join(f"{name} {digest}" for name, digest in sorted(files.items()))
    return text_sha256(text)
