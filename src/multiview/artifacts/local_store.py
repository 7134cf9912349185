"""A store in a local folder."""

import contextlib
import errno
import os
import shutil
import stat
import uuid
from pathlib import Path
from typing import BinaryIO

from multiview.artifacts.base_store import Entry, Store
from multiview.errors import InputError

READ_AND_WRITE = 0o666
NO_HARD_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV, errno.ENOSYS)


class LocalStore(Store):
    """A store in a local folder. Exclusive creation uses `os.link`, which is atomic."""

    def __init__(self, root: Path):
        self.root = root.absolute()
        self.url = str(self.root)

    def create(self, path: str, data: bytes) -> bool:
        target = self.root / path
        temporary = self._temporary(target, data)
        try:
            os.link(temporary, target)
        except FileExistsError:
            # A network file system repeats a request whose answer was lost: then the existing link is ours.
            return temporary.stat().st_nlink == 2
        except OSError as error:
            if error.errno not in NO_HARD_LINKS:
                raise
            raise InputError(
                f"store {self.url} has no hard links ({error.strerror}), so artifacts cannot be "
                "published safely: use another disk, or a gs:// or s3:// bucket"
            ) from error
        finally:
            temporary.unlink()
        for folder in target.parents[: len(Path(path).parts)]:  # all of them may be new, up to the root
            sync(folder)
        return True

    def replace(self, path: str, data: bytes) -> None:
        target = self.root / path
        self._temporary(target, data).replace(target)
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            sync(target.parent)

    def read(self, path: str) -> bytes | None:
        try:
            return (self.root / path).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def entries(self, path: str) -> list[Entry]:
        entries = []
        for folder, _, names in os.walk(self.root / path):  # skips what is removed meanwhile
            for file in (Path(folder, name) for name in names):
                with contextlib.suppress(FileNotFoundError):
                    status = file.stat()
                    if stat.S_ISREG(status.st_mode):
                        name = file.relative_to(self.root).as_posix()
                        entries.append(Entry(name, status.st_size, status.st_mtime))
        return sorted(entries, key=lambda entry: entry.path)

    def folders(self, path: str) -> list[str]:
        try:
            return sorted(each.name for each in (self.root / path).iterdir() if each.is_dir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def remove(self, path: str) -> None:
        target = self.root / path
        if target.is_dir():
            shutil.rmtree(target, onerror=_unless_gone)
        else:
            with contextlib.suppress(FileNotFoundError):  # removed by somebody else
                target.unlink()
                sync(target.parent)

    def workspace(self, path: str) -> Path:
        return make_folder(self.root / path, exist_ok=False)

    def save(self, workspace: Path, path: str) -> None:
        if workspace != self.root / path:
            raise ValueError(f"{workspace} is not the workspace of {path}")
        sync_all(workspace)
        for folder in workspace.parents[:2]:
            sync(folder)

    def file(self, path: str) -> Path:
        """Returns where the file at `path` is. Raises FileNotFoundError."""
        if not (file := self.root / path).is_file():
            raise FileNotFoundError(f"{self.url}/{path}")
        return file

    def open(self, path: str) -> BinaryIO:
        return (self.root / path).open("rb")

    def _temporary(self, target: Path, data: bytes) -> Path:
        make_folder(target.parent)
        temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        return temporary


def _unless_gone(
    function: object, path: str, error: tuple[type[BaseException], BaseException, object]
) -> None:
    """Raises the error of `shutil.rmtree`, unless somebody else removed the file first."""
    if not isinstance(error[1], FileNotFoundError):
        raise error[1]


def make_folder(folder: Path, exist_ok: bool = True) -> Path:
    """Creates a folder and its parents, and syncs their names to disk."""
    new = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=exist_ok)
    for each in new:
        sync(each.parent)
    return folder


def rename_whole(part: Path, folder: Path) -> None:
    """Renames a filled folder atomically and durably: after a loss of power it has every file or is not there."""
    sync_all(part)
    part.rename(folder)
    sync(folder.parent)


def sync_all(folder: Path) -> None:
    """Makes everything below a folder survive a loss of power, but not the folder's own name."""
    for path in (*folder.rglob("*"), folder):
        sync(path)


def sync(path: Path) -> None:
    """Makes the bytes of a file, or the names in a folder, survive a loss of power, as far as the file system can."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL or not path.is_dir():  # some file systems sync no folders
            raise
    finally:
        os.close(descriptor)


def share(folder: Path) -> None:
    """Gives files their folder's read and write permissions: safetensors creates them for their owner alone."""
    granted = folder.stat().st_mode & READ_AND_WRITE
    for path in folder.rglob("*"):
        mode = path.stat().st_mode
        if path.is_file() and mode & granted != granted:
            path.chmod(mode & 0o7777 | granted)
